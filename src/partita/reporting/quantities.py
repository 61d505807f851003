"""Numbers with units, as people read them."""

from __future__ import annotations


def plural(count: int, noun: str, many: str = "") -> str:
    """Returns a count with its noun: ``1 node``, ``1,200 nodes``; ``many`` if not with an s."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"


def byte_text(count: int) -> str:
    """Returns a number of bytes in decimal units: ``512 B``, ``1.2 MB``."""
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 999.5:
            return f"{count} B" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.4g} TB"


def count_text(count: float) -> str:
    """Returns a large number shortened: ``950``, ``1.5 M``, ``3.1 G``."""
    size = float(count)
    for unit in ("", " k", " M", " G"):
        if abs(size) < 999.5:
            return f"{size:.3g}{unit}"
        size /= 1000
    return f"{size:,.4g} T"


def time_text(seconds: float) -> str:
    """Returns a duration in the unit that suits it: ``12.3 µs``, ``4.56 ms``, ``7.89 s``."""
    if seconds < 999.5e-6:
        return f"{seconds * 1e6:.3g} µs"
    if seconds < 999.5e-3:
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 1000 else f"{seconds:,.0f} s"


def share_text(part: float, whole: float) -> str:
    """Returns ``part`` of ``whole`` in percent; ``-`` of nothing."""
    return f"{part / whole:.1%}" if whole else "-"
