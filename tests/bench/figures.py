"""What a benchmark returns, and what several of them need."""

from __future__ import annotations

import json
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SHARED = Path(os.environ.get("RANKBOOK_DATA") or Path(__file__).parents[3] / "shared" / "data")


@dataclass(frozen=True, slots=True)
class Figure:
    """A measured value beside its target. One without a target is met: it is there to be read."""

    what: str
    measured: str
    target: str = ""
    met: bool = True
    section: str = ""
    row: tuple[tuple[str, str], ...] = ()  # the same as cells of a table in its section, each with its head


def markdown(figures: Iterable[Figure]) -> str:
    """The rows of figures that have some, a table for each section."""
    sections: dict[tuple[str, ...], list[str]] = {}
    for figure in figures:
        heads, cells = zip(*figure.row, strict=True) if figure.row else ((), ())
        if cells:
            sections.setdefault((figure.section, *heads), []).append(f"| {' | '.join(cells)} |")
    tables = []
    for (section, *names), rows in sections.items():
        rule = ["---", *["---:"] * (len(names) - 1)]
        tables.append("\n".join((f"**{section}**", "", f"| {' | '.join(names)} |", f"|{'|'.join(rule)}|", *rows)))
    return "\n\n".join(tables)


def at_least(what: str, value: float, target: float, form: str = "{:.2f}") -> Figure:
    return Figure(what, form.format(value), f">= {form.format(target)}", value >= target)


def below(what: str, value: float, target: float, form: str = "{:.1f}") -> Figure:
    return Figure(what, form.format(value), f"< {form.format(target)}", value < target)


def near(what: str, value: float, target: float, tolerance: float) -> Figure:
    return Figure(what, f"{value:.4f}", f"{target:.3f} +- {tolerance:.3f}", abs(value - target) <= tolerance)


def seconds(work: Callable[[], object]) -> float:
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def percentile(values: list[float], share: float) -> float:
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]


def peak_memory() -> int:
    """The most this process has held so far, in bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def texts(collection: str) -> Iterator[str]:
    """Title and text of each document, as one."""
    with (SHARED / collection / "corpus.jsonl").open(encoding="utf-8") as lines:
        for line in lines:
            document = json.loads(line)
            yield f"{document['title']} {document['text']}".strip()
