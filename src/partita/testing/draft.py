"""A model under construction: what the random generator writes into."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
import onnx_ir as ir

from partita.model import Model

OPSET = 18
IR_VERSION = 10
DYNAMIC_SIZE = 3
"""Size of every symbolic dimension in the arrays that ``feeds`` makes."""
LARGEST_VALUE = 64.0
"""No drawn float or integer exceeds this magnitude: results stay tame on every engine."""
LARGEST_SIZE = 600
"""No drawn tensor has more elements."""
INPUT_BOUND = 2
ODD_NAMES = ("a b", "x:0", "0", "größe", "if", "net/block[1]/*", "p.q", "'quoted'", "-", "层")

DTYPES: Mapping[str, ir.DataType] = {
    "float32": ir.DataType.FLOAT,
    "int32": ir.DataType.INT32,
    "int64": ir.DataType.INT64,
    "bool": ir.DataType.BOOL,
}
FLOAT, INT32, INT64, BOOL = "float32", "int32", "int64", "bool"
INTEGERS = (INT32, INT64)
NUMBERS = (FLOAT, INT32, INT64)


@final
@dataclass(frozen=True, eq=False)
class Drawn:
    """A value of a draft and what is known of the numbers in it.

    Attributes:
        value: The value.
        dtype: Its element type, one of ``DTYPES``.
        sizes: Its sizes under the arrays that ``feeds`` makes.
        bound: The largest magnitude an element can have.
        exact: Whether every engine computes the same bits (no float arithmetic upstream), so
            that comparing, rounding and sorting it cannot tell engines apart.
        flexible: Whether a symbolic dimension lies upstream.
    """

    value: ir.Value
    dtype: str
    sizes: tuple[int, ...]
    bound: float
    exact: bool
    flexible: bool = False

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.sizes)

    @property
    def count(self) -> int:
        """Number of elements."""
        return math.prod(self.sizes)


@final
class Names:
    """Gives out names that are unique in a whole model, some of them odd."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._given = 0

    def __call__(self, stem: str) -> str:
        """Returns a new name, starting with ``stem`` or, one time in twelve, with something odd."""
        self._given += 1
        odd = self._rng.random() < 1 / 12
        return f"{self._rng.choice(ODD_NAMES) if odd else stem}_{self._given}"


