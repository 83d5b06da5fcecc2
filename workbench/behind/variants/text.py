"""A variant as text that somebody is writing: read with every mistake at its line, held against another line by line.

Knows no screen. What a variant means is `core.variant`'s.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

import pydantic

from core.errors import InputError, RankbookError
from core.variant import Variant
from evals.evaluation.compare_runs import DifferenceRow, variant_rows
from workbench.behind import toml_edit
from workbench.behind.toml_edit import Place

QUOTED = ("name", "description")


def read(text: str) -> Variant:
    """The variant; refused with the line on which the mistake stands."""
    given = toml_edit.read(text)
    try:
        return Variant.from_data(given)
    except (RankbookError, RecursionError) as error:
        said = str(error) or "This is nested too deeply to be read."
        raise InputError(said, line=toml_edit.line_of(text, _culprit(given, error))) from error


def _culprit(given: dict[str, Any], error: Exception) -> Place:
    """Where the mistake is: as pydantic says, else the thing without which it would not be said."""
    cause = error.__cause__
    if isinstance(cause, pydantic.ValidationError) and cause.title == Variant.__name__:
        place = tuple(cause.errors()[0]["loc"])
        if place and toml_edit.value_at(given, place) is not None:
            return place
    return _without(given, given, (), str(error))


def _without(whole: dict[str, Any], part: Any, place: Place, said: str) -> Place:
    """The step without which nothing is wrong, or else something other; and the same inside it."""
    others = {step: _says(_less(whole, (*place, step))) for step in _steps(part)}
    mended = [step for step, says in others.items() if not says] or [step for step in others if others[step] != said]
    return _without(whole, part[mended[0]], (*place, mended[0]), said) if mended else place


def _steps(part: Any) -> list[str | int]:
    """Its keys or positions; those last that a sentence may only quote."""
    if isinstance(part, dict):
        return sorted(part, key=lambda key: key in QUOTED)
    return list(range(len(part))) if isinstance(part, list) else []


def _less(whole: Any, place: Place) -> Any:
    """A copy without what stands there."""
    first, *rest = place
    if isinstance(whole, dict):
        kept = {key: value for key, value in whole.items() if key != first or rest}
        return {**kept, first: _less(whole[first], tuple(rest))} if rest else kept
    at = int(first)
    return [*whole[:at], *([_less(whole[at], tuple(rest))] if rest else []), *whole[at + 1 :]]


def _says(given: dict[str, Any]) -> str:
    try:
        Variant.from_data(given)
    except RankbookError as error:
        return str(error)
    return ""


# -- two of them -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a difference: in both texts, only in the first, or only in the other."""

    mark: Literal[" ", "-", "+"]
    text: str


def differing(one: Variant, other: Variant) -> list[DifferenceRow]:
    """Every option in which they differ, defaults included, by its dotted name."""
    return variant_rows(one, other)


def lines_between(one: str, other: str) -> Iterator[Line]:
    """From the first text to the other."""
    before, after = one.splitlines(), other.splitlines()
    for what, a, b, c, d in SequenceMatcher(a=before, b=after, autojunk=False).get_opcodes():
        if what == "equal":
            yield from (Line(" ", text) for text in before[a:b])
        else:
            yield from (Line("-", text) for text in before[a:b])
            yield from (Line("+", text) for text in after[c:d])
