"""Questions with blanks, and answers that say again what stood in them: `what is {thing}` -> `{thing} is`.

A language of its own and no regular expressions, because templates come with specs: whoever writes one can neither
break the search nor make it slow.

    word          the word itself, in capitals or not
    {name}        one word or more
    {name?}       any number of words, none included; not at the beginning
    {name:a|b}    one of these words
    {name:done}   a past participle
"""

from __future__ import annotations

import re
from functools import lru_cache

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
    names = _blanks(question)
    if not question.strip() or not answer.strip():
        return "its question or its answer is empty"
    if set("{}") & set(_BLANK.sub("", question + answer)):
        return "it has a brace that is part of no blank such as {name}, {name?} or {name:a|b}"
    if len(set(names)) < len(names):
        return "its question has two blanks of one name"
    if len(names) > MOST_BLANKS:
        return f"its question has {len(names)} blanks, and at most {MOST_BLANKS} are read"
    if unknown := sorted(set(_blanks(answer)) - set(names)):
        return f"its answer has a blank {unknown[0]!r}, which its question has not"
    return None


def _blanks(template: str) -> list[str]:
    return [found[1] for found in _BLANK.finditer(template)]


@lru_cache(maxsize=1_000)
def _compiled(question: str) -> re.Pattern[str]:
    written = ""
    for part in question.split():
        blank = _BLANK.fullmatch(part)
        space = " " if written else ""
        if blank and blank[2] and written:
            written += f"(?: (?P<{blank[1]}>{_SOME_WORDS}))?"
        else:
            written += space + (_slot(blank) if blank else re.escape(part))
    return re.compile(written, re.IGNORECASE)


def _slot(blank: re.Match[str]) -> str:
    choices = blank[3]
    if choices is None:
        words = _SOME_WORDS
    elif choices == "done":
        words = _PARTICIPLE
    else:
        words = "|".join(re.escape(each) for each in choices.split("|"))
    return f"(?P<{blank[1]}>{words})"
