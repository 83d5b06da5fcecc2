"""Import checks that need the texts themselves: queries that stand in the corpus, and documents that repeat others."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable

from sqlalchemy import func, select

from core.store.collections import View
from core.store.engine import Store
from core.store.progress import Listener, Step, nobody
from core.store.schema import Item
from core.types import Flaw, Place, Query, Row
from evals.near_duplicates import NearDuplicates

SHORTEST_COPY = 20  # characters; a keyword that stands in a text is no leak
ITEMS_A_PAGE = 500


async def queries_in_corpus(store: Store, view: View, queries: Iterable[Row[Query]]) -> list[Flaw]:
    """Queries that stand in a document word for word: a benchmark that leaks rewards whatever matches words."""
    rows = [row for row in queries if len(row.value.text.strip()) >= SHORTEST_COPY]
    flaws = []
    async with store.begin(view.namespace, read_only=True) as connection:
        for row in rows:
            found = select(Item.id).where(Item.text.icontains(row.value.text.strip(), autoescape=True)).limit(1)
            if (item := await connection.scalar(found)) is not None:
                message = f"the query's own text stands in the document {item!r}"
                flaws.append(Flaw(row.place, message, "noted", subject=row.value.id))
    return flaws


async def near_duplicates(store: Store, view: View, listener: Listener = nobody) -> list[Flaw]:
    """Documents that nearly repeat an earlier one: labelled once, they make the other a wrong answer."""
    detector = NearDuplicates()
    flaws, done = [], 0
    async with store.begin(view.namespace, read_only=True) as connection:
        total = await connection.scalar(select(func.count()).select_from(Item))
    async for item_id, text in _texts(store, view):
        if match := detector.add(item_id, text):
            message = f"it repeats {match.id!r} to {match.similarity:.0%}"
            flaws.append(Flaw(Place(view.name), message, "noted", subject=item_id))
        done += 1
        if done % ITEMS_A_PAGE == 0:
            listener(Step("Looking for near-duplicates", done, total, "documents"))
    return flaws


async def _texts(store: Store, view: View) -> AsyncIterator[tuple[str, str]]:
    """Every item, a page at a time: memory holds a page."""
    last = 0
    while True:
        page = select(Item.key, Item.id, Item.title, Item.text).where(Item.key > last).order_by(Item.key)
        async with store.begin(view.namespace, read_only=True) as connection:
            rows = (await connection.execute(page.limit(ITEMS_A_PAGE))).all()
        if not rows:
            return
        for row in rows:
            yield row.id, f"{row.title} {row.text}"
        last = rows[-1].key
