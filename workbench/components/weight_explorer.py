"""The weight surface of a variant, to be explored: the instrument, a query's ranking, a point kept as a variant."""

from __future__ import annotations

import html
from collections.abc import Callable
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import streamlit as st

from core import bridge
from core.errors import RankbookError
from core.legs import describe
from core.sql_export import export_sql
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.context import EvalContext
from workbench.components import feedback
from workbench.components.cards import badge_of
from workbench.components.theme import asset
from workbench.components.url_state import Chooser
from workbench.services import permissions, weight_payload
from workbench.services.jobs import Key
from workbench.services.search import QueryLabels
from workbench.services.variants import default_name, keep, replaceable
from workbench.services.weight_payload import Plain
from workbench.services.weights import WeighedSurface

SCRIPTS = (
    "count",
    "plot",
    "following",
    "moving",
    "standing",
    "instrument",
)  # in this order: components know no imports

_component = st.components.v2.component(
    "rankbook.weights",
    html=asset("components/assets/weights/instrument.html"),
    css=f"{asset('components/assets/shared.css')}\n{asset('components/assets/weights/instrument.css')}",
    js="\n".join(asset(f"components/assets/weights/{name}.js") for name in SCRIPTS),
)


@dataclass(frozen=True, slots=True)
class SurfacePosition:
    """A point on a surface, the point that it is compared with, and the query that is shown; "" is the default."""

    weights: str = ""
    against: str = ""
    query: str = ""


def draw_instrument(
    key: str, surface: Plain, query: Plain, position: SurfacePosition, select: Callable[..., None]
) -> None:
    """The instrument. Each of its three events changes one field, by which `select` is called."""
    turn = f"{key}.turn"

    def moved() -> None:
        if (value := st.session_state[key].get("moved")) is not None:
            st.session_state[turn] = value["turn"]
            select(weights=str(value["weights"]))

    def heard(event: str) -> Callable[[], None]:
        def follow() -> None:
            if (value := st.session_state[key].get(event)) is not None:
                select(**{event: str(value)})

        return follow

    _component(
        key=key,
        data={
            "surface": surface,
            "query": query,
            "weights": position.weights,
            "against": position.against,
            "heard": st.session_state.get(turn),
        },
        on_moved_change=moved,
        on_query_change=heard("query"),
        on_against_change=heard("against"),
    )


def with_leg_labels(surface: Plain) -> Plain:
    """The surface with the labels of its legs."""
    legs = [
        {**leg, "label": leg_label(leg["kind"]) if leg["name"] == leg["kind"] else leg["name"]}
        for leg in surface["legs"]
    ]
    return {**surface, "legs": legs}


def with_titles(query: Plain, titles: list[str], grades: dict[str, int]) -> Plain:
    """A query's candidates with titles and labels."""
    judged = QueryLabels(query["kind"], grades)
    return {**query, "titles": titles, "badges": [badge_of(judged, item) for item in query["items"]]}


def leg_label(kind: str) -> str:
    return describe(kind).label


LONGEST_NAME = 120


def keep_form(store: Store, key: str, variant: Variant) -> None:
    """A name, suggested anew for each point until somebody types one, and the button."""
    field, offered = f"{key}.name", f"{key}.offered"
    of, kept = st.session_state.get(f"{key}.kept", ("", ""))
    usual = kept if of == variant.id else default_name(variant)
    if st.session_state.get(field) in (None, "", st.session_state.get(offered)):
        st.session_state[field] = usual
    st.session_state[offered] = usual
    st.text_input("Name", key=field, max_chars=LONGEST_NAME, width=280)

    def asked() -> None:
        _keep(store, key, variant, st.session_state[f"{key}.name"])  # what was typed on the way to the button too

    st.button("Keep as variant", icon=":material/bookmark:", key=f"{key}.keep", on_click=asked)


def _keep(store: Store, key: str, variant: Variant, name: str, *, over: bool = False) -> None:
    """A callback, so that everything drawn knows of it."""
    said, asked = f"{key}.refused", f"{key}.taken"
    st.session_state.pop(said, None)
    st.session_state.pop(asked, None)
    try:
        if not over and replaceable(variant, name):
            st.session_state[asked] = (variant.id, name.strip())
            return
        st.session_state[f"{key}.kept"] = (variant.id, keep(store, variant, name, over=over))
    except RankbookError as error:
        st.session_state[said] = (variant.id, str(error))


