"""Every exception that partita raises on purpose.

PartitaError                      anything below; carries ``exit_code`` for the command line
├── ModelError (ValueError)       the model itself: names file, node and value
│   ├── InvalidModelError         breaks a rule of its format (cycle, duplicate name …)
│   ├── ExternalDataError         weights outside the file: wrong place, kind or length
│   ├── LimitError                larger, deeper or more expanding than the limits allow
│   └── UnsupportedModelError     legal, but partita cannot take it
├── UsageError (ValueError)       what the caller asked for
│   ├── UnknownNameError          nothing has that name; lists near matches
│   ├── OptionError               an option's value is not of its type
│   ├── InputError                arrays given to a program do not fit its inputs
│   └── PlanError                 a plan file is damaged, or does not fit its model
├── BackendError (RuntimeError)   a backend
│   ├── BackendUnavailableError   known, but its engine is not installed
│   ├── ContractError             the plugin breaks the contract; found at the door
│   ├── CompileError              a region could not be compiled
│   └── RunError                  a compiled step failed while running
├── MismatchError                 two runs that should agree do not
└── UnsoundPlanError              partita's own checker refused a plan: a bug of partita
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import ClassVar


class PartitaError(Exception):
    """Base of every error that partita raises on purpose."""

    exit_code: ClassVar[int] = 3


class ModelError(PartitaError, ValueError):
    """A model cannot be used; the message names the file, the node and the value.

    Attributes:
        message: What is wrong, without the place.
        file: The model's path or a description of where it came from.
        node: The node at fault, if one is.
        value: The value (tensor) at fault, if one is.
    """

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        node: str | None = None,
        value: str | None = None,
    ) -> None:
        self.message, self.file, self.node, self.value = message, file, node, value
        where = [f"{file}: " if file else ""]
        if node:
            where.append(f"node '{printable(node)}': ")
        if value:
            where.append(f"value '{printable(value)}': ")
        super().__init__("".join(where) + message)


class InvalidModelError(ModelError):
    """The model breaks a rule of its format."""


class ExternalDataError(ModelError):
    """Weights stored beside the model are missing, misplaced or of the wrong length."""


class LimitError(ModelError):
    """The model is larger, deeper or more expanding than the limits allow."""


class UnsupportedModelError(ModelError):
    """The model is legal, but partita cannot take it."""


class UsageError(PartitaError, ValueError):
    """What the caller asked for cannot be done."""

    exit_code = 2


class UnknownNameError(UsageError):
    """There is no backend, option, op, rule or value of that name.

    Example message: ``no backend is named 'onnxrutime'; did you mean 'onnxruntime'?``
    """

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        known = sorted(known)
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
        if close:
            hint = "did you mean " + " or ".join(f"'{c}'" for c in close) + "?"
        elif known:
            shown = ", ".join(known[:20]) + (", …" if len(known) > 20 else "")
            hint = f"known: {shown}"
        else:
            hint = "there are none"
        self.kind, self.name, self.close = kind, name, tuple(close)
        super().__init__(f"no {kind} is named '{printable(name)}'; {hint}")


class OptionError(UsageError):
    """An option's value is not of its type."""


class InputError(UsageError):
    """The arrays given to a program do not fit its inputs."""


class PlanError(UsageError):
    """A plan file is damaged, or does not fit its model."""


class BackendError(PartitaError, RuntimeError):
    """A backend failed; the message names it."""


class BackendUnavailableError(BackendError):
    """The backend is known, but its engine is not installed."""


class ContractError(BackendError):
    """A plugin breaks the backend contract; its author has to mend it."""


class CompileError(BackendError):
    """A region could not be compiled."""


class RunError(BackendError):
    """A compiled step failed while running."""


class MismatchError(PartitaError):
    """Two runs that should agree do not."""

    exit_code = 1


class UnsoundPlanError(PartitaError):
    """partita's own checker refused a plan; please report it.

    Attributes:
        finding: What the checker found, without the request to report it.
    """

    def __init__(self, finding: str) -> None:
        self.finding = finding
        super().__init__(f"{finding}; this is a bug of partita, please report it")


def printable(text: str, limit: int = 200) -> str:
    """Returns ``text`` without control characters and no longer than ``limit`` characters.

    Names come from files that anyone may have written; they end up on terminals.
    """
    clean = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text[: limit + 1])
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
