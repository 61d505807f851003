from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from partita.inferring import dims
from partita.inferring.dims import Dim, Formula

NAMES = ("N", "batch", "s0", "L.1")
VALUES = st.fixed_dictionaries({name: st.integers(0, 50) for name in NAMES})
LEAVES = st.one_of(st.integers(-9, 30), st.sampled_from(NAMES).map(dims.symbol))


def combined(children):
    pairs = st.tuples(children, children)
    return st.one_of(
        pairs.map(lambda p: dims.add(*p)),
        pairs.map(lambda p: dims.subtract(*p)),
        pairs.map(lambda p: dims.multiply(*p)),
    )


FORMULAS = st.recursive(LEAVES, combined, max_leaves=5)


def known(dim: Dim) -> bool:
    return isinstance(dim, int) or not dim.anonymous


@given(FORMULAS, FORMULAS, VALUES)
def test_formulas_compute_what_numbers_compute(one, other, values):
    assume(known(one) and known(other))
    left, right = dims.evaluate(one, values), dims.evaluate(other, values)
    for operation, wanted in (
        (dims.add, left + right),
        (dims.subtract, left - right),
        (dims.multiply, left * right),
    ):
        result = operation(one, other)
        assert not known(result) or dims.evaluate(result, values) == wanted


@given(FORMULAS, FORMULAS, VALUES)
def test_an_exact_quotient_times_its_divisor_is_the_dividend(one, other, values):
    assume(known(one) and known(other))
    product = dims.multiply(one, other)
    for dividend in (product, one):
        quotient = dims.divide(dividend, other)
        if quotient is not None and known(quotient) and known(dividend):
            back = dims.multiply(quotient, other)
            assert dims.evaluate(back, values) == dims.evaluate(dividend, values)


@given(FORMULAS, st.sampled_from(NAMES), st.integers(1, 9))
def test_a_product_divides_by_its_factors(formula, name, number):
    divisor = dims.multiply(dims.symbol(name), number)
    product = dims.multiply(formula, divisor)
    # Nothing can be said of no elements in N columns.
    assert not known(product) or formula == 0 or dims.divide(product, divisor) == formula


@given(FORMULAS)
def test_text_of_a_formula_reads_as_the_formula(formula):
    assume(known(formula))
    assert dims.parse(str(formula)) == formula


@given(FORMULAS)
def test_equal_formulas_have_one_form(formula):
    assert dims.subtract(dims.add(formula, 7), 7) == formula or not known(formula)
    assert isinstance(dims.subtract(formula, formula), int) or not known(formula)


@given(st.text(max_size=40))
def test_any_name_of_a_dimension_can_be_read(text):
    parsed = dims.parse(text)
    assert isinstance(parsed, (int, Formula))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("N", "N"),
        ("2*N + 1", "2*N + 1"),
        ("1+N*2", "2*N + 1"),
        ("N*M*N", "M*N*N"),
        ("N - N", "0"),
        ("12", "12"),
        ("-N", "-N"),
        ("N +", "N +"),
        ("2 N", "2 N"),
        ("batch size", "batch size"),
        ("floor(N/2)", "floor(N/2)"),
        ("é*", "é*"),
        ("9" * 40, "9" * 40),
    ],
)
def test_names_are_read_as_sums_of_products_or_as_they_stand(text, shown):
    assert str(dims.parse(text)) == shown


def test_quotients_that_are_not_exact_become_names():
    n = dims.symbol("N")
    assert str(dims.floor_divide(dims.add(n, 1), 2)) == "floor((N + 1)/2)"
    assert str(dims.ceil_divide(n, 2)) == "-floor(-N/2)"
    assert dims.floor_divide(dims.multiply(n, 4), 2) == dims.multiply(n, 2)
    assert dims.floor_divide(7, 2) == 3
    assert dims.ceil_divide(7, 2) == 4


@given(
    st.lists(st.sampled_from([1, 2, 3, 5]), max_size=4),
    st.lists(st.sampled_from([1, 2, 3, 5]), max_size=4),
)
def test_broadcasting_is_numpy_s(one, other):
    import numpy as np

    try:
        wanted = np.broadcast_shapes(one, other)
    except ValueError:
        with pytest.raises(ValueError, match="do not broadcast"):
            dims.broadcast_shapes([tuple(one), tuple(other)])
        return
    assert dims.broadcast_shapes([tuple(one), tuple(other)]) == wanted


def test_broadcasting_with_unknowns():
    n, m = dims.symbol("N"), dims.symbol("M")
    assert dims.broadcast(n, 1) == n
    assert dims.broadcast(n, n) == n
    assert dims.broadcast(n, 5) == 5
    assert dims.is_unknown(dims.broadcast(n, m))
    assert dims.broadcast(dims.unknown(), 3) == 3


def test_no_two_anonymous_unknowns_are_equal():
    assert dims.unknown() != dims.unknown()


def test_formulas_that_grow_too_large_become_unknown():
    total: Dim = 0
    for index in range(10):
        total = dims.add(total, dims.symbol(f"a{index}"))
    assert dims.is_unknown(total)
    power: Dim = 1
    for _ in range(10):
        power = dims.multiply(power, dims.symbol("N"))
    assert dims.is_unknown(power)


def test_extremes():
    n = dims.symbol("N")
    assert dims.smallest(3, 5) == 3
    assert dims.largest(3, 5) == 5
    assert str(dims.smallest(n, 8)) == "min(8, N)"
    assert dims.largest(n, n) == n
    assert dims.evaluate(n, {}) is None
