"""The options of a class as a form over TOML: one widget a field; a change is written into the text."""

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
from workbench.services.form_fields import FormField
from workbench.services.toml_edit import Place

LEFT_OUT = "not set"
Widget = Callable[..., Any]


LONGEST = 200  # characters shown of what a form cannot change
_SIMPLE = ("switch", "whole", "number", "text", "choice", "texts")


def value_of(field: FormField, key: str, offered: Sequence[str] | None, *, disabled: bool) -> Any:
    """Draw the widget of a field; gives its value."""
    common: dict[str, Any] = {"key": key, "help": f"{field.help} In TOML: `{field.name}`", "disabled": disabled}
    cleared = field.optional or field.required  # a widget whose value can be removed must have no default
    value = st.session_state[key]
    widget: Widget
    match field.kind:
        case "switch":
            return st.checkbox(field.label, bool(value), **common)
        case "choice":
            widget, at = st.selectbox, None if cleared else place_of(value, field.choices)
            return widget(field.label, field.choices, at, format_func=str, placeholder=LEFT_OUT, **common)
        case "whole" | "number":
            widget, number = st.number_input, int if field.kind == "whole" else float
            step, form = (1, "%d") if field.kind == "whole" else (0.05, "%g")
            st.session_state[key] = value = None if value is None else number(value)  # 1 may stand for 1.0
            bounds = {"min_value": field.least, "max_value": field.most}
            limits: dict[str, Any] = {name: None if each is None else number(each) for name, each in bounds.items()}
            if cleared or value is not None:
                limits["value"] = None if cleared else value
            made = widget(field.label, step=step, format=form, placeholder=LEFT_OUT, **limits, **common)
            return field.default if made is None else made
        case "texts":
            widget, there = st.multiselect, list(dict.fromkeys([*(offered or ()), *value]))
            return widget(field.label, there, value, accept_new_options=True, placeholder="Type or choose", **common)
    long = value is not None and "\n" in value
    if offered is not None and not long:
        there = [each for each in dict.fromkeys([*offered, value]) if each]
        widget, at = st.selectbox, None if cleared else place_of(value, there)
        placeholder = field.default or LEFT_OUT
        return widget(field.label, there, at, accept_new_options=True, placeholder=placeholder, **common)
    widget = st.text_area if long else st.text_input
    made = widget(field.label, value, max_chars=field.longest, placeholder=LEFT_OUT, **common)
    return made if made or not field.optional else None


def place_of(value: Any, choices: Sequence[Any]) -> int | None:
    """The place among the choices; None where it is none of them."""
    return list(choices).index(value) if value in choices else None


@dataclass(frozen=True, slots=True)
class FormOptions:
    """How a form is drawn. Fields are named by their keys in TOML, also those of tables.

    `offered` are known values of a text or a list of texts; others can be typed. `only` draws these fields, in this
    order; `without` leaves some out. `columns` is how many stand side by side.
    """

    offered: Mapping[str, Sequence[str]] = field(default_factory=dict)
    only: Sequence[str] | None = None
    without: Sequence[str] = ()
    columns: int = 3
    disabled: bool = False


def draw(
    model: type[BaseModel], source: str, key: str, options: FormOptions | None = None, *, at: Place = ()
) -> str | None:
    """Draw the model's fields with the values of the TOML `source`; gives the changed TOML, None without a change.

    A widget's key is `{key}.{field}` or `{key}.{table}.{field}`. Call it with the source as it is now: a field that was
    changed elsewhere shows the new value, and what somebody is typing in other fields stays. `at` is a table in the
    source instead of the whole: ("pack",), ("leg", 0). Invalid TOML is an error on the page, and None.

    After a change, keep it and rerun the page if something above the form shows the source too.
    """
    try:
        form = _Form(source, key, options or FormOptions())
        st.html(f"<style>{asset('components/assets/form.css')}</style>")
        form.fields(model, at, form.options.only)
        return toml_edit.put(source, form.changes) if form.changes else None
    except RankbookError as error:
        feedback.draw_error(error)
        return None


