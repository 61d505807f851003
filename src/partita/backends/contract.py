"""The backend contract: all that a backend author has to know.

A backend is one class with a name and two methods::

    from partita import Backend

    class MyBackend(Backend):
        name = "mine"

        def why_not(self, node):
            return None if node.op_type == "Relu" else f"{node.op_type} is not Relu"

        def compile(self, region):
            return lambda x: (x.clip(0),)

Everything else on :class:`Backend` has a default. A node is an ``onnx_ir.Node``: ``op_type``,
``domain``, ``attributes``, ``inputs`` and ``outputs``; each input is ``None`` (left out) or a value
with ``name``, ``dtype``, ``shape`` and, for weights and constants, ``const_value``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, cast, final

import numpy as np
import onnx_ir as ir

from partita.errors import OptionError, PlanError, UnknownNameError
from partita.model import Model
from partita.subgraph import Subgraph

if TYPE_CHECKING:
    from partita.partitioning.plan import Plan

Node = ir.Node
Array = np.ndarray[Any, Any]
Judge = Callable[[Node], str | None]
"""Answers "why can't you run this node?": ``None`` for "I can", otherwise one sentence."""
Call = Callable[..., Sequence[Any]]
"""Arrays in graph order in, a sequence of arrays in graph order out."""

EMPTY: Mapping[str, Any] = MappingProxyType({})


@final
@dataclass(frozen=True)
class Region:
    """A convex set of nodes given to one backend.

    Attributes:
        name: ``"<backend>_<number>"``, unique in the plan.
        backend: Name of the backend that runs it.
        nodes: Names of its nodes in topological order.
        inputs: Names of values that flow in, in order of first use; no weights among them.
        outputs: Names of values that flow out, in order of production.
        parameters: Original names of the weights it reads, in order of first use.
        graph: Path of the graph it lies in: ``""`` for the main graph, otherwise
            ``"<node>.<attribute>"`` of the body.
        strategy: Name of the backend's strategy that claimed it.
        attributes: What the backend attached in review; ``compile`` sees it again.
        options: The backend's options as the user set them, defaults filled in.
        precision: Element type in which the backend computes float32 nodes.
        subgraph: The live nodes and values; ``None`` only in a plan not yet applied to a model.
    """

    name: str
    backend: str
    nodes: tuple[str, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    parameters: tuple[str, ...] = ()
    graph: str = ""
    strategy: str = ""
    attributes: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    options: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    precision: str = "float32"
    subgraph: Subgraph | None = field(default=None, repr=False, compare=False)

    @property
    def cut(self) -> Subgraph:
        """The live nodes and values.

        Raises:
            PlanError: The region stands in a plan that has not been applied to a model.
        """
        if self.subgraph is None:
            raise PlanError(
                f"region '{self.name}' has no model; give its plan one: Plan.load(path, model)"
            )
        return self.subgraph

    @property
    def ir_nodes(self) -> tuple[Node, ...]:
        """The live nodes in topological order."""
        return self.cut.nodes

    def parameter(self, name: str) -> Array:
        """Returns a weight by its original name."""
        for value in self.cut.parameters:
            if value.name == name and value.const_value is not None:
                return value.const_value.numpy()
        raise UnknownNameError("parameter", name, self.parameters)

    def to_model(self, weights_as_inputs: Collection[str] = ()) -> Model:
        """Returns the region as a model of its own; see :meth:`Subgraph.to_model`."""
        return self.cut.to_model(weights_as_inputs)


class Executable(ABC):
    """A compiled region. A plain function is accepted in its place.

    Calls may come from several threads at once.
    """

    @abstractmethod
    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Runs the region.

        Args:
            *inputs: Arrays in the order of ``region.inputs``, then the parameters that the
                backend does not own, in the order of ``region.parameters``.

        Returns:
            Arrays in the order of ``region.outputs``. The caller owns them.
        """

    def bind(self, inputs: Sequence[Array | None], outputs: Sequence[Array | None]) -> Call | None:
        """Returns a call with some inputs and outputs fixed to buffers, or ``None`` if it cannot.

        The buffers are C-contiguous and stay alive and in place as long as the call is used. The
        returned call takes only the inputs given as ``None``, writes the bound outputs into their
        buffers, and returns only the outputs given as ``None``. It is used by one thread at a time.
        """
        return None


@final
class FunctionExecutable(Executable):
    """Wraps a plain function."""

    def __init__(self, function: Call) -> None:
        self._function = function

    def __call__(self, *inputs: Any) -> Sequence[Any]:
        """Calls the function."""
        return self._function(*inputs)


@final
@dataclass(frozen=True)
class Strategy:
    """One pass of a backend with claims of its own; its nodes form regions of their own.

    Attributes:
        name: Stands in the plan beside the regions.
        why_not: Answers for one node, as :meth:`Backend.why_not` does.
    """

    name: str
    why_not: Judge


@final
@dataclass(frozen=True)
class Pattern:
    """A tree of ops that a backend takes only as a whole, written from its last op upwards.

    ``Pattern("Relu", (Pattern("Conv"),))`` matches a Relu whose first input comes from a Conv.
    Values between matched nodes must have no reader outside the match.

    Attributes:
        op_type: The op of this node.
        inputs: For each input position, the pattern of its producer, or ``None`` for anything.
        domain: The op's domain.
    """

    op_type: str
    inputs: tuple[Pattern | None, ...] = ()
    domain: str = ""


