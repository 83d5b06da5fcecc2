"""Expansion by rules: patterns of a query's words and the templates that rewrite them."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.context import RequestContext
from core.expansion.base import Expansion, Proposal, content_words, expansions, new_words
from core.store.search_target import SearchTarget

MOST_BLANKS = 4  # the ways to share a question's words among blanks grow with the power of their number
MOST_WORDS = 60

_BLANK = re.compile(r"\{([a-z]+)(?:(\?)|:([\w'|]+))?\}")
_SOME_WORDS = r"\S++(?: \S++)*?"
# Regular ones, but not "red", "need" and "speed"; and the common ones that do not end in -ed, or end in -eed.
_PARTICIPLE = (
    r"[a-z]{2,}?[^\We]ed|agreed|begun|born|bought|broken|brought|built|caught|chosen|cut|done|drawn|driven|felt|found|"
    r"freed|frozen|given|grown|held|hidden|kept|known|laid|left|lent|lost|made|meant|met|paid|put|raised|read|run|said|"
    r"seen|sent|set|shown|shut|sold|spent|split|spoken|spread|stolen|taken|taught|told|thrown|torn|used|withdrawn|won|"
    r"worn|written"
)


def filled(question: str, answer: str, text: str) -> str | None:
    """The answer with what the text has in the question's blanks; None where the text is no such question.

    The text's words stand one space apart.
    """
    if text.count(" ") >= MOST_WORDS:
        return None
    found = _compiled(question).fullmatch(text)
    return None if found is None else " ".join(_BLANK.sub(lambda blank: found[blank[1]] or "", answer).split())


def problem_of(question: str, answer: str) -> str | None:
    """What is wrong with a pair of templates, as the end of a sentence."""
    names = [found[1] for found in _BLANK.finditer(question)]
    if not question.strip() or not answer.strip():
        return "its question or its answer is empty"
    if set("{}") & set(_BLANK.sub("", question + answer)):
        return "it has a brace that is part of no blank such as {name}, {name?} or {name:a|b}"
    if len(set(names)) < len(names):
        return "its question has two blanks of one name"
    if len(names) > MOST_BLANKS:
        return f"its question has {len(names)} blanks, and at most {MOST_BLANKS} are read"
    if unknown := sorted({found[1] for found in _BLANK.finditer(answer)} - set(names)):
        return f"its answer has a blank {unknown[0]!r}, which its question has not"
    return None


@lru_cache(maxsize=1_000)
def _compiled(question: str) -> re.Pattern[str]:
    pattern = ""
    for part in question.split():
        space, blank = " " if pattern else "", _BLANK.fullmatch(part)
        if blank is None:
            pattern += space + re.escape(part)
            continue
        name, optional, choices = blank[1], blank[2], blank[3]
        if choices == "done":
            words = _PARTICIPLE
        elif choices:
            words = "|".join(re.escape(each) for each in choices.split("|"))
        else:
            words = _SOME_WORDS
        slot = f"(?P<{name}>{words})"
        pattern += f"(?:{space}{slot})?" if optional and pattern else space + slot
    return re.compile(pattern, re.IGNORECASE)


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

    async def propose(self, context: RequestContext, target: SearchTarget, query: str) -> Proposal:  # noqa: ARG002
        rewrite = self.rewrite(query)
        if rewrite is None:
            return Proposal()
        note = f"Said as an answer begins: {rewrite}"
        meaning = {"beside": f"{query}\n{rewrite}", "instead": rewrite, "original": query}[self.meaning]
        return Proposal(tuple(new_words(query, [rewrite])) if self.words else (), meaning, (note,))

    def rewrite(self, query: str) -> str | None:
        """The answer's beginning by the first rule that fits; None where none does, or it would say nothing."""
        question = " ".join(query.split()).strip("¿?!. ")
        question = _CONTRACTED.sub(r"\1 is ", question)
        if not content_words(question):
            return None
        further = _FURTHER.search(question)
        first, rest = (question[: further.start()], question[further.end() :]) if further else (question, "")
        rules = [*((rule.question, rule.answer) for rule in self.rules), *(ENGLISH if self.english else ())]
        begun = next((text for rule in rules if (text := filled(*rule, first)) is not None), None)
        return f"{begun}; {rest}" if begun and rest else begun
