"""Synonyms from a file in the user's hands, or from the spec itself. Owns which of them a query calls for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from pydantic import Field, model_validator

from core.expansion.base import Expansion, ExpansionContext, Proposal, expansions
from core.expansion.synonym_files import Thesaurus, from_lines, from_path
from core.expansion.words import contains, folded, words_in


@expansions.register("synonyms")
class SynonymExpansion(Expansion):
    """Asks also for the synonyms of the query's words and phrases. Whole words match, in capitals or not.

    A line `wifi, wireless network` says that each stands for the other; `wifi => wireless network` that the first calls
    for the second and not the other way. The file has such lines, or is TOML: two_way = [["wifi", "wireless network"]]
    and one_way = [{ from = ["wifi"], to = ["wireless network"] }].
    """

    path: str | None = Field(None, min_length=1, description="The file: such lines, or TOML where it ends in .toml.")
    lines: tuple[str, ...] = Field((), max_length=1_000, description="Such lines in the spec itself, beside the file.")
    most: int = Field(20, ge=1, le=200, description="At most how many synonyms are added to one query.")
    embed: bool = Field(False, description="Whether the synonyms are embedded with the query.")

    @model_validator(mode="after")
    def _has_some(self) -> SynonymExpansion:
        if self.path is None and not self.lines:
            raise ValueError("name a file of synonyms in `path`, or give `lines` such as 'wifi, wireless network'")
        return self

    async def propose(self, context: ExpansionContext, query: str) -> Proposal:  # noqa: ARG002
        thesauri = [from_lines(self.lines, "the option lines")]
        if self.path is not None:
            thesauri.append(await asyncio.to_thread(from_path, self.path))
        found = list(_called_for(query, thesauri))
        notes = (f"{len(found) - self.most} more synonyms were left out.",) if len(found) > self.most else ()
        added = tuple(found[: self.most])
        return Proposal(added, " ".join([query, *added]) if self.embed and added else None, notes)


def _called_for(query: str, thesauri: Iterable[Thesaurus]) -> Iterable[str]:
    """Each once, in the order of the query's words; without phrases that stand in the query already."""
    words = words_in(query)
    found = [synonym for thesaurus in thesauri for synonym in thesaurus.called_for(words)]
    once = {folded(synonym): synonym for synonym in reversed(found)}
    kept = {key: once[key] for key in map(folded, found)}
    return [synonym for synonym in kept.values() if not contains(words, words_in(synonym))]
