"""The forms an output has: text, table, chart, search results, code.

They are plain values that fit JSON, and are stored as such. Every text may be a stranger's, and none is markup. A
colour in a chart is a name of `palette` in angle brackets.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from core.store.sanitize import cleaned
from evals.display import DisplayModel, Table


class Text(DisplayModel):
    """A sentence. A headline is the answer of the whole output; a note is to be known before numbers are believed."""

    type: Literal["said"] = "said"
    text: str
    tone: Literal["headline", "plain", "note"] = "plain"


class Chart(DisplayModel):
    """A Plotly figure and what it shows in words. `width` is the least it needs in pixels, 0 where any will do."""

    type: Literal["figure"] = "figure"
    title: str = ""
    description: Annotated[str, Field(alias="says")]
    figure: dict[str, Any]
    width: int = 0


class Code(DisplayModel):
    """Text to be copied as it is: SQL, TOML, the context of a prompt."""

    type: Literal["code"] = "code"
    title: str
    language: str = ""
    text: str


class LegShare(DisplayModel):
    """A hit's rank and raw score in one leg, and what that adds to its score."""

    leg: str
    rank: int
    raw: float
    contribution: float


class ResultHit(DisplayModel):
    """One result. `snippet` is its text in pieces, each with whether it matched; `grade` is what the labels say.

    `previous_rank` is its document's rank in the first column, None where it is not there; `repeats_item` says that
    another passage of that document is above it.
    """

    rank: int
    id: str
    item_id: Annotated[str, Field(alias="item")]
    title: str
    place: Annotated[str, Field(alias="where")]
    score: float
    snippet: tuple[tuple[str, bool], ...]
    legs: tuple[LegShare, ...] = ()
    grade: int | None = None
    previous_rank: Annotated[int | None, Field(alias="before")] = None
    repeats_item: Annotated[bool, Field(alias="again")] = False


class ResultColumn(DisplayModel):
    """The results of one variant."""

    name: Annotated[str, Field(alias="variant")]
    milliseconds: float
    hits: tuple[ResultHit, ...]
    notes: tuple[str, ...] = ()


class SearchResults(DisplayModel):
    """Variants side by side for one query; `query_id` where it is a labelled one."""

    type: Literal["hits"] = "hits"
    query: str
    query_id: str | None = None
    columns: tuple[ResultColumn, ...]


Block = Annotated[Text | Table | Chart | SearchResults | Code, Field(discriminator="type")]


class Output(DisplayModel):
    """What a cell shows, block by block. `values` hold what blocks have no room for: surfaces, scores by query."""

    blocks: tuple[Block, ...]
    values: dict[str, Any] = Field(default_factory=dict)

    @property
    def headline(self) -> str:
        headlines = (block.text for block in self.blocks if isinstance(block, Text) and block.tone == "headline")
        return next(headlines, "")

    @property
    def variant_names(self) -> list[str]:
        """The variants that it shows, and other engines' runs."""
        columns = [each.name for block in self.blocks if isinstance(block, SearchResults) for each in block.columns]
        several = self.values.get("names")
        several = several if isinstance(several, list | tuple) else []
        pair = [self.values.get(side) for side in ("system", "baseline")]
        return list(dict.fromkeys(each for each in (*columns, *several, *pair) if isinstance(each, str)))

    def plain(self) -> dict[str, Any]:
        """As JSON and the database can hold it. Read back, it is equal, but for what neither of them can hold."""
        values: dict[str, Any] = storable(self.model_dump(mode="json"))
        return values


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
