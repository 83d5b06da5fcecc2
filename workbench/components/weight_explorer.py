"""The weight surface of a variant, to be walked over: drawn, read aloud, and a point of it kept as a variant."""

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
from core.sql_export import export
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.context import EvalContext
from workbench.components import feedback
from workbench.components.cards import badge_of
from workbench.components.theme import asset
from workbench.components.url_state import put
from workbench.services import permissions, weight_payload
from workbench.services.jobs import Key
from workbench.services.legs import LEGS
from workbench.services.search import QueryLabels
from workbench.services.variants import keep, replaceable, usual_name
from workbench.services.weight_payload import Plain
from workbench.services.weights import Weighed

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
    """Where one stands on a surface, what that is compared with, and at which query one looks; "" is the default."""

    weights: str = ""
    against: str = ""
    query: str = ""


def draw_instrument(
    key: str, surface: Plain, query: Plain, stand: SurfacePosition, select: Callable[..., None]
) -> None:
    """The instrument. Its three events each change one thing of where one stands, which `select` is told by name."""
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
            "weights": stand.weights,
            "against": stand.against,
            "heard": st.session_state.get(turn),
        },
        on_moved_change=moved,
        on_query_change=heard("query"),
        on_against_change=heard("against"),
    )


def with_leg_labels(surface: Plain) -> Plain:
    """The surface with its legs as people know them."""
    legs = [
        {**leg, "label": LEGS[leg["kind"]].label if leg["name"] == leg["kind"] and leg["kind"] in LEGS else leg["name"]}
        for leg in surface["legs"]
    ]
    return {**surface, "legs": legs}


def with_titles(query: Plain, titles: list[str], grades: dict[str, int]) -> Plain:
    """A query's candidates as its list shows them."""
    judged = QueryLabels(query["kind"], grades)
    return {**query, "titles": titles, "badges": [badge_of(judged, item) for item in query["items"]]}


# -- controls that write to the address --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Controls:
    """Widgets that show what the address says, and change it by `select`, which is told a field by its name."""

    name: str
    select: Callable[..., None]

    def chooser(
        self, label: str, field: str, options: list[str], chosen: str, named: Callable[[str], str] = str, **look: Any
    ) -> None:
        """A select box for one field. Without a choice where the address names something that is not there."""
        key = put(f"{self.name}.{field}", chosen if chosen in options else None)
        followed = self._followed(key, field)
        at = options.index(chosen) if chosen in options else None
        st.selectbox(label, options, at, format_func=named, key=key, placeholder="Choose", on_change=followed, **look)

    def several(self, label: str, field: str, options: list[str], chosen: list[str], most: int) -> None:
        """Some of the options, in the order of the options, separated by commas in the address."""
        known = [each for each in chosen if each in options]
        key = put(f"{self.name}.{field}", known)
        followed = self._followed(key, field)
        st.multiselect(label, options, known, format_func=leg_label, key=key, max_selections=most, on_change=followed)

    def number(
        self, label: str, field: str, chosen: float, most: float = 1000.0, step: float = 5.0, **look: Any
    ) -> None:
        key = put(f"{self.name}.{field}", chosen)
        followed = self._followed(key, field)
        st.number_input(label, 0.0, most, chosen, step, format="%g", key=key, on_change=followed, **look)

    def _followed(self, key: str, field: str) -> Callable[[], None]:
        def follow() -> None:
            value = st.session_state[key]
            text = f"{value:g}" if isinstance(value, float) else ",".join(value) if isinstance(value, list) else value
            self.select(**{field: text or ""})

        return follow


def leg_label(kind: str) -> str:
    return LEGS[kind].label if kind in LEGS else kind


LONGEST_NAME = 120


def keep_form(store: Store, key: str, made: Variant) -> None:
    """A name, which is offered anew as the point moves until somebody types one, and the button."""
    _name(key, made)

    def asked() -> None:
        _keep(store, key, made, st.session_state[f"{key}.name"])  # what was typed on the way to the button too

    st.button("Keep as variant", icon=":material/bookmark:", key=f"{key}.keep", on_click=asked)


def _name(key: str, made: Variant) -> None:
    field, offered = f"{key}.name", f"{key}.offered"
    of, kept = st.session_state.get(f"{key}.kept", ("", ""))
    usual = kept if of == made.id else usual_name(made)
    if st.session_state.get(field) in (None, "", st.session_state.get(offered)):
        st.session_state[field] = usual
    st.session_state[offered] = usual
    st.text_input("Name", key=field, max_chars=LONGEST_NAME, width=280)


