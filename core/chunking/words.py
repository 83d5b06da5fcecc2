"""A tokenizer without a model: words and single marks. For tests, and for counting where no model is at hand."""

from __future__ import annotations

import re

_WORD_OR_MARK = re.compile(r"\w+|[^\w\s]")


def word_tokens(text: str) -> list[tuple[int, int]]:
    """Offsets of every run of word characters and of every other visible character."""
    return [match.span() for match in _WORD_OR_MARK.finditer(text)]
