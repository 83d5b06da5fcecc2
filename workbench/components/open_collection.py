"""Collections opened once and kept for a while: a click must not read all labels again."""

from __future__ import annotations

import streamlit as st

from core import bridge
from core.context import Resources
from core.errors import UnknownName
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from evals.evaluation.context import EvalContext, open_eval
from evals.types import DEFAULT_QUERY_SET

LABELS_KEPT = 15  # seconds


def opened(store: Store, collection: str, query_set: str = DEFAULT_QUERY_SET) -> tuple[EvalContext, str]:
    """A collection with its queries, and a mark that changes when either does."""
    versions = {row.name: row for row in bridge.run(collections.listed(store))}
    if collection not in versions:
        raise UnknownName("collection", collection, versions)
    made_at = CollectionView(versions[collection]).version_key
    ground, labels = _opened(store.where, collection, made_at, query_set, _store=store)
    return ground, f"{store.where} {collection} {made_at} {query_set} {labels}"


@st.cache_resource(ttl=LABELS_KEPT, max_entries=10, show_spinner=False)
def _opened(where: str, collection: str, made_at: str, query_set: str, _store: Store) -> tuple[EvalContext, str]:  # noqa: ARG001 - the key
    ground = bridge.run(open_eval(_store, collection, query_set, resources=Resources()))
    return ground, ground.labelled.digest().hex()