class _Form:
    """One run of the form, with the changes found in it."""

    def __init__(self, source: str, key: str, options: FormOptions) -> None:
        self.key, self.options = key, options
        self.changes: dict[Place, Any] = {}
        self.plain = toml_edit.read(source)
        self.seen: dict[str, Any] = st.session_state.setdefault(f"{key}.seen", {})

    def fields(self, model: type[BaseModel], at: Place, only: Sequence[str] | None = None) -> None:
        """Simple fields in a grid, and below them those with fields of their own."""
        known = {each.name: each for each in form_fields.form_fields(model)}
        named = [name for name in (only or known) if name not in self.options.without]
        shown = [known[name] for name in named if name in known]
        simple = [each for each in shown if each.kind in _SIMPLE]
        for start in range(0, len(simple), self.options.columns):
            columns = st.columns(self.options.columns, vertical_alignment="bottom")
            for column, each in zip(columns, simple[start:], strict=False):
                with column:
                    self._simple(each, (*at, each.name))
        for each in shown:
            if each.kind not in _SIMPLE:
                self._composed(each, (*at, each.name))

    # -- one value -----------------------------------------------------------------------------------------------------

    def _simple(self, field: FormField, place: Place) -> None:
        written = toml_edit.value_at(self.plain, place)
        if not field.fits(written):  # a value that no widget can hold is shown, and not changed
            key = self._key(place, "as written")
            st.session_state[key] = "" if written is None else str(written)[:LONGEST]
            st.text_input(
                field.label,
                key=key,
                help=f"{field.help} It is written in a way that a form cannot change: edit it in the source view.",
                placeholder="edit in the source view",
                icon=":material/lock:",
                disabled=True,
            )
            return
        current = field.default if written is None else written
        key = self._set(place, current)
        value = value_of(field, key, self.options.offered.get(field.name), disabled=self.options.disabled)
        if not _equal(value, current):
            self.changes[place] = value

    def _set(self, place: Place, current: Any) -> str:
        """The widget's key; the widget is set where the source has changed since it was last drawn."""
        key = self._key(place)
        if key not in st.session_state or key not in self.seen or not _equal(self.seen[key], current):
            st.session_state[key] = list(current) if isinstance(current, list) else current
        self.seen[key] = current
        return key

    # -- values with fields of their own -------------------------------------------------------------------------------

    def _composed(self, field: FormField, place: Place) -> None:
        written = toml_edit.value_at(self.plain, place)
        wanted = list if field.kind == "list of tagged" else dict
        if not (field.model or field.tagged) or not (written is None or isinstance(written, wanted)):
            self._in_source(field, written)
            return
        with st.container(border=written is not None or not field.optional, key=self._key(place, "box")):
            if field.model:
                self._table(field, field.model, place, there=written is not None)
            elif field.tagged and field.kind == "tagged":
                self._tagged(field, field.tagged, place, written if isinstance(written, dict) else None)
            elif field.tagged:
                self._several(field, field.tagged, place, written if isinstance(written, list) else [])

    def _several(self, field: FormField, among: Tagged[Any], place: Place, there: list[Any]) -> None:
        """A row for each, with the options that all have, and their own in an expander."""
        _heading(field.label, field.help)
        for at, each in enumerate(there):
            if isinstance(each, dict) and each.get(among.tag) in among.registry:
                self._row(field, among.registry, each[among.tag], (*place, at), alone=len(there) == 1)
            else:
                self._in_source(FormField(f"{field.name} {at + 1}", "other"), each)
        chosen = st.selectbox(
            f"Add to {field.name}",
            form_fields.tagged_names(field),
            index=None,
            key=self._key(place, "add", len(there)),  # another one once it was used, so that it is empty again
            placeholder=f"Add a {among.registry.kind}",
            label_visibility="collapsed",
            disabled=self.options.disabled,
        )
        if chosen is not None:
            self.changes[*place, len(there)] = {among.tag: chosen}

    def _in_source(self, field: FormField, written: Any) -> None:
        there = LEFT_OUT if written is None else f"<code>{html.escape(str(written)[:LONGEST])}</code>"
        st.html(
            f'<p class="rb-field"><b>{html.escape(field.label)}</b> {there} '
            f"<i>{html.escape(field.help)} Edit it in the source view.</i></p>"
        )

    def _table(self, field: FormField, model: type[BaseModel], place: Place, *, there: bool) -> None:
        """The fields of a table; an optional table has a switch."""
        wanted = True
        if field.optional:
            key = self._set((*place, "there"), there)
            wanted = bool(st.checkbox(field.label, there, key=key, help=field.help, disabled=self.options.disabled))
            if wanted != there:
                self.changes[place] = {} if wanted else None
        else:
            _heading(field.label, field.help)
        if wanted:
            self.fields(model, place)

    def _tagged(self, field: FormField, among: Tagged[Any], place: Place, written: dict[str, Any] | None) -> None:
        """A choice among registered classes, and the fields of the chosen one."""
        tag, registry = among.tag, among.registry
        current = field.default if written is None else written.get(tag)
        # An unknown name stays a choice: reading the text says what is wrong with it.
        names = form_fields.tagged_names(field)
        key = self._set((*place, "tag"), current)
        choices = [*names, *([current] if isinstance(current, str) and current not in names else [])]
        widget: Widget = st.selectbox
        what = form_fields.explained(field, current)
        chosen = widget(
            field.label,
            choices,
            None if field.optional else place_of(current, choices),
            key=key,
            help=f"{field.help} {what}",
            disabled=self.options.disabled,
            placeholder=LEFT_OUT,
        )
        if chosen != current:
            self.changes[place] = None if chosen is None else {tag: chosen}
        elif chosen in registry:
            before = len(self.changes)
            self.fields(registry[chosen], place)
            if written is None and len(self.changes) > before:  # the default that it stands for is written too
                self.changes = {(*place, tag): chosen, **self.changes}

    def _row(self, field: FormField, registry: Registry[Any], name: str, place: Place, *, alone: bool) -> None:
        model = registry[name]
        common = form_fields.shared_names(model)
        with st.container(horizontal=True, vertical_alignment="center"):
            _heading(name, form_fields.explained(field, name), f" rb-leg-{html.escape(name)}")
            gone = st.button(
                "Remove",
                key=self._key(place, "remove"),
                icon=":material/close:",
                type="tertiary",
                disabled=alone or self.options.disabled,
                help="The last one cannot be removed." if alone else None,
            )
        self.fields(model, place, common)
        own = [each for each in form_fields.names(model) if each not in common]
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
    """Whether two values mean the same; None and an empty text do, as nobody can type the difference."""
    if isinstance(one, bool) != isinstance(other, bool):
        return False
    return bool(one == other) or (one in (None, "") and other in (None, ""))
