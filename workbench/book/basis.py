"""What an output of a cell comes of, as digests: where one of them is another, the output is stale, and says why.

Owns what is counted: the cell, what it names, the collection, the labels, the server and models where they decide, and
the version of the code, which is declared: Rankbook's own and the kind of cell's. A digest of the source would make all
outputs stale by a comment. Runs, which are what figures are made of, are kept apart and tell code more closely.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from core.errors import RankbookError
from core.store.levels import level
from core.variant import Variant
from evals.evaluation import Opened
from evals.running.contents import content_of
from evals.running.environment import package_version, server_mark, variant_mark
from workbench.book.cells import CellSpec
from workbench.book.context import CellContext

CELL: Final = "the cell was changed"
CODE: Final = "another version of Rankbook made it"
MOVED: Final = {
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
class Basis:
    """What an output comes of. `queries` is empty where labels play no part; `meant` is what names stand for."""

    cell: str
    collection: str
    queries: str
    code: str
    server: str = ""
    meant: Mapping[str, str] = field(default_factory=dict)

    def moved(self, since: Basis) -> tuple[str, ...]:
        """What is otherwise than it was. Of what other code wrote down the rest cannot be told."""
        if self.code != since.code:
            return (CODE,)
        named = (CELL,) if self.cell != since.cell else tuple(_meant(self.meant, since.meant))
        beside = (said for name, said in MOVED.items() if getattr(self, name) != getattr(since, name))
        return (*named, *beside)


def _meant(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """What other than before is meant by an unchanged cell, each said once."""
    other = [name for name in {**now, **before} if now.get(name) != before.get(name)]
    return list(dict.fromkeys(map(_said, other)))


def _said(name: str) -> str:
    kind, _, rest = name.partition(" ")
    if kind in ("run", "file"):
        return f"the {kind} {rest} is another"
    return MEANT.get(name, "a variant that it names was changed")


async def basis_of(context: CellContext, spec: CellSpec, contents: Contents | None = None) -> Basis:
    """As it stands now. `contents` remembers what collections hold, for the cells that are looked at in one go."""
    ground = await context.ground(spec)
    row = ground.view.row
    held = {} if contents is None else contents
    if row.name not in held:
        held[row.name] = await content_of(context.store, ground.view)
    options = spec.model_dump(mode="json", by_alias=True, exclude={"title"})
    resolved = await spec.resolved(context)
    meant = {name: digest(value) for name, value in resolved.items() if name not in options or value != options[name]}
    return Basis(
        digest([type(spec).__name__, options]),
        digest([row.name, row.created_at.timestamp(), row.version, held[row.name]]),
        digest([ground.query_set, ground.labelled.digest().hex()]) if spec.asks_labels else "",
        f"{package_version()}, {spec.version}",
        digest(sorted({server_mark(context.store.capabilities), *_marks(ground, await spec.searches(context))})),
        meant,
    )


def _marks(ground: Opened, variants: list[Variant]) -> list[str]:
    """What decides beside the server, of each variant that is searched with."""
    found = []
    for each in variants:
        with suppress(RankbookError):  # a chunk set that is not there: running it says so
            model = each.model or level(ground.store, ground.view, each.chunks).model
            found.append(variant_mark(ground.store.capabilities, each, model))
    return [mark for mark in found if mark]  # words alone have none


def digest(content: object) -> str:
    """Of anything that JSON can say."""
    written = json.dumps(content, sort_keys=True, default=str)
    return hashlib.blake2b(written.encode(), digest_size=16).hexdigest()
