"""Somebody's table as a collection: what was filled in becomes a mapping, and the mapping a collection.

`rankbook data attach` and the form on the Collections page do it by these functions. Nothing of theirs is written.
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
    """A table to attach. `given` are fields of `AttachedTable`; with `like`, what stands over what that finds."""

    name: str
    table: str  # as SQL writes it, or what the library in `like` calls it
    like: str = ""
    given: Mapping[str, Any] | None = None
    aside: bool = False
    labels: str = ""


@dataclass(frozen=True, slots=True)
class Attached:
    """What came of it: the table's name, which indexes would help, and the labels that were brought along."""

    name: str
    table: str
    advice: tuple[Advice, ...]
    labels: LoadReport | None = None


async def attach(store: Store, wanted: AttachRequest, listener: Listener = nobody) -> Attached:
    """The collection, what is to stand aside, and its labels. Labels that cannot be read are told before all else."""
    source = await asyncio.to_thread(label_files.labels_at, wanted.labels) if wanted.labels else None
    if isinstance(source, label_files.LabelFiles) and source.queries_path is None:
        raise InputError("Labels of a new collection need a file of queries beside them.")
    made = await mapping(store, wanted)
    view = await attached.attach_table(store, wanted.name, made)
    if wanted.aside:
        view = await attached.build_side_tables(store, view, listener)
    # There are no labels yet that could be lost, and odd grades are among the remarks.
    added = await load_labels.load_labels(store, view, source, even_so=True, all_grades=True) if source else None
    return Attached(view.name, made.full_name, tuple(await attached.advice(store, view)), added)


async def mapping(store: Store, wanted: AttachRequest) -> AttachedTable:
    """What was filled in, as a mapping; whether the table is as it says is not looked at yet."""
    given = {field: value for field, value in (wanted.given or {}).items() if value not in (None, "", {}, (), [])}
    if wanted.like:
        return await _like(store, wanted.like, wanted.table, given)
    namespace, relation = attached.relation_name(wanted.table)
    made = attached.mapped(table=relation, namespace=namespace, **await _with_path(store, namespace, relation, given))
    return await _with_plain_metadata(store, made) if isinstance(made.metadata, str) else made


async def _with_plain_metadata(store: Store, made: AttachedTable) -> AttachedTable:
    """A single column of metadata may be JSON, or a plain one like those of a longer list: the table decides."""
    try:
        await attached.inspect_table(store, made)
    except SpecError:
        return made.model_copy(update={"metadata": (made.metadata,)})
    return made


async def _with_path(store: Store, namespace: str, name: str, given: dict[str, Any]) -> dict[str, Any]:
    """A parent that was typed is a column's name or a path into JSON: the table's columns decide."""
    if not isinstance(given.get("parent"), str):
        return given
    async with store.begin(read_only=True) as connection:
        found = await attached_attach.relation(connection, namespace, name)
    return {**given, "parent": attached.parent_of(given["parent"], found.columns if found else ())}


async def _like(store: Store, like: str, which: str, given: dict[str, Any]) -> AttachedTable:
    """What that library's tables look like; what was given besides stands over it."""
    model, language = given.pop("model", None), given.pop("language", "english")
    if model is None:
        raise SpecError("Queries are embedded with the model that made the vectors. Name it (`--model` in a command).")
    found = await attached.like(like, store, which, model, language=language)
    given = await _with_path(store, found.namespace, found.table, given)
    return attached.mapped(**{**found.model_dump(), **given})


def metadata(columns: Sequence[str]) -> str | tuple[str, ...] | None:
    """One column, or several; as the mapping wants them."""
    return None if not columns else columns[0] if len(columns) == 1 else tuple(columns)


def conditions(written: Sequence[str]) -> dict[str, str]:
    """`COLUMN=VALUE`, each."""
    made = {}
    for condition in written:
        column, equals, value = condition.partition("=")
        if not equals:
            raise SpecError(f"The condition {condition!r} is not of the form COLUMN=VALUE.")
        made[column.strip()] = value
    return made


async def aside(store: Store, name: str, listener: Listener = nobody) -> CollectionView:
    """Lexemes, postings and vocabulary of an attached table in our own schema, as its rows are now."""
    return await attached.build_side_tables(store, await collections.get(store, name), listener)


async def refreshed(store: Store, name: str, listener: Listener = nobody) -> tuple[CollectionView, TableDifference]:
    """The same, where they stand: only what differs is done."""
    return await attached.refresh_aside(store, await collections.get(store, name), listener)


def told_difference(view: CollectionView, found: TableDifference) -> str:
    """What a refresh did, in a sentence."""
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
    """Labels from files in the place of those that a query set has; `how` are options of `library.label`."""
    names.checked(query_set, what="The query set's name")
    view = await collections.get(store, name)
    source = await asyncio.to_thread(label_files.labels_at, origin, queries=queries)
    if isinstance(source, BeirSource) and uploads.holds(origin):
        source = source.model_copy(update={"limits": uploads.UNPACKED})
    return await load_labels.load_labels(store, view, source, query_set=query_set, **how)
