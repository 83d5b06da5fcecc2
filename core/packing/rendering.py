r"""The context as one text, in which each passage stands under its citation between marks of its own.

    <passage 5f2a9c31d0e4 1>
    Doc: guide | Page: 3 | Section: Set-up > Battery
    Hold the button for ten seconds.
    </passage 5f2a9c31d0e4 1>

Passages are data. The twelve digits are made of the query, of all ids and of all texts, so no text could have been
written to hold them, and one that does all the same makes them be drawn anew. Hence a passage can neither close itself
nor open another, and a line in it that looks like a citation is not one: a citation is the first line behind an opening
mark, and the citing module keeps it to one line.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from itertools import count

from core.embedding import Embedder
from core.packing.assembling import Draft

TokenCounter = Callable[[str], int]  # how many tokens a text takes

BETWEEN = "\n\n"


def token_counter(embedder: Embedder) -> TokenCounter:
    """Counts by the model's own tokenizer. Special tokens are empty, and no part of a text."""

    def counted(text: str) -> int:
        return sum(end > start for start, end in embedder.tokenize(text))

    return counted


def mark_for(query: str, drafts: Sequence[Draft]) -> str:
    """Twelve digits that no passage holds; the same for the same query and passages."""
    everything = json.dumps([query, *((draft.id, draft.text) for draft in drafts)])
    marks = (hashlib.sha256(f"{attempt} {everything}".encode()).hexdigest()[:12] for attempt in count())
    return next(mark for mark in marks if not any(mark in draft.text for draft in drafts))


def rendered(drafts: Sequence[Draft], mark: str) -> str:
    return BETWEEN.join(passage(draft, number, mark) for number, draft in enumerate(drafts, start=1))


def passage(draft: Draft, number: int, mark: str) -> str:
    return f"<passage {mark} {number}>\n{draft.citation}\n{draft.text}\n</passage {mark} {number}>"
