"""A surface with all that goes with it: a query's chooser, the instrument, and the point taken along.

For the Weights page and for a cell of a notebook alike. Each says itself what its address holds and how it changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import streamlit as st

from core import bridge
from core.errors import RankbookError
from core.sql_export import export_sql
from core.variant import Variant
from evals.evaluation.context import EvalContext
from workbench.behind.jobs import Key
from workbench.behind.weights import weighing
from workbench.behind.weights.asked import Weighed
from workbench.ui import errors, may
from workbench.ui.weights import instrument as weights
from workbench.ui.weights import keeping as weights_kept
from workbench.ui.weights.instrument import Controls, Stand


@dataclass(frozen=True, slots=True)
class WeightExplorer:
    """`name` begins all keys of its widgets, `key` says what the surface hangs on; `stand` reads the address.

    `about` goes before the verdict, where it stands beside another; `use` draws what puts a kept variant into a cell.
    """

    name: str
    key: Key
    ground: EvalContext
    found: Weighed
    stand: Callable[[], Stand]
    select: Callable[..., None]
    use: Callable[[str], None]
    about: str = ""

    def placed(self) -> Stand:
        """Where one stands, and at which query one looks, where the address does not say."""
        said, found = self.stand(), self.found
        point = found.point(said.weights) or found.current
        against = found.point(said.against) or ()
        return Stand("-".join(map(str, point)), "-".join(map(str, against)), said.query or found.liveliest)

    @property
    def digest(self) -> str:
        return sha256(" ".join(self.key).encode()).hexdigest()


@st.fragment
def draw(bench: WeightExplorer) -> None:
    """What a release has to answer in a blink: nothing above it is drawn again."""
    with errors.shown():
        stand, found = bench.placed(), bench.found
        texts = {each: query.text for each, query in found.split.queries.items()}
        Controls(bench.name, bench.select).chooser(
            "Query", "query", list(found.surface.queries), stand.query, lambda each: texts[each]
        )
        given = weighing.surface_given(found)
        verdict = f"{bench.about} {given['verdict']}".strip()
        surface = weights.labelled({**given, "verdict": verdict, "key": bench.digest})
        weights.draw(f"{bench.name}.instrument", surface, _query(bench, stand.query), stand, bench.select)
        _taken_along(bench, found.variant([int(part) for part in stand.weights.split("-")]), stand)


def _query(bench: WeightExplorer, query: str) -> dict[str, Any]:
    """The candidates of the chosen query, or why there are none."""
    try:
        given = weighing.query_given(bench.found, query)
    except RankbookError as error:
        return {"id": query, "text": query, "problem": str(error)}
    titles = _titles(bench.key, query, _ground=bench.ground, _items=given["items"])
    return weights.shown(given, titles, dict(bench.found.split.grades.get(query, {})))


@st.cache_data(max_entries=100, show_spinner=False)
def _titles(key: Key, query: str, _ground: EvalContext, _items: list[str]) -> list[str]:  # noqa: ARG001 - the cache's key
    return bridge.run(weighing.titles(_ground, _items))


def _taken_along(bench: WeightExplorer, made: Variant, stand: Stand) -> None:
    """The point as a variant of one's own, and as SQL."""
    asked_for, here = f"{bench.name}.sql", (bench.digest, replace(stand, query=""))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if may.edit(bench.ground.store):
            weights_kept.keeping(bench.ground.store, bench.name, made)
        if st.button("Copy as SQL", icon=":material/content_copy:", key=f"{bench.name}.copy"):
            st.session_state[asked_for] = here
    weights_kept.kept(bench.ground.store, bench.name, made, bench.use)
    if st.session_state.get(asked_for) == here:
        st.code(bridge.run(export_sql(bench.ground.store, bench.ground.view, made)).script, language="sql")