def _keep(store: Store, key: str, made: Variant, name: str, *, over: bool = False) -> None:
    """In a callback, so that whatever is drawn knows of it."""
    said, asked = f"{key}.refused", f"{key}.taken"
    st.session_state.pop(said, None)
    st.session_state.pop(asked, None)
    try:
        if not over and replaceable(made, name):
            st.session_state[asked] = (made.id, name.strip())
            return
        st.session_state[f"{key}.kept"] = (made.id, keep(store, made, name, over=over))
    except RankbookError as error:
        st.session_state[said] = (made.id, str(error))


def keep_result(store: Store, key: str, made: Variant, use: Callable[[str], None]) -> None:
    """What became of it. `use` draws what puts it into a cell."""
    refused, name_taken, done = (
        st.session_state.get(f"{key}.{each}", ("", "")) for each in ("refused", "taken", "kept")
    )
    if name_taken[0] == made.id:
        _replace(store, key, made, name_taken[1])
    elif refused[0] == made.id:
        _say(html.escape(refused[1]), "alert")
    elif done[0] == made.id:
        _links(done[1], use)


def _replace(store: Store, key: str, made: Variant, name: str) -> None:
    _say(f"Another variant is kept as <b>{html.escape(name)}</b> already. Type another name, or replace it.", "alert")
    st.button(
        "Replace it",
        icon=":material/published_with_changes:",
        key=f"{key}.replace",
        on_click=_keep,
        args=(store, key, made, name),
        kwargs={"over": True},
    )


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
    """`name` begins all keys of its widgets, `key` says what the surface hangs on; `stand` reads the address.

    `about` goes before the verdict, where it stands beside another; `use` draws what puts a kept variant into a cell.
    """

    name: str
    key: Key
    ground: EvalContext
    found: Weighed
    stand: Callable[[], SurfacePosition]
    select: Callable[..., None]
    use: Callable[[str], None]
    about: str = ""

    def placed(self) -> SurfacePosition:
        """Where one stands, and at which query one looks, where the address does not say."""
        said, found = self.stand(), self.found
        point = found.point(said.weights) or found.current
        against = found.point(said.against) or ()
        return SurfacePosition("-".join(map(str, point)), "-".join(map(str, against)), said.query or found.liveliest)

    @property
    def digest(self) -> str:
        return sha256(" ".join(self.key).encode()).hexdigest()


@st.fragment
def draw(bench: WeightExplorer) -> None:
    """What a release has to answer in a blink: nothing above it is drawn again."""
    with feedback.draw_errors():
        stand, found = bench.placed(), bench.found
        texts = {each: query.text for each, query in found.split.queries.items()}
        Controls(bench.name, bench.select).chooser(
            "Query", "query", list(found.surface.queries), stand.query, lambda each: texts[each]
        )
        given = weight_payload.surface_given(found)
        verdict = f"{bench.about} {given['verdict']}".strip()
        surface = with_leg_labels({**given, "verdict": verdict, "key": bench.digest})
        draw_instrument(f"{bench.name}.instrument", surface, _query(bench, stand.query), stand, bench.select)
        _taken_along(bench, found.variant([int(part) for part in stand.weights.split("-")]), stand)


def _query(bench: WeightExplorer, query: str) -> dict[str, Any]:
    """The candidates of the chosen query, or why there are none."""
    try:
        given = weight_payload.query_given(bench.found, query)
    except RankbookError as error:
        return {"id": query, "text": query, "problem": str(error)}
    titles = _titles(bench.key, query, _ground=bench.ground, _items=given["items"])
    return with_titles(given, titles, dict(bench.found.split.grades.get(query, {})))


@st.cache_data(max_entries=100, show_spinner=False)
def _titles(key: Key, query: str, _ground: EvalContext, _items: list[str]) -> list[str]:  # noqa: ARG001 - the cache's key
    return bridge.run(weight_payload.titles(_ground, _items))


def _taken_along(bench: WeightExplorer, made: Variant, stand: SurfacePosition) -> None:
    """The point as a variant of one's own, and as SQL."""
    asked_for, here = f"{bench.name}.sql", (bench.digest, replace(stand, query=""))
    with st.container(horizontal=True, vertical_alignment="bottom"):
        if permissions.may_edit(bench.ground.store):
            keep_form(bench.ground.store, bench.name, made)
        if st.button("Copy as SQL", icon=":material/content_copy:", key=f"{bench.name}.copy"):
            st.session_state[asked_for] = here
    keep_result(bench.ground.store, bench.name, made, bench.use)
    if st.session_state.get(asked_for) == here:
        st.code(bridge.run(export(bench.ground.store, bench.ground.view, made)).script, language="sql")
