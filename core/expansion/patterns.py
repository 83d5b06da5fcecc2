"""Answer patterns: a question said as its answer would begin, since answers resemble answers more than questions.

The idea is that of pattern-based question answering: Brill et al., "Data-Intensive Question Answering", TREC 2001.
Rules are data: the table below for English, and whatever a spec puts before it. Models and the server are not asked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.expansion.base import Expansion, ExpansionContext, Proposal, expansions
from core.expansion.templates import filled, problem_of
from core.expansion.words import content_words, new_words

_BE = "{be:is|are|was|were}"
_DO = "{do:do|does|did}"
_MAY = "{may:can|could|may|might|should|must|shall|will|would}"
_ME = "{me:i|we|you|one}"

# Tried from the top; the first that fits counts. The narrower therefore stands before the wider.
ENGLISH: tuple[tuple[str, str], ...] = (
    ("when was {thing} {how:done} {rest?}", "{thing} was {how} {rest} in"),
    ("when were {thing} {how:done} {rest?}", "{thing} were {how} {rest} in"),
    (f"when {_BE} {{thing}} {{how:done}} {{rest?}}", "{thing} {be} {how} {rest} when"),
    ("when did {thing}", "{thing} in"),
    (f"when {_BE} {{thing}}", "{thing} {be} on"),
    (f"when {_DO} {{thing}}", "{thing} when"),
    (f"when {_MAY} {{thing}}", "{thing} when"),
    (f"where {_BE} {{thing}} {{how:done}} {{rest?}}", "{thing} {be} {how} {rest} in"),
    (f"where {_BE} {{thing}}", "{thing} {be} in"),
    (f"where {_DO} {_ME} {{thing}}", "To {thing}, go to"),
    (f"where {_MAY} {_ME} {{thing}}", "To {thing}, go to"),
    (f"where {_DO} {{thing}}", "{thing} in"),
    (f"why {_BE} {{thing}} {{how:done}} {{rest?}}", "{thing} {be} {how} {rest} because"),
    (f"why {_BE} {{thing}}", "{thing} because"),
    (f"why {_DO} {{thing}}", "{thing} because"),
    (f"who {_BE} {{how:done}} {{rest?}}", "Those {how} {rest} are"),
    (f"who {_BE} {{thing}}", "{thing} {be}"),
    ("who {thing}", "The person who {thing} is"),
    ("how many {thing}", "The number of {thing} is"),
    (f"how much {_DO} {{thing}} cost {{rest?}}", "The price of {thing} {rest} is"),
    (f"how much {_BE} {{thing}}", "The price of {thing} {be}"),
    ("how much {thing}", "The amount of {thing} is"),
    (f"how long {_DO} {{thing}}", "{thing} for"),
    (f"how long {_BE} {{thing}} {{how:done}} {{rest?}}", "{thing} {be} {how} {rest} for"),
    (f"how long {_BE} {{thing}}", "The length of {thing} {be}"),
    (f"how often {_DO} {{thing}}", "{thing} every"),
    (f"how {_DO} {_ME} {{thing}}", "To {thing},"),
    (f"how {_MAY} {_ME} {{thing}}", "To {thing},"),
    ("how to {thing}", "To {thing},"),
    (f"how {_BE} {{thing}} {{how:done}} {{rest?}}", "{thing} {be} {how} {rest} by"),
    (f"how {_DO} {{thing}} work {{rest?}}", "{thing} works {rest} by"),
    (f"what {_DO} {{thing}} mean {{rest?}}", "{thing} means {rest}"),
    ("what happens {thing}", "What happens {thing} is that"),
    ("what is the difference between {thing}", "The difference between {thing} is that"),
    (f"what {_BE} {{thing}}", "{thing} {be}"),
    (f"which {{thing}} {_BE} {{rest}}", "The {thing} that {be} {rest} {be}"),
    ("which {thing}", "The {thing} is"),
    (f"{_MAY} {_ME} {{thing}}", "You can {thing}"),
)
# A second question after the first is left as it is, behind the rewrite of the first.
_FURTHER = re.compile(
    r",? (?:and|or|but) (?=(?:who|when|where|why|what|which|how|do|does|did|is|are|can|should|will)\b)", re.IGNORECASE
)
_CONTRACTED = re.compile(r"^(what|who|where|when|how|why)['’]s ", re.IGNORECASE)  # noqa: RUF001


class Rule(BaseModel):
    """A question with blanks, and how its answer begins."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    question: str = Field(max_length=200, description="The question: words, and blanks such as {thing} or {be:is|are}.")
    answer: str = Field(max_length=200, description="The beginning of an answer, with the question's blanks.")

    @model_validator(mode="after")
    def _sound(self) -> Rule:
        if problem := problem_of(self.question, self.answer):
            raise ValueError(f"the rule {self.question!r} -> {self.answer!r} cannot be used: {problem}")
        return self


@expansions.register("patterns")
class PatternExpansion(Expansion):
    """Says a question as its answer would begin: "When was X cancelled?" becomes "X was cancelled in"."""

    rules: tuple[Rule, ...] = Field((), max_length=500, description="Rules of your own, tried before the English ones.")
    english: bool = Field(True, description="Whether the English rules that come with Rankbook are tried.")
    meaning: Literal["beside", "instead", "original"] = Field(
        "beside",
        description="What is embedded: the question and the rewrite, the rewrite alone, or the question alone.",
    )
    words: bool = Field(True, description="Whether keyword legs also ask with the rewrite's words that are new.")

    async def propose(self, context: ExpansionContext, query: str) -> Proposal:  # noqa: ARG002
        rewrite = self.rewrite(query)
        if rewrite is None:
            return Proposal()
        note = f"Said as an answer begins: {rewrite}"
        meant = {"beside": f"{query}\n{rewrite}", "instead": rewrite, "original": query}[self.meaning]
        return Proposal(tuple(new_words(query, [rewrite])) if self.words else (), meant, (note,))

    def rewrite(self, query: str) -> str | None:
        """The answer's beginning by the first rule that fits; None where none does, or it would say nothing."""
        question = " ".join(query.split()).strip("¿?!. ")
        question = _CONTRACTED.sub(r"\1 is ", question)
        if not content_words(question):
            return None
        further = _FURTHER.search(question)
        first, rest = (question[: further.start()], question[further.end() :]) if further else (question, "")
        said = next((text for rule in self._table() if (text := filled(*rule, first)) is not None), None)
        return f"{said}; {rest}" if said and rest else said

    def _table(self) -> Iterator[tuple[str, str]]:
        yield from ((rule.question, rule.answer) for rule in self.rules)
        if self.english:
            yield from ENGLISH
