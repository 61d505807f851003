from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from partita.loading.sorting import find_cycle, stable_order

GRAPHS = st.integers(1, 12).flatmap(
    lambda n: st.lists(st.lists(st.integers(0, n - 1), max_size=3), min_size=n, max_size=n)
)


@given(GRAPHS)
def test_order_has_makers_before_readers_or_there_is_a_cycle(needs):
    order = stable_order(needs)
    place = {element: i for i, element in enumerate(order)}
    assert all(place[m] < place[r] for r in order for m in needs[r])
    if len(order) == len(needs):
        return
    cycle = find_cycle(needs, order)
    assert all(m in needs[r] for m, r in zip(cycle, cycle[1:] + cycle[:1], strict=True))


@given(st.integers(1, 30))
def test_a_sorted_graph_stays_as_it_is(count):
    needs = [[] if i == 0 else [i - 1, i // 2] for i in range(count)]
    needs = [[m for m in makers if m != i] for i, makers in enumerate(needs)]
    assert stable_order(needs) == list(range(count))


def test_a_long_chain_needs_no_deep_recursion():
    needs = [[i + 1] for i in range(99_999)] + [[]]
    assert stable_order(needs) == list(range(99_999, -1, -1))
