"""Lets ``python -m partita`` be the command line."""

from __future__ import annotations

from partita.cli.app import main

if __name__ == "__main__":
    main()
