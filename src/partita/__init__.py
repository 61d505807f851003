"""partita cuts a neural network into subgraphs and gives each to the backend that runs it best."""

__version__ = "0.1.0"