def keep_result(store: Store, key: str, variant: Variant, use: Callable[[str], None]) -> None:
    """What came of keeping. `use` draws the way into a cell."""
    refused, name_taken, done = (
        st.session_state.get(f"{key}.{each}", ("", "")) for each in ("refused", "taken", "kept")
    )
    if name_taken[0] == variant.id:
        name = name_taken[1]
        _say(
            f"Another variant is kept as <b>{html.escape(name)}</b> already. Type another name, or replace it.", "alert"
        )
        st.button(
            "Replace it",
            icon=":material/published_with_changes:",
            key=f"{key}.replace",
            on_click=_keep,
            args=(store, key, variant, name),
            kwargs={"over": True},
        )
    elif refused[0] == variant.id:
        _say(html.escape(refused[1]), "alert")
    elif done[0] == variant.id:
        _links(done[1], use)


def _links(name: str, use: Callable[[str], None]) -> None:
    link = html.escape(f"./variants?{urlencode({'variant': name})}")
    with st.container(horizontal=True, vertical_alignment="center"):
        _say(
            f"Kept as <b>{html.escape(name)}</b>: notebooks and commands find it by that name. "
            f'<a class="rb-link" href="{link}" target="_self">Open in Variants</a>',
            "status",
        )
        use(name)


def _say(words: str, role: str) -> None:
    st.html(f'<p class="rb-summary" role="{role}">{words}</p>', width="content")


@dataclass(frozen=True, slots=True)
class WeightExplorer:
    """`name` begins the keys of its widgets, `key` says what the surface depends on; `stand` reads the address.

    `about` precedes the verdict where there are several surfaces; `use` draws the way of a kept variant into a cell.
    """

    name: str
    key: Key
    ground: EvalContext
    found: WeighedSurface
    stand: Callable[[], SurfacePosition]
    select: Callable[..., None]
    use: Callable[[str], None]
    about: str = ""

    def placed(self) -> SurfacePosition:
        """The position, with defaults for what the address leaves out."""
        said, found = self.stand(), self.found
        point = found.point(said.weights) or found.current
        against = found.point(said.against) or ()
        return SurfacePosition("-".join(map(str, point)), "-".join(map(str, against)), said.query or found.liveliest)

    @property
    def digest(self) -> str:
        return sha256(" ".join(self.key).encode()).hexdigest()


@st.fragment
def draw(explorer: WeightExplorer) -> None:
    """A fragment, so that releasing the pointer redraws nothing above it."""
    with feedback.draw_errors():
        stand, found = explorer.placed(), explorer.found
        texts = {each: query.text for each, query in found.split.queries.items()}
        Chooser(explorer.name, explorer.select).select(
            "Query", "query", list(found.surface.queries), stand.query, named=texts.__getitem__
        )
        given = weight_payload.pack_surface(found)
        verdict = f"{explorer.about} {given['verdict']}".strip()
        surface = with_leg_labels({**given, "verdict": verdict, "key": explorer.digest})
        draw_instrument(f"{explorer.name}.instrument", surface, _query(explorer, stand.query), stand, explorer.select)
        # The point as a variant of one's own, and as SQL.
        variant = found.variant([int(part) for part in stand.weights.split("-")])
        asked_for, here = f"{explorer.name}.sql", (explorer.digest, replace(stand, query=""))
        with st.container(horizontal=True, vertical_alignment="bottom"):
            if permissions.may_edit(explorer.ground.store):
                keep_form(explorer.ground.store, explorer.name, variant)
            if st.button("Copy as SQL", icon=":material/content_copy:", key=f"{explorer.name}.copy"):
                st.session_state[asked_for] = here
        keep_result(explorer.ground.store, explorer.name, variant, explorer.use)
        if st.session_state.get(asked_for) == here:
            st.code(bridge.run(export_sql(explorer.ground.store, explorer.ground.view, variant)).script, language="sql")


def _query(explorer: WeightExplorer, query: str) -> dict[str, Any]:
    """The candidates of the query, or why there are none."""
    try:
        given = weight_payload.pack_query(explorer.found, query)
    except RankbookError as error:
        return {"id": query, "text": query, "problem": str(error)}
    titles = _titles(explorer.key, query, _ground=explorer.ground, _items=given["items"])
    return with_titles(given, titles, dict(explorer.found.split.grades.get(query, {})))


@st.cache_data(max_entries=100, show_spinner=False)
def _titles(key: Key, query: str, _ground: EvalContext, _items: list[str]) -> list[str]:  # noqa: ARG001 - the cache's key
    return bridge.run(weight_payload.titles(_ground, _items))
