"""Of what a merge of judgements made a query set, as the store and backups keep it.

Believed only where it is of this very form: whoever wrote a backup may have written anything.
"""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, ValidationError


class _Kept(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Way(_Kept):
    """How judgements become labels of a split: with models' grades or without, and whether they overrule labels."""

    models: bool
    overrule: bool

    def __str__(self) -> str:
        """As it is told behind the split's name; empty where there is nothing to tell."""
        said = ["models' grades too"] * self.models + ["overruling labels"] * self.overrule
        return f" ({', '.join(said)})" if said else ""


class MergedFrom(_Kept):
    """The other query set whose copy it is, and into which of its splits judgements came, each in its way."""

    query_set: str
    splits: Mapping[str, Way]

    @classmethod
    def read(cls, kept: object) -> MergedFrom | None:
        """What was kept; None where that is nothing, or nothing that a merge leaves."""
        try:
            return cls.model_validate(kept)
        except ValidationError:
            return None
