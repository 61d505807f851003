"""What a backend author tests with: the conformance kit and generators of models.

``BackendConformance`` asks a backend everything the contract promises; ``random_model``,
``hazard``, ``chain``, ``random_dag`` and ``residual_blocks`` make models; ``feeds`` makes their
inputs. ``partita.testing.onnx_backend`` runs ONNX's own tests through partita, and
``partita.testing.strategies`` wraps the generators for hypothesis.
"""

from partita.testing.conformance import BackendConformance
from partita.testing.gaps import Gap, never, notimpl, notyet
from partita.testing.graphs import chain, feeds, random_dag, random_model, residual_blocks
from partita.testing.hazards import HAZARDS, hazard

__all__ = [
    "HAZARDS",
    "BackendConformance",
    "Gap",
    "chain",
    "feeds",
    "hazard",
    "never",
    "notimpl",
    "notyet",
    "random_dag",
    "random_model",
    "residual_blocks",
]
