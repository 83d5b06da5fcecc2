"""Which document somebody means who typed its id, or some of its title. Asks the database, draws nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlalchemy import func, or_, select

from core.errors import InputError
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.resolve_target import documents
from core.store.sanitize import storable
from core.store.schema import ID_MARK

MOST = 6
_PASSAGE = re.compile(rf"{ID_MARK}\d{{4,}}\Z")


@dataclass(frozen=True, slots=True)
class DocumentMatch:
    """A document by its id and its title."""

    id: str
    title: str


async def find_documents(store: Store, view: CollectionView, typed: str) -> list[DocumentMatch]:
    """The document of that id alone; else those with these words in their title, the closest first.

    An id of a passage is taken as it is: whoever is asked about it knows the passages.
    """
    typed = typed.strip()
    if not typed or not storable(typed):
        raise InputError("Type the id of a document, or some of its title.")
    if _PASSAGE.search(typed):
        return [DocumentMatch(typed, "")]
    items = documents(store, view).details.subquery()
    wanted = or_(items.c.item_id == typed, items.c.title.icontains(typed, autoescape=True))
    first = (items.c.item_id != typed, func.lower(items.c.title) != typed.lower(), func.length(items.c.title))
    asked = select(items.c.item_id, items.c.title).where(wanted).order_by(*first, items.c.item_id).limit(MOST)
    async with store.begin(view.namespace, read_only=True) as connection:
        found = [DocumentMatch(row.item_id, row.title or "") for row in await connection.execute(asked)]
    exact = [each for each in found if each.id == typed or each.title.lower() == typed.lower()]
    return (
        exact[:1] or found or [DocumentMatch(typed, "")]
    )  # what nobody knows is for `explain` to say, with the nearest ids
