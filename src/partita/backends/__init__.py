"""What a backend is, which ones are installed, and the ones that come with partita."""
