"""Kept outputs of cells, and the key that says whether one still holds."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Final

import pydantic

from core.errors import RankbookError
from core.store.engine import Store
from core.store.resolve_target import search_target
from evals.presentation.types import Output
from evals.runs import cell_outputs
from evals.runs.provenance import content_of, package_version, server_mark, variant_mark
from workbench.notebooks.cells import CellSpec
from workbench.notebooks.cells.base import CellContext

CELL: Final = "the cell was changed"
CODE: Final = "another version of Rankbook made it"
CHANGED: Final = {
    "collection": "the collection was changed",
    "queries": "queries or labels were changed",
    "server": "another server, or other models' packages, would make it now",
}
MEANT: Final = {
    "split": "other labelled queries are meant",
    "seed": "the seed is another",
    "judgements": "documents were judged",
}
Contents = dict[str, str]  # of collections, by name


@dataclass(frozen=True, slots=True)
class CacheKey:
    """What an output depends on. `queries` is empty where labels play no part; `meant` is what names stand for."""

    cell: str
    collection: str
    queries: str
    code: str
    server: str = ""
    meant: Mapping[str, str] = field(default_factory=dict)

    def stale_reasons(self, before: CacheKey) -> tuple[str, ...]:
        """What has changed since an output was made. If other code made it, nothing else can be told."""
        if self.code != before.code:
            return (CODE,)
        reasons = []
        if self.cell != before.cell:
            reasons.append(CELL)
        else:
            for name in {**self.meant, **before.meant}:
                if self.meant.get(name) != before.meant.get(name):
                    kind, _, rest = name.partition(" ")
                    named = f"the {kind} {rest} is another" if kind in ("run", "file") else None
                    reasons.append(named or MEANT.get(name, "a variant that it names was changed"))
        reasons += [reason for name, reason in CHANGED.items() if getattr(self, name) != getattr(before, name)]
        return tuple(dict.fromkeys(reasons))


async def cache_key(context: CellContext, spec: CellSpec, contents: Contents | None = None) -> CacheKey:
    """What the cell's output would depend on now. `contents` saves asking twice for what a collection holds."""
    opened, store = await context.open(spec), context.store
    row = opened.view.row
    known = {} if contents is None else contents
    if row.name not in known:
        known[row.name] = await content_of(store, opened.view)
    options = spec.model_dump(mode="json", by_alias=True, exclude={"title"})
    resolved = await spec.resolved(context)
    marks = {server_mark(store.capabilities)}
    for each in await spec.searches(context):
        with suppress(RankbookError):  # a chunk set that is not there: running the cell says so
            model = each.model or search_target(store, opened.view, each.chunks).model
            marks.add(variant_mark(store.capabilities, each, model))
    return CacheKey(
        digest([type(spec).__name__, options]),
        digest([row.name, row.created_at.timestamp(), row.version, known[row.name]]),
        digest([opened.query_set, opened.labelled.digest().hex()]) if spec.asks_labels else "",
        f"{package_version()}, {spec.version}",
        digest(sorted(filter(None, marks))),
        {name: digest(value) for name, value in resolved.items() if name not in options or value != options[name]},
    )


def digest(content: object) -> str:
    """Of anything that JSON can hold."""
    written = json.dumps(content, sort_keys=True, default=str)
    return hashlib.blake2b(written.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Kept:
    """An output from before. `stale` says what moved on since; empty where nothing did."""

    output: Output
    made_at: datetime
    milliseconds: float
    stale: tuple[str, ...] = ()


def _key(notebook: str, basis: CacheKey) -> bytes:
    return bytes.fromhex(digest([notebook, asdict(basis)]))


async def keep(store: Store, notebook: str, cell: str, basis: CacheKey, output: Output, milliseconds: float) -> None:
    """In the place of an equal one; the oldest of the cell's go."""
    if not store.keeps:
        return
    content = {"cell": cell, "basis": asdict(basis), "output": output.plain(), "milliseconds": milliseconds}
    await cell_outputs.keep_output(store, notebook, _key(notebook, basis), content)


async def find(store: Store, notebook: str, cell: str, basis: CacheKey) -> Kept | None:
    """What the cell shows now, or showed last: the first that can be read, as other versions may write other forms."""
    for row in await cell_outputs.find_outputs(store, notebook, _key(notebook, basis), cell, basis.cell):
        try:
            output = Output.model_validate(row.content["output"])
            stale = basis.stale_reasons(CacheKey(**row.content["basis"]))
            return Kept(output, row.made_at, float(row.content["milliseconds"]), stale)
        except (KeyError, TypeError, ValueError, pydantic.ValidationError):
            continue
    return None
