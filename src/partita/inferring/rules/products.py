"""Matrix products, Einsum, attention, recurrent cells and transforms."""

from __future__ import annotations

from partita.inferring.dims import (
    Dim,
    Dims,
    add,
    broadcast,
    broadcast_shapes,
    divide,
    floor_divide,
    is_unknown,
    multiply,
    subtract,
    unknown,
)
from partita.inferring.site import Answer, NotInferableError, Rule, Site, axis_of

_DFT_WITH_AXIS_INPUT = 20


def matrix_product(left: Dims, right: Dims) -> Dims:
    """Returns the shape of a product by numpy's rules.

    Raises:
        NotInferableError: One is a scalar, or their inner dimensions differ.
    """
    if not left or not right:
        raise NotInferableError
    require_equal(left[-1], right[-2:][0])
    rows: Dims = left[-2:-1]
    columns: Dims = right[-1:] if len(right) > 1 else ()
    return (*broadcast_shapes((left[:-2], right[:-2])), *rows, *columns)


def require_equal(one: Dim, other: Dim) -> None:
    """Raises NotInferableError if two dimensions are different numbers."""
    if isinstance(one, int) and isinstance(other, int) and one != other:
        raise NotInferableError


def _matmul(left: int, right: int) -> Rule:
    def rule(site: Site) -> Answer:
        return [matrix_product(site.dims(left), site.dims(right))]

    return rule


def _gemm(site: Site) -> Answer:
    left, right = site.dims(0), site.dims(1)
    if len(left) != 2 or len(right) != 2:
        raise NotInferableError
    rows, inner = reversed(left) if site.number("transA", 0) else left
    other, columns = reversed(right) if site.number("transB", 0) else right
    require_equal(inner, other)
    return [(rows, columns)]


def einsum_sizes(equation: str, shapes: list[Dims]) -> tuple[dict[str, Dim], Dims, str]:
    """Returns the size of each letter, the broadcast shape of ``...``, and the output's letters.

    Raises:
        NotInferableError: The equation does not fit the shapes.
    """
    terms, arrow, output = equation.replace(" ", "").partition("->")
    sizes: dict[str, Dim] = {}
    ellipses: list[Dims] = []
    for term, shape in zip(terms.split(","), shapes, strict=True):
        head, dots, tail = term.partition("...")
        middle = len(shape) - len(head) - len(tail)
        if middle < 0 or (middle > 0 and not dots):
            raise NotInferableError
        if dots:
            ellipses.append(shape[len(head) : len(head) + middle])
        letters = zip(head + tail, shape[: len(head)] + shape[len(head) + middle :], strict=True)
        for letter, size in letters:
            sizes[letter] = broadcast(sizes[letter], size) if letter in sizes else size
    if not arrow:
        used = terms.replace(",", "").replace(".", "")
        once = sorted(letter for letter in set(used) if used.count(letter) == 1)
        output = ("..." if "..." in terms else "") + "".join(once)
    return sizes, broadcast_shapes(ellipses), output


def _einsum(site: Site) -> Answer:
    shapes = [site.dims(i) for i in range(len(site.node.inputs))]
    sizes, ellipsis, output = einsum_sizes(site.text("equation", ""), shapes)
    head, dots, tail = output.partition("...")
    middle = ellipsis if dots else ()
    return [(*(sizes[c] for c in head), *middle, *(sizes[c] for c in tail))]


def _attention(site: Site) -> Answer:
    query, key, value = site.dims(0), site.dims(1), site.dims(2)
    heads = site.number("q_num_heads", 0)
    groups = site.number("kv_num_heads", 0) or heads
    if len(query) == 4:
        batch, query_heads, length, _ = query
        groups_dim, keys, size, value_size = key[1], key[2], key[3], value[3]
    elif len(query) == 3 and heads > 0 and groups > 0:
        batch, length, _ = query
        query_heads, groups_dim, keys = heads, groups, key[1]
        size, value_size = _share(key[2], groups), _share(value[2], groups)
    else:
        raise NotInferableError
    if site.has(4):
        past = site.dims_if_known(4)
        keys = unknown() if past is None else add(keys, past[2])
    output: Dims = (batch, query_heads, length, value_size)
    if len(query) == 3:
        output = (batch, length, multiply(query_heads, value_size))
    return [
        output,
        (batch, groups_dim, keys, size),
        (batch, groups_dim, keys, value_size),
        (batch, query_heads, length, keys),
    ]


