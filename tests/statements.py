"""How often what is read of the store, for tests of work that must read it once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import event

from core.store.engine import Store


@contextmanager
def reading(store: Store) -> Iterator[Counter[str]]:
    """Counts statements while it is open: of the collection, its chunk sets, its queries, and single kept runs."""
    read: Counter[str] = Counter()

    def listen(_connection: Any, _cursor: Any, statement: str, *_: Any) -> None:
        text = " ".join(statement.split())
        read["collection"] += "rankbook.collections.language" in text
        read["chunk sets"] += ".chunk_sets.chunker" in text
        read["queries"] += "FROM rankbook.queries" in text
        read["kept runs"] += text.startswith("SELECT rankbook.runs.id") and "WHERE rankbook.runs.id =" in text

    event.listen(store.engine.sync_engine, "before_cursor_execute", listen)
    try:
        yield read
    finally:
        event.remove(store.engine.sync_engine, "before_cursor_execute", listen)