@final
class Draft:
    """A graph under construction with a pool of values to draw operands from.

    Attributes:
        rng: The only source of randomness.
        pool: Values that later nodes may read; in a body, also those of the graphs around it.
        depth: How many bodies lie around this graph.
        dtypes: The element types that may occur.
    """

    def __init__(
        self, rng: random.Random, dtypes: Sequence[str] = tuple(DTYPES), parent: Draft | None = None
    ) -> None:
        self.rng = rng
        self.dtypes = tuple(dtypes)
        self.pool: list[Drawn] = [] if parent is None else list(parent.pool)
        self.depth: int = 0 if parent is None else parent.depth + 1
        self._names: Names = Names(rng) if parent is None else parent._names
        self._inputs: list[ir.Value] = []
        self._nodes: list[ir.Node] = []
        self._constants: list[Drawn] = []
        self._outer: list[Drawn] = [] if parent is None else [*parent._outer, *parent._constants]
        self._made: list[Drawn] = []

    @property
    def size(self) -> int:
        """Number of nodes so far, those in bodies not counted."""
        return len(self._nodes)

    @property
    def made(self) -> Sequence[Drawn]:
        """What the nodes of this graph produced, in order."""
        return self._made

    def body(self) -> Draft:
        """Returns an empty draft inside this one, which may read all of this one's values."""
        return Draft(self.rng, self.dtypes, self)

    def input(
        self,
        dtype: str,
        sizes: Sequence[int],
        symbol: str | None = None,
        *,
        bound: float = INPUT_BOUND,
        exact: bool = True,
    ) -> Drawn:
        """Adds a graph input; ``symbol`` names its first dimension and leaves it open."""
        dims = [symbol if symbol and i == 0 else size for i, size in enumerate(sizes)]
        value = _value(self._names("input"), dtype, ir.Shape(dims))
        drawn = Drawn(value, dtype, tuple(sizes), bound, exact, symbol is not None)
        self._inputs.append(value)
        self.pool.append(drawn)
        return drawn

    def constant(self, array: np.ndarray[Any, Any]) -> Drawn:
        """Adds a weight; an equal one that is there already is sometimes shared."""
        for other in (*self._constants, *self._outer):
            held = other.value.const_value
            if (
                held is not None
                and other.dtype == array.dtype.name
                and np.array_equal(held.numpy(), array)
                and self.rng.random() < 0.7
            ):
                return other
        name = self._names("weight")
        value = _value(name, array.dtype.name, ir.Shape(array.shape))
        value.const_value = ir.tensor(array, name=name)
        bound = float(np.abs(array).max()) if array.size and array.dtype != np.bool_ else 1.0
        drawn = Drawn(value, array.dtype.name, array.shape, bound, True)
        self._constants.append(drawn)
        return drawn

    def integers(self, *numbers: int) -> Drawn:
        """Adds a weight of int64 numbers: axes, sizes, indices."""
        return self.constant(np.array(numbers, np.int64))

    def weight(self, sizes: Sequence[int], scale: float = 1.0, dtype: str = FLOAT) -> Drawn:
        """Adds a weight of random numbers within ``scale``; whole numbers for integer types."""
        generator = np.random.default_rng(self.rng.randrange(2**32))
        if dtype == FLOAT:
            return self.constant(
                np.asarray(generator.uniform(-scale, scale, sizes)).astype(np.float32)
            )
        if dtype == BOOL:
            return self.constant(np.asarray(generator.random(sizes) < 0.5))
        return self.constant(np.asarray(generator.integers(-2, 3, sizes)).astype(dtype))

    def pick(self, accept: Callable[[Drawn], bool]) -> Drawn | None:
        """Returns a random value of the pool that ``accept`` likes, late ones more often."""
        liked = [drawn for drawn in self.pool if accept(drawn)]
        if not liked:
            return None
        return liked[max(self.rng.randrange(len(liked)), self.rng.randrange(len(liked)))]

    def node(
        self,
        op_type: str,
        inputs: Sequence[Drawn | None],
        outputs: Sequence[tuple[str, Sequence[int], float, bool]],
        attributes: Mapping[str, Any] | None = None,
        *,
        rigid: bool = False,
    ) -> list[Drawn]:
        """Adds a node.

        Args:
            op_type: The op, of the default domain.
            inputs: Its operands, ``None`` for left out.
            outputs: ``(dtype, sizes, bound, exact)`` for each output.
            attributes: Attributes as Python values or graphs.
            rigid: The output's shape does not depend on a symbolic dimension.
        """
        flexible = not rigid and any(d is not None and d.flexible for d in inputs)
        made = [
            Drawn(
                _value(
                    self._names(op_type.lower()),
                    dtype,
                    ir.Shape([None] * len(sizes) if flexible else sizes),
                ),
                dtype,
                tuple(sizes),
                bound,
                exact,
                flexible,
            )
            for dtype, sizes, bound, exact in outputs
        ]
        self._nodes.append(
            ir.Node(
                "",
                op_type,
                [None if d is None else d.value for d in inputs],
                ir.convenience.convert_attributes(attributes or {}),
                outputs=[d.value for d in made],
                name=self._names(op_type),
                version=OPSET,
            )
        )
        self._made.extend(made)
        self.pool.extend(made)
        return made

    def graph(self, outputs: Sequence[Drawn], name: str) -> ir.Graph:
        """Returns the finished graph."""
        return ir.Graph(
            self._inputs,
            [d.value for d in outputs],
            nodes=self._nodes,
            initializers=[c.value for c in self._constants],
            opset_imports={"": OPSET} if self.depth == 0 else {},
            name=name,
        )

    def model(self, outputs: Sequence[Drawn], name: str) -> Model:
        """Returns the finished model."""
        return Model(ir.Model(self.graph(outputs, name), ir_version=IR_VERSION), f"<{name}>")


def _value(name: str, dtype: str, shape: ir.Shape) -> ir.Value:
    return ir.Value(name=name, type=ir.TensorType(DTYPES[dtype]), shape=shape)