def _flex_attention(site: Site) -> Answer:
    query, value = site.dims(0), site.dims(2)
    return [(*query[:3], value[3])]


def _linear_attention(site: Site) -> Answer:
    query, key, value = site.dims(0), site.dims(1), site.dims(2)
    heads, groups = site.number("q_num_heads", 0), site.number("kv_num_heads", 0)
    if heads < 1 or groups < 1:
        raise NotInferableError
    key_size, value_size = _share(key[2], groups), _share(value[2], groups)
    return [
        (query[0], query[1], multiply(heads, value_size)),
        (query[0], groups, key_size, value_size),
    ]


def _share(size: Dim, parts: int) -> Dim:
    exact = divide(size, parts)
    return unknown() if exact is None else exact


def _recurrent(site: Site) -> Answer:
    dims = site.dims(0)
    directions = 2 if site.text("direction", "forward") == "bidirectional" else 1
    recurrence = site.dims_if_known(2)
    if "hidden_size" in site.node.attributes:
        hidden: Dim = site.number("hidden_size", 0)
    else:
        hidden = recurrence[2] if recurrence is not None else unknown()
    if len(dims) != 3:
        raise NotInferableError
    if site.number("layout", 0) == 1:
        batch, length = dims[0], dims[1]
        state: Dims = (batch, directions, hidden)
        return [(batch, length, directions, hidden), state, state]
    length, batch = dims[0], dims[1]
    state = (directions, batch, hidden)
    return [(length, directions, batch, hidden), state, state]


def _fourier(site: Site) -> Answer:
    dims = list(site.dims(0))
    onesided, inverse = site.number("onesided", 0) == 1, site.number("inverse", 0) == 1
    dims[-1] = 1 if onesided and inverse else 2
    if not onesided and not site.has(1):
        return [tuple(dims)]
    try:
        axis = axis_of(_fourier_axis(site), len(dims))
    except NotInferableError:
        return [(*(unknown() for _ in dims[:-1]), dims[-1])]
    if site.has(1):
        (length,) = site.elements(1)
        dims[axis] = unknown() if length is None or isinstance(length, float) else length
    elif inverse:
        dims[axis] = multiply(subtract(dims[axis], 1), 2)
    if onesided and not inverse:
        dims[axis] = add(floor_divide(dims[axis], 2), 1)
    return [tuple(dims)]


def _fourier_axis(site: Site) -> int:
    if site.opset < _DFT_WITH_AXIS_INPUT:
        return site.number("axis", 1)
    return site.integers(2)[0] if site.has(2) else -2


def _short_fourier(site: Site) -> Answer:
    signal = site.dims(0)
    (step,) = site.elements(1)
    if site.has(3):
        (length,) = site.elements(3)
    elif site.has(2):
        (length,) = site.dims(2)
    else:
        length = signal[1]
    if length is None or step is None or isinstance(length, float) or isinstance(step, float):
        raise NotInferableError
    frames = add(floor_divide(subtract(signal[1], length), step), 1)
    bins = add(floor_divide(length, 2), 1) if site.number("onesided", 1) == 1 else length
    return [(signal[0], frames, bins, 2)]


def _window(site: Site) -> Answer:
    (size,) = site.elements(0)
    return [(unknown() if size is None or isinstance(size, float) else size,)]


def _mel_weights(site: Site) -> Answer:
    (bins,) = site.integers(0)
    (length,) = site.elements(1)
    if length is None or isinstance(length, float) or is_unknown(length):
        return [(unknown(), bins)]
    return [(add(floor_divide(length, 2), 1), bins)]


RULES: dict[str, Rule] = {
    "Attention": _attention,
    "BlackmanWindow": _window,
    "DFT": _fourier,
    "Einsum": _einsum,
    "FlexAttention": _flex_attention,
    "GRU": _recurrent,
    "Gemm": _gemm,
    "HammingWindow": _window,
    "HannWindow": _window,
    "LSTM": _recurrent,
    "LinearAttention": _linear_attention,
    "MatMul": _matmul(0, 1),
    "MatMulInteger": _matmul(0, 1),
    "MelWeightMatrix": _mel_weights,
    "QLinearMatMul": _matmul(0, 3),
    "RNN": _recurrent,
    "STFT": _short_fourier,
}
