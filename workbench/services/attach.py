"""Somebody's table as a collection: a filled form becomes a mapping, and the mapping a collection.

`rankbook data attach` and the form on the Collections page call these functions. The table is never written to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.errors import InputError, SpecError
from core.progress import Listener, nobody
from core.store import attached, collections, names
from core.store.attached import Advice, AttachedTable, TableDifference
from core.store.attached import attach as attached_attach
from core.store.collections import CollectionView
from core.store.engine import Store
from evals.collections import load_labels
from evals.collections.load_labels import LoadReport
from evals.labels import label_files
from evals.sources import BeirSource
from workbench.services import uploads


@dataclass(frozen=True, slots=True)
class AttachRequest:
    """A table to attach. `given` are fields of `AttachedTable`; with `like`, they override what that library's
    mapping says.
    """

    name: str
    table: str  # as SQL writes it, or what the library in `like` calls it
    like: str = ""
    given: Mapping[str, Any] | None = None
    aside: bool = False
    labels: str = ""


@dataclass(frozen=True, slots=True)
class AttachResult:
    """The attached table, the indexes that would help, and the labels that were imported with it."""

    name: str
    table: str
    advice: tuple[Advice, ...]
    labels: LoadReport | None = None


async def attach(store: Store, request: AttachRequest, listener: Listener = nobody) -> AttachResult:
    """Attach the table, build what stands aside, and import labels. Labels that cannot be read are refused first."""
    source = await asyncio.to_thread(label_files.labels_at, request.labels) if request.labels else None
    if isinstance(source, label_files.LabelFiles) and source.queries_path is None:
        raise InputError("Labels of a new collection need a file of queries beside them.")
    made = await mapping(store, request)
    view = await attached.attach_table(store, request.name, made)
    if request.aside:
        view = await attached.build_side_tables(store, view, listener)
    # There are no labels yet that could be lost, and odd grades are among the remarks.
    added = await load_labels.load_labels(store, view, source, even_so=True, all_grades=True) if source else None
    return AttachResult(view.name, made.full_name, tuple(await attached.advice(store, view)), added)


async def mapping(store: Store, request: AttachRequest) -> AttachedTable:
    """The request as a mapping. Whether the table fits it is not checked yet."""
    given = {field: value for field, value in (request.given or {}).items() if value not in (None, "", {}, (), [])}
    if request.like:
        return await _like(store, request.like, request.table, given)
    namespace, relation = attached.relation_name(request.table)
    made = attached.mapped(table=relation, namespace=namespace, **await _with_path(store, namespace, relation, given))
    return await _with_plain_metadata(store, made) if isinstance(made.metadata, str) else made


async def _with_plain_metadata(store: Store, made: AttachedTable) -> AttachedTable:
    """A single metadata column may be JSON or plain: the table decides."""
    try:
        await attached.inspect_table(store, made)
    except SpecError:
        return made.model_copy(update={"metadata": (made.metadata,)})
    return made


async def _with_path(store: Store, namespace: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """A typed parent is a column's name or a path into JSON: the table's columns decide."""
    if not isinstance(given.get("parent"), str):
        return given
    async with store.begin(read_only=True) as connection:
        found = await attached_attach.relation(connection, namespace, name)
    return {**given, "parent": attached.parent_of(given["parent"], found.columns if found else ())}


async def _like(store: Store, like: str, which: str, given: dict[str, Any]) -> AttachedTable:
    """The mapping of that library's tables, overridden by the given fields."""
    model, language = given.pop("model", None), given.pop("language", "english")
    if model is None:
        raise SpecError("Queries are embedded with the model that made the vectors. Name it (`--model` in a command).")
    found = await attached.template_mapping(like, store, which, model, language=language)
    given = await _with_path(store, found.namespace, found.table, given)
    return attached.mapped(**{**found.model_dump(), **given})


def metadata(columns: Sequence[str]) -> str | tuple[str, ...] | None:
    """One column, or several, as the mapping takes them."""
    return None if not columns else columns[0] if len(columns) == 1 else tuple(columns)


def conditions(written: Sequence[str]) -> dict[str, str]:
    """Conditions written as `COLUMN=VALUE`, by column."""
    made = {}
    for condition in written:
        column, equals, value = condition.partition("=")
        if not equals:
            raise SpecError(f"The condition {condition!r} is not of the form COLUMN=VALUE.")
        made[column.strip()] = value
    return made


async def build_aside(store: Store, name: str, listener: Listener = nobody) -> CollectionView:
    """Lexemes, postings and vocabulary of an attached table in our own schema, as its rows are now."""
    return await attached.build_side_tables(store, await collections.get(store, name), listener)


async def refresh_aside(store: Store, name: str, listener: Listener = nobody) -> tuple[CollectionView, TableDifference]:
    """Bring what was built aside up to date; only what differs is done."""
    return await attached.refresh_side_tables(store, await collections.get(store, name), listener)


def difference_sentence(view: CollectionView, found: TableDifference) -> str:
    """What a refresh did."""
    aside = attached.Attachment.of(view).aside
    rows = aside.rows if aside else 0
    if found.unknown:
        return f"Built anew of {rows:,} rows: an earlier version had kept nothing to compare them by."
    if not found:
        return f"Nothing to do: all {rows:,} rows stand aside as they are."
    return f"{found.new:,} new, {found.changed:,} changed, {found.gone:,} gone; {rows:,} rows stand aside now."


async def label(
    store: Store, name: str, origin: str, *, queries: Path | None = None, query_set: str = "default", **how: Any
) -> LoadReport:
    """Import labels from files in place of those of a query set; `how` are options of `load.label`."""
    names.checked(query_set, what="The query set's name")
    view = await collections.get(store, name)
    source = await asyncio.to_thread(label_files.labels_at, origin, queries=queries)
    if isinstance(source, BeirSource) and uploads.is_staged(origin):
        source = source.model_copy(update={"limits": uploads.UNPACKED})
    return await load_labels.load_labels(store, view, source, query_set=query_set, **how)