class Selector(ABC):
    """Grows regions the MXNet way: a seed, then its inputs, then its consumers, then a filter.

    One selector serves a whole model: for every seed ``reset`` is called first.
    """

    @abstractmethod
    def select(self, node: Node) -> bool:
        """Tells whether ``node`` may start a region."""

    def select_input(self, node: Node, producer: Node) -> bool:
        """Tells whether a region with ``node`` may grow to the producer of one of its inputs."""
        return False

    def select_output(self, node: Node, consumer: Node) -> bool:
        """Tells whether a region that holds ``node`` may grow to one of its consumers."""
        return False

    def filter(self, candidates: Sequence[Node]) -> Sequence[Node]:
        """Returns the candidates to keep."""
        return candidates

    def reset(self) -> None:  # noqa: B027 - a default, not a duty
        """Forgets what was seen while growing the last region."""


class Backend(ABC):
    """Says which nodes it can run and compiles regions of them.

    Attributes:
        name: Short, lower case; what users write.
        options: Every option with its default; the default's type is the option's type.
        connected: Whether a region must be one connected piece.
        aliases: Other names users may write (an engine's own name for itself).
    """

    name: ClassVar[str]
    options: Mapping[str, Any] = EMPTY
    connected: ClassVar[bool] = False
    aliases: ClassVar[tuple[str, ...]] = ()

    def __init__(self, **options: Any) -> None:
        """Sets options; text is converted to the option's type.

        Raises:
            UnknownNameError: There is no such option; the message lists near matches.
            OptionError: The value is not of the option's type.
        """
        known = type(self).options
        for key in options:
            if key not in known:
                raise UnknownNameError(f"option of backend '{self.name}'", key, known)
        self.options = MappingProxyType(
            {k: typed_option(self.name, k, options.get(k, d), d) for k, d in known.items()}
        )

    @abstractmethod
    def why_not(self, node: Node) -> str | None:
        """Returns ``None`` if the backend can run ``node``, otherwise a sentence that says why not.

        Example sentence: ``input 'i' is int8; Softmax needs a float dtype``.
        """

    @abstractmethod
    def compile(self, region: Region) -> Executable | Call:
        """Compiles a region together with its weights.

        Any exception makes the region fall to the next backend (``strict=True`` raises it).
        """

    def judge(self, model: Model) -> Judge:
        """Returns what answers for the nodes of ``model``; asked once a model and strategy.

        Override it where the engine answers for a whole model at once.
        """
        return self.why_not

    def strategies(self, model: Model) -> Sequence[Strategy]:
        """Returns the passes of this backend in order; a node goes to the first that takes it."""
        return (Strategy("", self.judge(model)),)

    def patterns(self) -> Sequence[Pattern]:
        """Returns patterns; if there are any, only matched groups of claimed nodes are taken."""
        return ()

    def selector(self, model: Model) -> Selector | None:
        """Returns a selector that grows the regions, or ``None`` for the fewest regions."""
        return None

    def group(self, node: Node) -> Hashable:
        """Returns a key; only nodes of one key may share a region."""
        return None

    def why_not_region(self, region: Region) -> str | Mapping[str, str] | None:
        """Reviews a region: a sentence refuses it, a mapping accepts it and attaches attributes."""
        return None

    def before_partition(self, model: Model) -> None:  # noqa: B027 - a default, not a duty
        """Is called before the first node is asked about."""

    def after_partition(self, plan: Plan) -> None:  # noqa: B027 - a default, not a duty
        """Is called with the finished plan."""

    def cost(self, region: Region) -> float | None:
        """Returns the estimated seconds of one run of ``region``, or ``None`` if unknown."""
        return None

    def owns(self, region: Region) -> Collection[str]:
        """Returns the parameters that the compiled form holds; others are passed at run time."""
        return region.parameters

    def inplace(self, region: Region) -> Mapping[str, str]:
        """Returns, for outputs that may overwrite an input, that input: ``{output: input}``."""
        return EMPTY

    def precision(self) -> str:
        """Returns the element type in which float32 nodes are computed."""
        return "float32"


def typed_option(backend: str, key: str, value: Any, default: Any) -> Any:
    """Returns ``value`` as the type of ``default``; text (from a command line) is parsed.

    Raises:
        OptionError: It cannot be read as that type.
    """
    wanted = cast("type[Any]", type(default))
    if default is None or (type(value) is wanted):
        return value
    if wanted is bool and isinstance(value, str):
        words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
        if value.lower() in words:
            return words[value.lower()]
    elif wanted in (int, float) and isinstance(value, (str, int)) and not isinstance(value, bool):
        try:
            return wanted(value)
        except ValueError:
            pass
    elif wanted is tuple and isinstance(value, (str, list)):
        return tuple(value.split(",") if isinstance(value, str) else cast("list[Any]", value))
    raise OptionError(
        f"option '{key}' of backend '{backend}' is {value!r}; it needs a {wanted.__name__}, "
        f"as its default {default!r}"
    )
