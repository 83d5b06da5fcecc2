"""The weights page: how much each leg should count, found by dragging over everything that is labelled."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256
from typing import Any, get_args

import streamlit as st

from core import bridge
from core.errors import RankbookError
from core.fusion.normalise import Normalisation
from core.sql_export import export
from core.store import collections
from core.store.engine import Store
from core.store.home import home
from core.variant import Variant
from evals import evaluation
from evals.evaluation import Opened
from workbench import jobs, weighing, weights_asked
from workbench.ui import errors, weights
from workbench.weights_asked import Asked, Weighed

DEMO, FIRST_LEGS = "handbook", "vector,bm25"
OFFERED_LEGS = ["vector", "bm25", "fulltext", "trigram", "fuzzy"]
BEAT, AT_ONCE = 0.25, 0.15  # seconds between two looks at work under way; before the page shows that it waits
LABELS_KEPT = 15  # seconds
Key = tuple[str, ...]


def render(store: Store) -> None:
    versions = {row.name: row.version for row in bridge.run(collections.listed(store))}
    if not versions:
        st.html('<div class="rb-nothing">There is no collection yet. The search page says how to add one.</div>')
        return
    asked = _filled(weights.current(), list(versions))
    st.html('<p class="rb-tagline">How much should each leg count? Drag, and every labelled query answers.</p>')
    with st.container(key="where"):
        _what(asked, list(versions))
        version = versions.get(asked.collection, 0)
        ground, digest = _opened(store.where, asked.collection, version, _store=store)
        asked = replace(asked, split=asked.split or weights_asked.default_split(ground.labelled))
        _how(asked, ground, weights_asked.base_of(asked, ground.view.finest))
    key = (store.where, str(version), digest, *asked.surface)
    found = _waited(key, ground, asked)
    if found is not None:
        _instrument(key, ground, found)


@st.cache_resource(ttl=LABELS_KEPT, max_entries=10, show_spinner=False)
def _opened(where: str, collection: str, version: int, _store: Store) -> tuple[Opened, str]:  # noqa: ARG001 - the key
    """The collection with its labels, and what stands for these."""
    ground = bridge.run(evaluation.opened(_store, collection))
    return ground, ground.labelled.digest().hex()


@st.fragment
def _instrument(key: Key, ground: Opened, found: Weighed) -> None:
    """What a release has to answer in a blink: nothing above it is drawn again."""
    with errors.shown():
        asked = _placed(weights.current(), found)
        texts = {each: query.text for each, query in found.split.queries.items()}
        weights.chooser("Query", "query", list(found.surface.queries), asked.query, lambda each: texts[each])
        surface = weights.labelled({**weighing.surface_given(found), "key": sha256(" ".join(key).encode()).hexdigest()})
        weights.draw(surface, _query(key, ground, found, asked.query), asked.weights, asked.against)
        _taken_along(ground, found.variant([int(part) for part in asked.weights.split("-")]), asked)


def _filled(asked: Asked, names: list[str]) -> Asked:
    """With what holds where the address says nothing."""
    return replace(
        asked,
        collection=asked.collection or (DEMO if DEMO in names else names[0]),
        legs="" if asked.variant else asked.legs or FIRST_LEGS,
        metric=asked.metric or weights_asked.METRICS[0],
    )


def _what(asked: Asked, names: list[str]) -> None:
    where = st.columns([2, 2, 4], vertical_alignment="bottom")
    with where[0]:
        weights.chooser("Collection", "collection", names, asked.collection)
    presets = ["", *weights_asked.weighable()]
    with where[1]:
        weights.chooser("Weigh", "variant", presets, asked.variant, lambda name: name or "Legs of your choice")
    if not asked.variant:
        with where[2]:
            weights.several("Legs", "legs", OFFERED_LEGS, asked.legs.split(","), 4)


def _how(asked: Asked, ground: Opened, base: Variant) -> None:
    row = st.columns(4, vertical_alignment="bottom")
    with row[0]:
        metrics = list(dict.fromkeys([*weights_asked.METRICS, asked.metric]))
        weights.chooser("Metric", "metric", metrics, asked.metric)
    with row[1]:
        method = weights_asked.method_of(base)
        weights.chooser("Fusion", "fusion", list(dict.fromkeys([*weights_asked.methods(), method])), method)
    with row[2]:
        if (k := getattr(base.fusion, "k", None)) is not None:
            weights.number("k", "k", float(k))
        elif how := getattr(base.fusion, "normalize", None):
            weights.chooser("Normalisation", "normalize", list(get_args(Normalisation)), how)
    with row[3]:
        weights.chooser("Labelled queries", "split", [*ground.labelled.splits, "all"], asked.split)


def _waited(key: Key, ground: Opened, asked: Asked) -> Weighed | None:
    """The surface; None where somebody stopped it. It goes on where the page is left, and is found again."""
    work = jobs.begin(key, "Weight surface", lambda listener, _: weights_asked.weighed(ground, asked, listener))
    if not work.wait(AT_ONCE):
        slot = st.empty()
        with slot.container():
            bar = st.progress(0.0, "Beginning")
            st.button("Stop", on_click=work.stop, icon=":material/stop_circle:")
            while not work.wait(BEAT):
                bar.progress(*work.told)
        slot.empty()
    if work.stopped:
        st.html(
            '<div class="rb-box rb-note" role="note"><strong>Stopped</strong><p>Nothing was kept half done.</p></div>'
        )
        st.button("Go on", on_click=jobs.forget, args=(key,))
        return None
    return work.result()


def _placed(asked: Asked, found: Weighed) -> Asked:
    """Where one stands, and at which query one looks, where the address does not say."""
    point = found.point(asked.weights) or found.current
    against = asked.against if found.point(asked.against) else ""
    return replace(asked, weights="-".join(map(str, point)), against=against, query=asked.query or found.liveliest)


def _query(key: Key, ground: Opened, found: Weighed, query: str) -> dict[str, Any]:
    """The candidates of the chosen query, or why there are none."""
    try:
        given = weighing.query_given(found, query)
    except RankbookError as error:
        return {"id": query, "text": query, "problem": str(error)}
    titles = _titles(key, query, _ground=ground, _items=given["items"])
    return weights.shown(given, titles, dict(found.split.grades.get(query, {})))


@st.cache_data(max_entries=100, show_spinner=False)
def _titles(key: Key, query: str, _ground: Opened, _items: list[str]) -> list[str]:  # noqa: ARG001 - the cache's key
    return bridge.run(weighing.titles(_ground, _items))


# -- taken along -------------------------------------------------------------------------------------------------------


def _taken_along(ground: Opened, made: Variant, asked: Asked) -> None:
    """The point as a variant's file, and as SQL."""
    buttons = st.container(horizontal=True)
    file = f"{re.sub('[^a-z0-9]+', '-', made.name.lower()).strip('-')}-{made.id[:6]}.toml"
    folder = home() / "variants"
    with buttons:
        if folder.is_dir():
            if st.button("Keep as variant", icon=":material/bookmark:"):
                (folder / file).write_text(made.to_toml(), encoding="utf-8")
                st.session_state["weights.kept"] = str(folder / file)
        else:
            st.download_button(
                "Keep as variant",
                made.to_toml(),
                file,
                "application/toml",
                on_click="ignore",
                icon=":material/bookmark:",
            )
        if st.button("Copy as SQL", icon=":material/content_copy:"):
            st.session_state["weights.sql"] = asked.parameters()
    if st.session_state.get("weights.kept", "").endswith(file):
        st.caption(f"Kept in `{st.session_state['weights.kept']}`.")
    if st.session_state.get("weights.sql") == asked.parameters():
        st.code(bridge.run(export(ground.store, ground.view, made)).script, language="sql")
