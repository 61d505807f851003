"""Arithmetic on dimensions: integers, and integer polynomials over named unknowns.

An anonymous unknown stands for a dimension that nobody has named; two of them are never equal. It
lives during inference alone: what is written into a model is an integer, a formula, or unknown.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import final

LARGEST = 2**63 - 1
_MOST_TERMS = 6
_MOST_FACTORS = 6
_LONGEST_NAME = 120
_TOKEN = re.compile(r"\s*([0-9]{1,18}(?![0-9])|[A-Za-z_][\w.]*|[-+*])")
_OPERATORS = frozenset("+-*")
_numbers = itertools.count()


@final
@dataclass(frozen=True)
class Formula:
    """A polynomial: for each product of names, its factor. Never a plain integer.

    Attributes:
        terms: ``(names, factor)`` in ascending order of names; no factor is zero.
        anonymous: Whether an unknown without a name is in it.
    """

    terms: tuple[tuple[tuple[str, ...], int], ...]
    anonymous: bool = False

    def __str__(self) -> str:
        text = ""
        for names, factor in sorted(self.terms, key=lambda term: (-len(term[0]), term[0])):
            size = abs(factor)
            product = "*".join((*([str(size)] if size != 1 or not names else []), *names))
            sign = "-" if factor < 0 else "+"
            text += f" {sign} {product}" if text else f"{sign if factor < 0 else ''}{product}"
        return text


Dim = int | Formula
Dims = tuple[Dim, ...]


def unknown() -> Formula:
    """Returns a new unknown without a name."""
    return Formula((((f"?{next(_numbers)}",), 1),), anonymous=True)


def is_unknown(dim: Dim) -> bool:
    """Tells whether nothing at all is known of ``dim``, not even how it depends on others."""
    return not isinstance(dim, int) and dim.anonymous


def symbol(name: str) -> Formula:
    """Returns the unknown of that name."""
    return Formula((((name,), 1),), anonymous=name.startswith("?"))


@lru_cache(8192)
def parse(text: str) -> Dim:
    """Returns what the name of a dimension stands for: ``"2*N + 1"`` is a formula.

    What is no sum of products counts as one name.
    """
    tokens = _tokens(text)
    if tokens is None:
        return symbol(text)
    if tokens[0] == "-":
        tokens = ["0", *tokens]
    total: Dim = 0
    product: Dim = _factor(tokens[0])
    sign = 1
    for operator, word in zip(tokens[1::2], tokens[2::2], strict=True):
        if operator == "*":
            product = multiply(product, _factor(word))
            continue
        total = add(total, multiply(product, sign))
        product, sign = _factor(word), 1 if operator == "+" else -1
    return add(total, multiply(product, sign))


def _tokens(text: str) -> list[str] | None:
    """Returns factors with operators between them; maybe a minus in front."""
    found: list[str] = []
    position = 0
    if len(text) > _LONGEST_NAME or not text.strip():
        return None
    while position < len(text.rstrip()):
        token = _TOKEN.match(text, position)
        if token is None:
            return None
        found.append(token[1])
        position = token.end()
    words = found[1:] if found[0] == "-" else found
    expected = [is_operator % 2 == 1 for is_operator in range(len(words))]
    if len(words) % 2 == 0 or [word in _OPERATORS for word in words] != expected:
        return None
    return found


def _factor(word: str) -> Dim:
    return int(word) if word.isdecimal() else symbol(word)


def add(one: Dim, other: Dim) -> Dim:
    """Returns the sum."""
    if isinstance(one, int) and isinstance(other, int):
        return one + other
    terms = dict(_terms(one))
    for names, factor in _terms(other):
        terms[names] = terms.get(names, 0) + factor
    return _dim(terms)


def subtract(one: Dim, other: Dim) -> Dim:
    """Returns the difference."""
    return add(one, multiply(other, -1))


def multiply(one: Dim, other: Dim) -> Dim:
    """Returns the product."""
    if isinstance(one, int) and isinstance(other, int):
        return one * other
    terms: dict[tuple[str, ...], int] = {}
    for left, left_factor in _terms(one):
        for right, right_factor in _terms(other):
            names = tuple(sorted(left + right))
            terms[names] = terms.get(names, 0) + left_factor * right_factor
    return _dim(terms)


def product(dims: Iterable[Dim]) -> Dim:
    """Returns the product of all; 1 of none."""
    result: Dim = 1
    for dim in dims:
        result = multiply(result, dim)
    return result


def divide(one: Dim, other: Dim) -> Dim | None:
    """Returns the quotient if it is exact for all values of the unknowns, otherwise ``None``."""
    if isinstance(one, int) and isinstance(other, int):
        return one // other if other and one % other == 0 else None
    if one == other:
        return 1
    divisor = _terms(other)
    if len(divisor) != 1:
        return None
    ((names, factor),) = divisor
    terms: dict[tuple[str, ...], int] = {}
    for left, left_factor in _terms(one):
        rest = list(left)
        for name in names:
            if name not in rest:
                return None
            rest.remove(name)
        if not factor or left_factor % factor:
            return None
        terms[tuple(rest)] = left_factor // factor
    return _dim(terms)


def floor_divide(one: Dim, other: Dim) -> Dim:
    """Returns the quotient rounded down; a formula that does not divide becomes a name."""
    exact = divide(one, other)
    if exact is not None:
        return exact
    if isinstance(one, int) and isinstance(other, int):
        return one // other if other else unknown()
    if is_unknown(one) or is_unknown(other):
        return unknown()
    return _named(f"floor({_bracketed(one)}/{_bracketed(other)})")


def ceil_divide(one: Dim, other: Dim) -> Dim:
    """Returns the quotient rounded up."""
    return multiply(floor_divide(multiply(one, -1), other), -1)


def smallest(one: Dim, other: Dim) -> Dim:
    """Returns the smaller one."""
    return _extreme("min", one, other)


def largest(one: Dim, other: Dim) -> Dim:
    """Returns the larger one."""
    return _extreme("max", one, other)


def broadcast(one: Dim, other: Dim) -> Dim:
    """Returns the dimension that two broadcast to; a known one above 1 wins over unknown ones.

    Raises:
        ValueError: They do not broadcast.
    """
    if one == other or other == 1:
        return one
    if one == 1:
        return other
    if isinstance(one, int):
        if isinstance(other, int):
            raise ValueError(f"{one} and {other} do not broadcast")
        return one
    return other if isinstance(other, int) else unknown()


def broadcast_shapes(shapes: Iterable[Dims]) -> Dims:
    """Returns the shape that all broadcast to (numpy's rule, aligned at the last dimension)."""
    result: tuple[Dim, ...] = ()
    for shape in shapes:
        if shape == result:
            continue
        longer, shorter = (shape, result) if len(shape) >= len(result) else (result, shape)
        head = len(longer) - len(shorter)
        tail = zip(longer[head:], shorter, strict=True)
        result = longer[:head] + tuple(broadcast(a, b) for a, b in tail)
    return result


def evaluate(dim: Dim, values: Mapping[str, int]) -> int | None:
    """Returns ``dim`` for given values of its names, or ``None`` if one is missing."""
    if isinstance(dim, int):
        return dim
    total = 0
    for names, factor in dim.terms:
        for name in names:
            if name not in values:
                return None
            factor *= values[name]
        total += factor
    return total


def _terms(dim: Dim) -> tuple[tuple[tuple[str, ...], int], ...]:
    return (((), dim),) if isinstance(dim, int) else dim.terms


def _dim(terms: Mapping[tuple[str, ...], int]) -> Dim:
    kept = tuple(sorted((names, factor) for names, factor in terms.items() if factor))
    if not kept:
        return 0
    if len(kept) == 1 and kept[0][0] == ():
        return kept[0][1]
    if len(kept) > _MOST_TERMS or any(
        len(names) > _MOST_FACTORS or abs(factor) > LARGEST for names, factor in kept
    ):
        return unknown()
    return Formula(kept, any(name[0] == "?" for names, _ in kept for name in names))


def _extreme(word: str, one: Dim, other: Dim) -> Dim:
    if one == other:
        return one
    if isinstance(one, int) and isinstance(other, int):
        return min(one, other) if word == "min" else max(one, other)
    if is_unknown(one) or is_unknown(other):
        return unknown()
    return _named(f"{word}({', '.join(sorted((str(one), str(other))))})")


def _named(text: str) -> Formula:
    return symbol(text) if len(text) <= _LONGEST_NAME else unknown()


def _bracketed(dim: Dim) -> str:
    text = str(dim)
    return f"({text})" if " " in text or "*" in text else text
