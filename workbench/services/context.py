"""Collections with their queries, opened once and kept for a while: a click must not read all labels again."""

from __future__ import annotations

import threading
import time
from typing import Final

from core import bridge
from core.context import Resources
from core.errors import UnknownName
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from evals.evaluation.context import EvalContext, open_eval
from evals.types import DEFAULT_QUERY_SET

KEPT: Final = 15.0  # seconds
MOST: Final = 10
_kept: dict[tuple[str, str, str, str], tuple[float, EvalContext, str]] = {}
_lock = threading.Lock()


def open_collection(store: Store, collection: str, query_set: str = DEFAULT_QUERY_SET) -> tuple[EvalContext, str]:
    """A collection with its queries, and a key that changes when either does."""
    versions = {row.name: row for row in bridge.run(collections.listed(store))}
    if collection not in versions:
        raise UnknownName("collection", collection, versions)
    key = (store.where, collection, CollectionView(versions[collection]).version_key, query_set)
    with _lock:
        opened_at, kept, labels = _kept.get(key, (0.0, None, ""))
    if kept is not None and time.monotonic() - opened_at < KEPT:
        return kept, " ".join((*key, labels))
    ctx = bridge.run(open_eval(store, collection, query_set, resources=Resources()))
    labels = ctx.labelled.digest().hex()
    with _lock:
        _kept.pop(key, None)
        _kept[key] = (time.monotonic(), ctx, labels)
        while len(_kept) > MOST:
            del _kept[next(iter(_kept))]
    return ctx, " ".join((*key, labels))


def forget_opened() -> None:
    """Open every collection anew."""
    with _lock:
        _kept.clear()
