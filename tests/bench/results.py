"""Owns docs/results.md: `results.md` beside this module with its holes filled by the figures that were measured last.

`make bench ARGS=results` measures everything that the page states and writes it; `ARGS="results latency"` measures one
benchmark anew and takes the rest from `results.json`; `ARGS="results --as-kept"` only writes the page. All of it takes
most of a day, as the tables of growth end at a million chunks.
"""

from __future__ import annotations

import difflib
import json
import os
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

from tests.bench.figures import Figure

FOLDER = Path(__file__).parent
TEMPLATE, KEPT = FOLDER / "results.md", FOLDER / "results.json"
PAGE = FOLDER.parents[1] / "docs" / "results.md"
HOLE = re.compile(r"\{\{(table )?(\w+): ([^}]+)\}\}")  # {{benchmark: figure}}, or {{table benchmark: section or *}}
MACHINES = "{{machines}}"


@dataclass(frozen=True, slots=True)
class KeptFigure:
    """What was measured last of one thing, and on which machine."""

    benchmark: str
    what: str
    measured: str
    section: str
    row: tuple[tuple[str, str], ...]
    machine: str
    day: str

    @property
    def key(self) -> tuple[str, ...]:
        """What a newer measurement replaces: a row of a table by its first cell, anything else by its name."""
        return (self.benchmark, self.section, *self.row[0]) if self.row else (self.benchmark, self.what)


def benchmarks() -> tuple[str, ...]:
    """Those whose figures the page states, in its order."""
    return tuple(dict.fromkeys(name for _, name, _ in HOLE.findall(TEMPLATE.read_text(encoding="utf-8"))))


def keep(benchmark: str, figures: Iterable[Figure]) -> None:
    """Into the file of kept figures; what a figure is called decides which older one it replaces."""
    machine, day = _this_machine(), datetime.now(UTC).date().isoformat()
    kept = {each.key: each for each in read()}
    for each in figures:
        new = KeptFigure(benchmark, each.what, each.measured, each.section, each.row, machine, day)
        kept[new.key] = new
    lines = ",\n".join(json.dumps(asdict(each), ensure_ascii=False) for each in sorted(kept.values(), key=_order))
    KEPT.write_text(f"[\n{lines}\n]\n", encoding="utf-8")


def read() -> list[KeptFigure]:
    rows = json.loads(KEPT.read_text(encoding="utf-8"))
    return [KeptFigure(**each | {"row": tuple((head, cell) for head, cell in each["row"])}) for each in rows]


def page(kept: Sequence[KeptFigure]) -> str:
    """The template, filled. A figure that it names and that nobody measured is an error with the nearest name."""
    measured = {(each.benchmark, each.what): each.measured for each in kept}
    told: list[KeptFigure] = []

    def fill(hole: re.Match[str]) -> str:
        is_table, benchmark, what = hole.groups()
        if is_table:
            rows = [each for each in kept if each.row and each.benchmark == benchmark and what in {"*", each.section}]
            told.extend(rows)
            return f"{side_by_side(rows) if what == '*' else table(rows)}\n\n{measured_on(rows)}"
        if (benchmark, what) not in measured:
            near = difflib.get_close_matches(what, [name for bench, name in measured if bench == benchmark], 1)
            nearest = f"; the nearest is {near[0]!r}" if near else ""
            raise KeyError(f"{TEMPLATE.name} names a figure of {benchmark} that is not kept: {what!r}{nearest}")
        told.extend(each for each in kept if (each.benchmark, each.what) == (benchmark, what))
        return measured[benchmark, what]

    filled = HOLE.sub(fill, TEMPLATE.read_text(encoding="utf-8"))
    return filled.replace(MACHINES, machines(told))


def table(rows: Sequence[KeptFigure]) -> str:
    heads = [head for head, _ in rows[0].row]
    lines = [f"| {' | '.join(cell for _, cell in each.row)} |" for each in rows]
    return "\n".join((f"| {' | '.join(heads)} |", _rule(len(heads)), *lines))


def side_by_side(rows: Sequence[KeptFigure]) -> str:
    """Sections of the same rows as one table: a section's name stands over its first column."""
    sections = tuple(dict.fromkeys(each.section for each in rows))
    first, *heads = [head for head, _ in rows[0].row]
    cells = {(each.section, each.row[0][1]): [cell for _, cell in each.row[1:]] for each in rows}
    top = [first, *(cell for each in sections for cell in (each, *[""] * (len(heads) - 1)))]
    lines = [
        [name, *(cell for each in sections for cell in cells.get((each, name), ["-"] * len(heads)))]
        for name in dict.fromkeys(each.row[0][1] for each in rows)
    ]
    written = [f"| {' | '.join(line)} |" for line in (top, ["", *heads * len(sections)], *lines)]
    return "\n".join((written[0], _rule(len(top)), *written[1:]))


def measured_on(rows: Sequence[KeptFigure]) -> str:
    """The machine of a table's rows, or which rows are of which machine."""
    names = {machine: [each.row[0][1] for each in rows if each.machine == machine] for machine in _machines(rows)}
    if len(names) == 1:
        return f"Measured on {next(iter(names))}."
    return "".join(f"Measured on {machine}: {', '.join(each)}. " for machine, each in names.items()).strip()


def machines(kept: Sequence[KeptFigure]) -> str:
    """Which benchmark was measured where, and when as far as it is known."""
    lines = ["| measured on | when | benchmarks |", "|---|---|---|"]
    for machine, day in sorted({(each.machine, each.day) for each in kept}):
        names = sorted({each.benchmark for each in kept if (each.machine, each.day) == (machine, day)})
        lines.append(f"| {machine} | {day or 'not recorded'} | {', '.join(names)} |")
    return "\n".join(lines)


def _machines(kept: Iterable[KeptFigure]) -> list[str]:
    return sorted({each.machine for each in kept})


def _rule(columns: int) -> str:
    return f"|---|{'--:|' * (columns - 1)}"


def _order(kept: KeptFigure) -> tuple[str, bool]:
    """Benchmarks by name, and each one's figures as it printed them."""
    return kept.benchmark, bool(kept.row)


def _this_machine() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        text = ""
    named = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return f"{named[1] if named else platform.processor() or platform.machine()}, {os.cpu_count()} cores"
