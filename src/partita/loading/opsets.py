"""Which operator sets a model or function imports, and whether they can be taken."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from partita.errors import InvalidModelError, UnsupportedModelError, printable
from partita.ops import schemas

FIRST_IR_WITH_OPSETS = 3
"""Models of an older IR version import nothing and mean opset 1."""


def imports(entries: Iterable[onnx.OperatorSetIdProto], ir_version: int) -> dict[str, int]:
    """Returns ``{domain: version}`` with the default domain written ``""``.

    Raises:
        InvalidModelError: A domain is imported in two versions, or a version is below 1.
        UnsupportedModelError: A version is newer than the installed ``onnx`` knows.
    """
    found: dict[str, int] = {}
    for entry in entries:
        domain, version = schemas.canonical_domain(_text(entry.domain)), entry.version
        if found.setdefault(domain, version) != version:
            raise InvalidModelError(
                f"imports domain '{printable(domain)}' in versions {found[domain]} and {version}"
            )
        _check(domain, version)
    if not found and ir_version < FIRST_IR_WITH_OPSETS:
        found[""] = 1
    return found


def _check(domain: str, version: int) -> None:
    if version < 1:
        raise InvalidModelError(
            f"imports opset {version} of domain '{printable(domain)}'; versions start at 1"
        )
    latest = schemas.latest_opset(domain)
    if domain in schemas.known_domains() and version > latest:
        raise UnsupportedModelError(
            f"imports opset {version} of domain '{printable(domain)}'; the installed onnx "
            f"{onnx.__version__} knows up to {latest}: install a newer onnx or export with an "
            "older opset"
        )


def _text(domain: str) -> str:
    if not isinstance(domain, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidModelError("imports a domain whose name is not UTF-8")
    return domain
