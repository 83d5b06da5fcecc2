"""The options of a class as a form over TOML: one widget a field, and a change is written into the text."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import streamlit as st
from pydantic import BaseModel

from core.errors import RankbookError
from core.registry import Registry, Tagged
from workbench.components import feedback
from workbench.components.theme import asset
from workbench.services import form_fields, toml_edit
from workbench.services.form_fields import Entry
from workbench.services.toml_edit import Place

LEFT_OUT = "not set"
Widget = Callable[..., Any]


def value_of(entry: Entry, key: str, offered: Sequence[str] | None, *, disabled: bool) -> Any:
    """Draw it; its value."""
    common: dict[str, Any] = {"key": key, "help": f"{entry.help} In TOML: `{entry.name}`", "disabled": disabled}
    made: dict[str, Callable[[], Any]] = {
        "switch": lambda: st.checkbox(entry.label, bool(st.session_state[key]), **common),
        "choice": lambda: _choice(entry, common),
        "whole": lambda: _number(entry, common, int, 1, "%d"),
        "number": lambda: _number(entry, common, float, 0.05, "%g"),
        "texts": lambda: _texts(entry, common, offered or ()),
        "text": lambda: _text(entry, common, offered),
    }
    return made[entry.kind]()


def _choice(entry: Entry, common: dict[str, Any]) -> Any:
    widget: Widget = st.selectbox
    at = None if _cleared(entry) else place_of(st.session_state[common["key"]], entry.choices)
    return widget(entry.label, entry.choices, at, format_func=str, placeholder=LEFT_OUT, **common)


def _cleared(entry: Entry) -> bool:
    """Whether it can be taken out again, for which a widget must have no default."""
    return entry.optional or entry.required


def place_of(value: Any, choices: Sequence[Any]) -> int | None:
    """Where among the choices; None where it is none of them."""
    return list(choices).index(value) if value in choices else None


def _number(entry: Entry, common: dict[str, Any], of: type[int] | type[float], step: float, form: str) -> Any:
    widget: Widget = st.number_input
    value = st.session_state[common["key"]]
    value = None if value is None else of(value)  # a whole number may stand for any other
    st.session_state[common["key"]] = value
    bounds = {"min_value": entry.least, "max_value": entry.most}
    limits: dict[str, Any] = {name: None if bound is None else of(bound) for name, bound in bounds.items()}
    if value is not None or _cleared(entry):
        limits |= {"value": None if _cleared(entry) else value}
    made = widget(entry.label, step=step, format=form, placeholder=LEFT_OUT, **limits, **common)
    return entry.default if made is None else made


def _texts(entry: Entry, common: dict[str, Any], offered: Sequence[str]) -> Any:
    widget: Widget = st.multiselect
    chosen = st.session_state[common["key"]]
    there = dict.fromkeys([*offered, *chosen])
    return widget(entry.label, list(there), chosen, accept_new_options=True, placeholder="Type or choose", **common)


def _text(entry: Entry, common: dict[str, Any], offered: Sequence[str] | None) -> Any:
    value = st.session_state[common["key"]]
    long = value is not None and "\n" in value
    if offered is not None and not long:
        widget: Widget = st.selectbox
        there = [each for each in dict.fromkeys([*offered, value]) if each]
        empty = entry.default or LEFT_OUT
        at = None if _cleared(entry) else place_of(value, there)
        return widget(entry.label, there, at, accept_new_options=True, placeholder=empty, **common)
    widget = st.text_area if long else st.text_input
    made = widget(entry.label, value, max_chars=entry.longest, placeholder=LEFT_OUT, **common)
    return made if made or not entry.optional else None


LONGEST = 200  # characters shown of what a form cannot change
_SIMPLE = ("switch", "whole", "number", "text", "choice", "texts")


@dataclass(frozen=True, slots=True)
class Options:
    """How a form is drawn. Fields are meant by their keys in TOML, and fields of a table too.

    `offered` are known values of a text, or of a list of texts: others can be typed all the same. `only` draws these
    fields, in this order; `without` leaves some out. `columns` is how many stand side by side where there is room.
    """

    offered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    only: Sequence[str] | None = None
    without: Sequence[str] = ()
    columns: int = 3
    disabled: bool = False


def drawn(
    model: type[BaseModel], source: str, key: str, options: Options | None = None, *, at: Place = ()
) -> str | None:
    """Draw the model's fields with the values of the TOML `source`; give the changed TOML, None where nothing changed.

    Keep what comes back, and draw again (`st.rerun`) if something above the form shows the source too:

        changed = form.drawn(SearchCell, cell.source, f"form.{cell.id}", form.Options(offered={"variants": names}))
        if changed is not None:
            keep(changed)
            st.rerun()

    `key` begins the keys of all widgets: one for each thing that is edited. A widget's is `{key}.{field}`, or
    `{key}.{table}.{field}`. Call it with the source as it is now, even if that was changed elsewhere: a field that did
    change there shows the new value, and what somebody is typing in the other fields stays. `at` draws a table in the
    source instead of the whole: ("pack",), ("leg", 0). A source that is no TOML is complained of, and None comes back.
    """
    try:
        form = _Form(source, key, options or Options())
        st.html(f"<style>{asset('components/assets/form.css')}</style>")
        form.fields(model, at, form.options.only)
        return toml_edit.put(source, form.changes) if form.changes else None
    except RankbookError as error:
        feedback.draw_error(error)
        return None


class _Form:
    """One drawing of it, with what it finds changed."""

    def __init__(self, source: str, key: str, options: Options) -> None:
        self.key, self.options = key, options
        self.changes: dict[Place, Any] = {}
        self.plain = toml_edit.read(source)
        self.seen: dict[str, Any] = st.session_state.setdefault(f"{key}.seen", {})

    def fields(self, model: type[BaseModel], at: Place, only: Sequence[str] | None = None) -> None:
        """The simple ones in a grid, and those with fields of their own below."""
        known = {each.name: each for each in form_fields.entries(model)}
        named = [name for name in (only or known) if name not in self.options.without]
        shown = [known[name] for name in named if name in known]
        simple = [each for each in shown if each.kind in _SIMPLE]
        for start in range(0, len(simple), self.options.columns):
            columns = st.columns(self.options.columns, vertical_alignment="bottom")
            for column, entry in zip(columns, simple[start:], strict=False):
                with column:
                    self._simple(entry, (*at, entry.name))
        for entry in shown:
            if entry.kind not in _SIMPLE:
                self._composed(entry, (*at, entry.name))

    # -- one value -----------------------------------------------------------------------------------------------------

    def _simple(self, entry: Entry, place: Place) -> None:
        written = toml_edit.value_at(self.plain, place)
        if not entry.fits(written):
            self._as_written(entry, place, written)
            return
        current = entry.default if written is None else written
        key = self._set(place, current)
        value = value_of(entry, key, self.options.offered.get(entry.name), disabled=self.options.disabled)
        if not _equal(value, current):
            self.changes[place] = value

    def _set(self, place: Place, current: Any) -> str:
        """The widget's key, and the widget set where the source changed since it was last drawn."""
        key = self._key(place)
        if key not in st.session_state or key not in self.seen or not _equal(self.seen[key], current):
            st.session_state[key] = list(current) if isinstance(current, list) else current
        self.seen[key] = current
        return key

    def _as_written(self, entry: Entry, place: Place, written: Any) -> None:
        """What no widget here can hold: shown, and left alone."""
        key = self._key(place, "as written")
        st.session_state[key] = "" if written is None else str(written)[:LONGEST]
        st.text_input(
            entry.label,
            key=key,
            help=f"{entry.help} It is written in a way that a form cannot change: edit it in the source view.",
            placeholder="edit in the source view",
            icon=":material/lock:",
            disabled=True,
        )

    # -- values with fields of their own -------------------------------------------------------------------------------

    def _composed(self, entry: Entry, place: Place) -> None:
        written = toml_edit.value_at(self.plain, place)
        wanted = list if entry.kind == "list of tagged" else dict
        if not (entry.model or entry.tagged) or not (written is None or isinstance(written, wanted)):
            self._in_source(entry, written)
            return
        with st.container(border=written is not None or not entry.optional, key=self._key(place, "box")):
            if entry.model:
                self._table(entry, entry.model, place, there=written is not None)
            elif entry.tagged and entry.kind == "tagged":
                self._tagged(entry, entry.tagged, place, written if isinstance(written, dict) else None)
            elif entry.tagged:
                self._several(entry, entry.tagged, place, written if isinstance(written, list) else [])

    def _in_source(self, entry: Entry, written: Any) -> None:
        there = LEFT_OUT if written is None else f"<code>{html.escape(str(written)[:LONGEST])}</code>"
        st.html(
            f'<p class="rb-field"><b>{html.escape(entry.label)}</b> {there} '
            f"<i>{html.escape(entry.help)} Edit it in the source view.</i></p>"
        )

    def _table(self, entry: Entry, model: type[BaseModel], place: Place, *, there: bool) -> None:
        """Fields of a table; one that may be left out has a switch of its own."""
        wanted = True
        if entry.optional:
            wanted = self._switched(entry, place, there)
            if wanted != there:
                self.changes[place] = {} if wanted else None
        else:
            _heading(entry.label, entry.help)
        if wanted:
            self.fields(model, place)

    def _switched(self, entry: Entry, place: Place, there: bool) -> bool:
        key = self._set((*place, "there"), there)
        return bool(st.checkbox(entry.label, there, key=key, help=entry.help, disabled=self.options.disabled))

    def _tagged(self, entry: Entry, among: Tagged[Any], place: Place, written: dict[str, Any] | None) -> None:
        """A choice among registered classes, and the fields of the chosen one."""
        tag, registry = among.tag, among.registry
        current = entry.default if written is None else written.get(tag)
        chosen = self._chosen(entry, place, current)
        if chosen != current:
            self.changes[place] = None if chosen is None else {tag: chosen}
        elif chosen in registry:
            before = len(self.changes)
            self.fields(registry[chosen], place)
            if written is None and len(self.changes) > before:  # what was meant by leaving it out is said now
                self.changes = {(*place, tag): chosen, **self.changes}

    def _chosen(self, entry: Entry, place: Place, current: Any) -> Any:
        """Which of the registered ones; another one that is written keeps its name, for the reader to complain of."""
        names = form_fields.tagged_names(entry)
        key = self._set((*place, "tag"), current)
        choices = [*names, *([current] if isinstance(current, str) and current not in names else [])]
        widget: Widget = st.selectbox
        what = form_fields.explained(entry, current)
        return widget(
            entry.label,
            choices,
            None if entry.optional else place_of(current, choices),
            key=key,
            help=f"{entry.help} {what}",
            disabled=self.options.disabled,
            placeholder=LEFT_OUT,
        )

    def _several(self, entry: Entry, among: Tagged[Any], place: Place, there: list[Any]) -> None:
        """A row for each, with what all of them have in sight, and their own options a click away."""
        _heading(entry.label, entry.help)
        for at, each in enumerate(there):
            if isinstance(each, dict) and each.get(among.tag) in among.registry:
                self._row(entry, among.registry, each[among.tag], (*place, at), alone=len(there) == 1)
            else:
                self._in_source(Entry(f"{entry.name} {at + 1}", "other"), each)
        key = self._key(place, "add", len(there))  # another one once it was used, so that it is empty again
        chosen = st.selectbox(
            f"Add to {entry.name}",
            form_fields.tagged_names(entry),
            index=None,
            key=key,
            placeholder=f"Add a {among.registry.kind}",
            label_visibility="collapsed",
            disabled=self.options.disabled,
        )
        if chosen is not None:
            self.changes[*place, len(there)] = {among.tag: chosen}

    def _row(self, entry: Entry, registry: Registry[Any], name: str, place: Place, *, alone: bool) -> None:
        model = registry[name]
        common = form_fields.shared_names(model)
        with st.container(horizontal=True, vertical_alignment="center"):
            _heading(name, form_fields.explained(entry, name), f" rb-leg-{html.escape(name)}")
            gone = st.button(
                "Remove",
                key=self._key(place, "remove"),
                icon=":material/close:",
                type="tertiary",
                disabled=alone or self.options.disabled,
                help="The last one cannot be removed." if alone else None,
            )
        self.fields(model, place, common)
        own = [field for field in form_fields.names(model) if field not in common]
        if own:
            with st.expander("Options", key=self._key(place, "options")):
                self.fields(model, place, own)
        if gone:
            self.changes = {place: None}

    def _key(self, place: Place, *more: object) -> str:
        return ".".join(map(str, (self.key, *place, *more)))


def _heading(name: str, says: str, marked: str = "") -> None:
    st.html(f'<p class="rb-field{marked}"><b>{html.escape(name)}</b> <i>{feedback.as_html(says)}</i></p>')


def _equal(one: Any, other: Any) -> bool:
    """Whether two values say the same; nothing and an empty text do, as nobody can type the difference."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return bool(one == other) or (one in (None, "") and other in (None, ""))
