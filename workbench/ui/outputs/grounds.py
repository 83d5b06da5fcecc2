"""The collection that a cell is about, opened once and kept for a while: a click must not read all its labels again."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core import bridge
from core.context import Resources
from core.errors import SpecError, UnknownName
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from evals.evaluation.context import EvalContext, open_eval
from evals.types import DEFAULT_QUERY_SET
from workbench.notebooks.cells import CellSpec
from workbench.notebooks.cells.base import CellContext

LABELS_KEPT = 15  # seconds


def ground_of(context: CellContext, spec: CellSpec) -> tuple[EvalContext, str]:
    """The cell's collection, and what stands for its content and labels in keys."""
    collection = spec.collection or context.shared.collection
    if collection is None:
        raise SpecError('No collection is named. Write collection = "handbook" in this cell.')
    found, mark = opened(context.store, collection, spec.query_set or context.shared.query_set)
    if context.resources is not None:
        found = replace(found, context=replace(found.context, resources=context.resources))
    return found, mark


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
