"""What may be chosen about packing, in code or by environment variables. Nothing is done here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pydantic
from pydantic import BaseModel, ConfigDict, Field

from core.errors import SpecError

PREFIX: Final = "RANKBOOK_PACK_"


class Packing(BaseModel):
    """How results become the context of an answer."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    include_parents: bool = Field(True, description="Whether each hit is followed by its parent chunk.")
    neighbor_same_page: int = Field(
        1, ge=0, le=100, description="How many siblings on the same page are added for each hit, the nearest."
    )
    neighbor_cross_page: int = Field(
        2,
        ge=0,
        le=100,
        description="How many chunks on the pages before and after are added for each hit, the nearest.",
    )
    final_max_tokens: int = Field(12_000, ge=1, description="The most tokens the context may take.")
    min_primary_hits_to_keep: int = Field(
        3, ge=0, description="How many of the best hits stay even where they alone take more than the budget."
    )


def packing_from(environment: Mapping[str, str], **options: Any) -> Packing:
    """Options given in code; else those of variables such as RANKBOOK_PACK_FINAL_MAX_TOKENS; else the defaults."""
    named = {name: environment.get(PREFIX + name.upper(), "").strip() for name in Packing.model_fields}
    given = {name: value for name, value in named.items() if value and name not in options}
    try:
        return Packing(**{**given, **options})
    except pydantic.ValidationError as error:
        from_environment = ", ".join(PREFIX + name.upper() for name in given)
        where = f"Packing, with {from_environment} from the environment," if given else "Packing"
        raise SpecError.from_pydantic(where, error) from error
