"""In what two runs differ: subject, variant, surroundings, rankings. Says nothing of which is better."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

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
    mine, theirs = _facts(one), _facts(other)
    keys = [*mine, *(key for key in theirs if key not in mine)]
    rows = [Row(key, mine.get(key, "-"), theirs.get(key, "-")) for key in keys if mine.get(key) != theirs.get(key)]
    asked = sorted({*one.rankings, *other.rankings})
    return Differences(
        tuple(rows), tuple(query for query in asked if _top(one, query) != _top(other, query)), len(asked)
    )


def _facts(run: Run) -> dict[str, str]:
    """Everything as flat text, each under a dotted name."""
    subject = {**asdict(run.subject), "digest": run.subject.digest.hex()}
    variant = run.variant.model_dump(mode="json", by_alias=True) if run.variant else {}
    legs = dict(zip(run.variant.leg_names, variant.pop("leg"), strict=True)) if run.variant else {}
    environment = {key: value for key, value in run.environment.items() if key != "indexes"}
    parts = {"over": subject, "variant": {**variant, "leg": legs}, "with": environment, "asked for": run.depth}
    return dict(_flat(parts))


def _flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(part, f"{name}.{key}" if name else str(key))
    elif (
        isinstance(value, Sequence) and not isinstance(value, str) and any(isinstance(each, Mapping) for each in value)
    ):
        for at, part in enumerate(value):
            yield from _flat(part, f"{name}.{at}")
    elif value not in (None, ""):
        yield name, str(value)


def _top(run: Run, query: str) -> Any:
    ranked = run.rankings.get(query)
    return ranked.item_ids[:TOP] if ranked else ()
