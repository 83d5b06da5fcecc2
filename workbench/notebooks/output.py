"""What a cell shows, as plain values that fit JSON: a page, a terminal, HTML and .ipynb each draw them their own way.

Owns the forms there are. Every text may be a stranger's, and none is markup. A colour in a figure is a name in angle
brackets, as in `evals.reports.charts`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from core.store.sanitize import cleaned
from evals import display as lab_tables
from evals.reports.charts import Chart


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Said(_Plain):
    """A sentence. A headline is the answer of the whole cell; a note is to be known before numbers are believed."""

    type: Literal["said"] = "said"
    text: str
    tone: Literal["headline", "plain", "note"] = "plain"


class TableCell(_Plain):
    """`beside` is said faintly after the text, `hint` when one looks closer."""

    text: str
    beside: str = ""
    strong: bool = False
    hint: str = ""


class Table(_Plain):
    """Columns named in `right` hold numbers."""

    type: Literal["table"] = "table"
    title: str = ""
    columns: tuple[str, ...]
    rows: tuple[tuple[TableCell, ...], ...]
    right: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @classmethod
    def of(cls, table: lab_tables.Table) -> Self:
        """A table as the Python API shows it."""
        rows = tuple(tuple(map(_cell, row)) for row in table.rows)
        return cls(title=table.title, columns=table.columns, rows=rows, right=table.right, notes=table.notes)

    @classmethod
    def made(
        cls, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]], right: Sequence[str] = ()
    ) -> Self:
        return cls.of(lab_tables.Table(title, tuple(columns), tuple(rows), tuple(right)))


def _cell(value: object) -> TableCell:
    if isinstance(value, lab_tables.TableCell):
        return TableCell(text=value.text, beside=value.beside, strong=value.strong, hint=value.hint)
    return TableCell(text="" if value is None else str(value))


class Figure(_Plain):
    """A Plotly figure and what it shows in words. `width` is the least it needs, 0 where any will do."""

    type: Literal["figure"] = "figure"
    title: str = ""
    says: str
    figure: dict[str, Any]
    width: int = 0

    @classmethod
    def of(cls, chart: Chart, title: str = "") -> Self:
        return cls(title=title, says=chart.says, figure=chart.figure, width=chart.width)


class LegShare(_Plain):
    """What one leg says of a hit."""

    leg: str
    rank: int
    raw: float
    contribution: float


class FoundHit(_Plain):
    """One result. `snippet` is text and whether it matched; `grade` what the labels say.

    `before` is its document's rank in the first column, None where it is not there; `again` says that another passage
    of that document stands above it.
    """

    rank: int
    id: str
    item: str
    title: str
    where: str
    score: float
    snippet: tuple[tuple[str, bool], ...]
    legs: tuple[LegShare, ...] = ()
    grade: int | None = None
    before: int | None = None
    again: bool = False


class HitColumn(_Plain):
    """The results of one variant."""

    variant: str
    milliseconds: float
    hits: tuple[FoundHit, ...]
    notes: tuple[str, ...] = ()


class Hits(_Plain):
    """Variants side by side for one query; `query_id` where it is a labelled one."""

    type: Literal["hits"] = "hits"
    query: str
    query_id: str | None = None
    columns: tuple[HitColumn, ...]


class Code(_Plain):
    """Text to be copied as it is: SQL, TOML, the context of a prompt."""

    type: Literal["code"] = "code"
    title: str
    language: str = ""
    text: str


Block = Annotated[Said | Table | Figure | Hits | Code, Field(discriminator="type")]


class Output(_Plain):
    """All of it. `values` are for whoever draws or computes further: surfaces, scores by query."""

    blocks: tuple[Block, ...]
    values: dict[str, Any] = Field(default_factory=dict)

    @property
    def headline(self) -> str:
        found = (block.text for block in self.blocks if isinstance(block, Said) and block.tone == "headline")
        return next(found, "")

    def plain(self) -> dict[str, Any]:
        """As JSON and the database can hold it, from which it is read back equal but for what neither can hold."""
        made: dict[str, Any] = storable(self.model_dump(mode="json"))
        return made


def storable(value: Any) -> Any:
    """Without NUL and half characters in texts, and None for what is no finite number."""
    if isinstance(value, str):
        return cleaned(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {cleaned(str(key)): storable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [storable(each) for each in value]
    return value
