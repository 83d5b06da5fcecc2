"""In what two runs differ: subject, variant, surroundings, rankings. Says nothing of which is better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from core.variant import Variant
from evals.runs import Run

TOP = 10  # results that are looked at


@dataclass(frozen=True, slots=True)
class Row:
    """One thing that differs, and what it is in each."""

    where: str
    one: str
    other: str


@dataclass(frozen=True, slots=True)
class Differences:
    """`changed` are the queries whose first results are others, or in another order."""

    rows: tuple[Row, ...]
    changed: tuple[str, ...]
    queries: int


def differences(one: Run, other: Run) -> Differences:
    rows = _rows(_facts(one), _facts(other))
    asked = sorted({*one.rankings, *other.rankings})
    return Differences(
        tuple(rows), tuple(query for query in asked if _top(one, query) != _top(other, query)), len(asked)
    )


def variant_rows(one: Variant, other: Variant) -> list[Row]:
    """The options in which two variants differ."""
    return _rows(*(dict(flat(_options(each))) for each in (one, other)))


def _rows(mine: Mapping[str, str], theirs: Mapping[str, str]) -> list[Row]:
    keys = [*mine, *(key for key in theirs if key not in mine)]
    return [Row(key, mine.get(key, "-"), theirs.get(key, "-")) for key in keys if mine.get(key) != theirs.get(key)]


def _options(variant: Variant) -> dict[str, Any]:
    """All of them, defaults included, legs by name."""
    plain = variant.model_dump(mode="json", by_alias=True)
    return {**plain, "leg": dict(zip(variant.leg_names, plain.pop("leg"), strict=True))}


def _facts(run: Run) -> dict[str, str]:
    """Everything as flat text, each under a dotted name."""
    subject = {**asdict(run.subject), "digest": run.subject.digest.hex()}
    environment = {key: value for key, value in run.environment.items() if "indexes" not in key}
    variant = _options(run.variant) if run.variant else {}
    return dict(flat({"over": subject, "variant": variant, "with": environment, "asked for": run.depth}))


def flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    """What is nested, as rows of dotted names; without what is empty."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from flat(part, f"{name}.{key}" if name else str(key))
    elif (
        isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(each, Mapping) for each in value)
    ):
        for at, part in enumerate(value):
            yield from flat(part, f"{name}.{at}")
    elif value not in (None, ""):
        yield name, str(value)


def _top(run: Run, query: str) -> Any:
    ranked = run.rankings.get(query)
    return ranked.item_ids[:TOP] if ranked else ()
