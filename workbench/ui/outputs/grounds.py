"""The collection that a cell is about, opened once and kept for a while: a click must not read all its labels again."""

from __future__ import annotations

from dataclasses import replace

import streamlit as st

from core import bridge
from core.errors import SpecError, UnknownName
from core.resources import Resources
from core.store import collections
from core.store.collections import View
from core.store.engine import Store
from evals import evaluation
from evals.evaluation import Opened
from evals.query_sets import DEFAULT
from workbench.book.cells import CellSpec
from workbench.book.context import CellContext

LABELS_KEPT = 15  # seconds


def ground_of(context: CellContext, spec: CellSpec) -> tuple[Opened, str]:
    """The cell's collection, and what stands for its content and labels in keys."""
    collection = spec.collection or context.shared.collection
    if collection is None:
        raise SpecError('No collection is named. Write collection = "handbook" in this cell.')
    found, mark = opened(context.store, collection, spec.query_set or context.shared.query_set)
    if context.resources is not None:
        found = replace(found, context=replace(found.context, resources=context.resources))
    return found, mark


def opened(store: Store, collection: str, query_set: str = DEFAULT) -> tuple[Opened, str]:
    """A collection with its queries, and a mark that changes when either does."""
    versions = {row.name: row for row in bridge.run(collections.listed(store))}
    if collection not in versions:
        raise UnknownName("collection", collection, versions)
    made_at = View(versions[collection]).mark
    ground, labels = _opened(store.where, collection, made_at, query_set, _store=store)
    return ground, f"{store.where} {collection} {made_at} {query_set} {labels}"


@st.cache_resource(ttl=LABELS_KEPT, max_entries=10, show_spinner=False)
def _opened(where: str, collection: str, made_at: str, query_set: str, _store: Store) -> tuple[Opened, str]:  # noqa: ARG001 - the key
    ground = bridge.run(evaluation.opened(_store, collection, query_set, resources=Resources()))
    return ground, ground.labelled.digest().hex()
