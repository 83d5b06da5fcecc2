"""The options that a notebook's cells share, which its ```notebook cell holds: collection, queries, seed, variants."""

from __future__ import annotations

from collections import Counter
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.errors import SpecError

HEADER = "notebook"  # the kind of the cell that holds it


class SharedOptions(BaseModel):
    """Options shared by all cells, each of which may say otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    collection: str | None = Field(None, min_length=1, description="The collection that is searched.")
    query_set: str = Field("default", min_length=1, description="Which of its query sets.")
    split: str | None = Field(
        None, min_length=1, description="Which labelled queries are scored: by default test, or what there is."
    )
    seed: int = Field(0, ge=0, description="For every interval, permutation and fold: the same gives the same.")
    variants: tuple[dict[str, Any], ...] = Field(
        (),
        alias="variant",
        description="Variants that cells name: each a preset or a file with changes, or whole, and with a `name`.",
    )

    @model_validator(mode="after")
    def _names_its_variants(self) -> Self:
        names = [each.get("name") for each in self.variants]
        for name in names:
            if not isinstance(name, str) or not name:
                raise SpecError("A [[variant]] of the notebook cell has no name. Give it one, for cells to call it by.")
        twice = [name for name, count in Counter(names).items() if count > 1]
        if twice:
            raise SpecError(f"Two [[variant]] of the notebook cell are called {twice[0]!r}. Give each its own name.")
        return self
