"""What a rule may ask about the node that it infers, and how it answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import onnx_ir as ir

from partita.inferring.dims import Dim, Dims

if TYPE_CHECKING:
    from partita.inferring.state import State

Element = Dim | float | None
"""One element of a small tensor whose content is followed: a number, a formula, or not known."""
Elements = tuple[Element, ...]


class NotInferableError(Exception):
    """A rule needs what is not known; the outputs stay as the file declares them."""


@final
@dataclass(frozen=True)
class Known:
    """Type and shape of one value, as far as they are known.

    Attributes:
        type: The type.
        dims: The shape; of a sequence or an optional, that of its elements.
    """

    type: ir.TypeProtocol | None
    dims: Dims | None


Answer = Sequence[Dims | Known | None]
"""For each output: its shape, or type and shape, or ``None``. Missing ones count as ``None``."""


@final
class Site:
    """One node whose outputs are to be inferred.

    Attributes:
        node: The node.
        state: What is known of the values made so far.
    """

    __slots__ = ("node", "state")

    def __init__(self, node: ir.Node, state: State) -> None:
        self.node, self.state = node, state

    @property
    def opset(self) -> int:
        """The opset of the node's domain."""
        return self.node.version or 0

    def has(self, index: int) -> bool:
        """Tells whether input ``index`` is there."""
        return index < len(self.node.inputs) and self.node.inputs[index] is not None

    def value(self, index: int) -> ir.Value:
        """Returns input ``index``.

        Raises:
            NotInferableError: It is left out.
        """
        value = self.node.inputs[index] if index < len(self.node.inputs) else None
        if value is None:
            raise NotInferableError
        return value

    def dims(self, index: int) -> Dims:
        """Returns the shape of input ``index``.

        Raises:
            NotInferableError: It is left out or its rank is not known.
        """
        dims = self.state.dims.get(self.value(index))
        if dims is None:
            raise NotInferableError
        return dims

    def dims_if_known(self, index: int) -> Dims | None:
        """Returns the shape of input ``index``, or ``None``."""
        return self.state.dims.get(self.value(index)) if self.has(index) else None

    def known(self, index: int) -> Known:
        """Returns type and shape of input ``index``."""
        value = self.value(index)
        return Known(value.type, self.state.dims.get(value))

    def elements(self, index: int) -> Elements:
        """Returns the elements of a small integer or float tensor; some may be ``None``.

        Raises:
            NotInferableError: Nothing is known of them.
        """
        found = self.state.elements(self.value(index))
        if found is None:
            raise NotInferableError
        return found

    def elements_or_none(self, index: int, count: int) -> Elements:
        """Returns the elements of input ``index``, or ``count`` unknown ones."""
        found = self.state.elements(self.value(index))
        return (None,) * count if found is None else found

    def integers(self, index: int) -> tuple[int, ...]:
        """Returns the elements of input ``index`` if all are plain integers.

        Raises:
            NotInferableError: They are not.
        """
        found = self.elements(index)
        numbers = tuple(e for e in found if isinstance(e, int))
        if len(numbers) != len(found):
            raise NotInferableError
        return numbers

    def number(self, name: str, default: int) -> int:
        """Returns an integer attribute."""
        attribute = self.node.attributes.get(name)
        return default if attribute is None else attribute.as_int()

    def numbers(self, name: str) -> tuple[int, ...] | None:
        """Returns an attribute that lists integers, or ``None`` if it is not there."""
        attribute = self.node.attributes.get(name)
        return None if attribute is None else tuple(attribute.as_ints())

    def text(self, name: str, default: str) -> str:
        """Returns a text attribute."""
        attribute = self.node.attributes.get(name)
        return default if attribute is None else attribute.as_string()


Rule = Callable[[Site], Answer]


def axis_of(axis: int, rank: int) -> int:
    """Returns ``axis`` counted from the front.

    Raises:
        NotInferableError: There is no such axis.
    """
    if not -rank <= axis < rank:
        raise NotInferableError
    return axis % rank
