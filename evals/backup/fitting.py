"""What of a backup goes where in this store: decided, and refused where it does not fit, before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from core.errors import StoreError, UnknownName
from core.store import collections, names
from core.store.engine import Store
from core.store.migrations import catalog
from core.store.migrations import collection as collection_chain
from core.store.progress import Listener, nobody
from evals.backup import home_files, reading
from evals.backup.form import Kept, Manifest
from evals.backup.reading import Archive
from evals.store import chain as evals_chain


@dataclass(frozen=True, slots=True)
class Target:
    """A collection of the backup, and the name that it gets here."""

    kept: Kept
    name: str

    @property
    def renamed(self) -> bool:
        return self.name != self.kept.name


@dataclass(frozen=True, slots=True)
class Plan:
    """What will be restored, and which collections stand here already from this very backup."""

    targets: tuple[Target, ...]
    there: tuple[str, ...] = ()


def look(path: Path) -> Manifest:
    """What the file begins with, refused where this Rankbook cannot read it. Its parts are not checked yet."""
    with reading.opened(path) as archive:
        check_readable(archive)
        return archive.manifest


def check(path: Path, listener: Listener = nobody) -> Manifest:
    """Whether the file is a whole backup that this Rankbook can read; what it begins with."""
    with reading.opened(path) as archive:
        check_readable(archive)
        archive.check(listener)
        return archive.manifest


def check_readable(archive: Archive) -> None:
    """Refuse what a newer Rankbook wrote, and files whose names lead out of the home."""
    for chain in (catalog, evals_chain, collection_chain):
        found = archive.manifest.revisions.get(chain.name, "")
        if found > chain.head:
            raise archive.wrong(
                f"It was written by a newer Rankbook ({archive.manifest.rankbook}, revision {found} of "
                f"{chain.name}; this one knows {chain.head}). Upgrade Rankbook, and restore it then."
            )
    home_files.check(archive.manifest.files, archive.path)


def chosen(archive: Archive, collection: str | None, name: str | None) -> list[Target]:
    """The collections that are meant, under the names that they are to get."""
    kept: Sequence[Kept] = archive.manifest.collections
    if collection is not None:
        found = archive.manifest.find(names.composed(collection))
        if found is None:
            raise UnknownName("collection of this backup", collection, [each.name for each in kept])
        kept = (found,)
    if name is None:
        return [Target(each, each.name) for each in kept]
    if len(kept) != 1:
        raise StoreError(
            f"It holds {len(kept)} collections, and one name was given. Say which is meant: --collection NAME."
        )
    return [Target(kept[0], names.checked(name, what="The collection name"))]


async def fitted(store: Store, archive: Archive, collection: str | None, name: str | None) -> Plan:
    """The plan, or a refusal that names every collection in the way."""
    here = {row.name: row.created_at for row in await collections.listed(store)}
    targets, there, taken = [], [], []
    for each in chosen(archive, collection, name):
        if each.kept.kind != "gone":
            names.schema_of(each.name)
        if each.name not in here:
            targets.append(each)
        elif collection is None and name is None and here[each.name] == each.kept.created_at:
            there.append(each.name)
        else:
            taken.append(each.name)
    if taken:
        raise StoreError(
            f"There is a collection {', '.join(map(repr, taken))} here already, and nothing is written over it. "
            f"Restore it beside: --collection {taken[0]!r} --as NAME. Or bring only its labels and judgements into the "
            "one that is here: --labels-only."
        )
    _refuse_without_room(store, archive, targets)
    return Plan(tuple(targets), tuple(there))


def _refuse_without_room(store: Store, archive: Archive, targets: Sequence[Target]) -> None:
    """The embedded server's disk is ours to look at. Rows, with indexes, take about what they take as text."""
    if store.server is None:
        return
    free = shutil.disk_usage(store.server.home).free
    needed = sum(archive.unpacked(each.kept.folder) for each in targets)
    if free < needed:
        raise StoreError(
            f"Restoring takes about {needed / 2**30:.1f} GiB, and {free / 2**30:.1f} GiB are free in "
            f"{store.server.home}. Make room, or set RANKBOOK_HOME to a folder on a larger disk."
        )
