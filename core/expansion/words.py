"""Words of a query as expansions compare them. Knows English function words; other stop words the server knows."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

# A word may end in marks that tell it from another: C, C++ and C#.
_WORD = re.compile(r"\w+(?:\+\+|#)?")

# Only words that name nothing in any query. "can", "may" and "will" are left out: each is a noun somewhere.
FUNCTION_WORDS = frozenset(
    "a an the this that these those and or but nor so if then than as at by for from in into of off on onto out over "  # noqa: SIM905
    "to up with without about after before between through during under i me my mine we us our ours you your yours he "
    "him his she her hers it its they them their theirs one who whom whose which what when where why how is am are was "
    "were be been being do does did done doing has have had having would should could there here not no yes also just "
    "too very such s t re ve ll d m don doesn didn isn aren wasn weren won".split()
)


def folded(text: str) -> str:
    """In the form in which words are compared: no difference of case or of compatible characters."""
    return unicodedata.normalize("NFKC", text).casefold()


def words_in(text: str) -> list[str]:
    """The text's words, folded, in order."""
    return _WORD.findall(folded(text))


def content_words(text: str) -> list[str]:
    """Those of them that are no English function words."""
    return [word for word in words_in(text) if word not in FUNCTION_WORDS]


def contains(words: Sequence[str], phrase: Sequence[str]) -> bool:
    """Whether the phrase stands in the words, side by side and in order."""
    size = len(phrase)
    return any(list(words[at : at + size]) == list(phrase) for at in range(len(words) - size + 1))


def new_words(query: str, texts: Iterable[str]) -> Iterator[str]:
    """The content words of the texts that the query has not got, each once, in order."""
    known = set(words_in(query))
    for text in texts:
        for word in content_words(text):
            if word not in known:
                known.add(word)
                yield word
