"""What of a backup goes where in this store: decided, and refused where it does not fit, before anything is written."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from core.errors import SpecError, StoreError, UnknownName
from core.store import collections, names, readable_tables
from core.store.attached import relation_name
from core.store.engine import Store
from core.store.migrations import catalog
from core.store.migrations import collection as collection_chain
from core.store.progress import Listener, nobody
from core.store.schema import ChunkSet, EmbeddingSet, Item
from evals.backup import home_files, reading
from evals.backup.form import CONTENTS, MANIFEST, STORE, Kept, Kind, Manifest, table_of
from evals.backup.parts import OF_COLLECTIONS, OUTPUTS, REGISTER, table
from evals.backup.reading import Archive
from evals.store import chain as evals_chain

LISTS: Final = (MANIFEST, CONTENTS)
NEEDED: Final[Mapping[Kind, set[str]]] = {  # beside labels and results
    "own": {REGISTER.name, *(table(each).name for each in (Item, ChunkSet, EmbeddingSet))},
    "attached": {REGISTER.name},
    "gone": set(),
}


@dataclass(frozen=True, slots=True)
class Target:
    """A collection of the backup, the name that it gets here, and the table that it is to be attached to, if any."""

    kept: Kept
    name: str
    table: str = ""

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
        check_fits_its_list(archive)
        return archive.manifest


def check_readable(archive: Archive) -> None:
    """Refuse what a newer Rankbook wrote, names that no collection has, and files whose names lead out of the home."""
    for chain in (catalog, evals_chain, collection_chain):
        found = archive.manifest.revisions.get(chain.name, "")
        if found > chain.head:
            raise archive.wrong(
                f"It was written by a newer Rankbook ({archive.manifest.rankbook}, revision {found} of "
                f"{chain.name}; this one knows {chain.head}). Upgrade Rankbook, and restore it then."
            )
    for each in archive.manifest.collections:
        _check_name(archive, each)
    home_files.check(archive.manifest.files, archive.path)


def _check_name(archive: Archive, kept: Kept) -> None:
    """Rows under a name that nobody can have given would be found by nobody, or be taken for what lies in the trash."""
    if kept.name.startswith(names.TRASH_MARK):
        raise archive.wrong(f"Its list calls a collection {kept.name!r:.80}, as what lies in the trash is called here.")
    if kept.kind == "gone":  # labels may have been given under any name
        return
    try:
        names.schema_of(kept.name)
    except SpecError as error:
        raise archive.wrong(f"Its list calls a collection as none can be called. {error}") from error
    if kept.name != names.composed(kept.name):
        raise archive.wrong(f"Its list calls a collection {kept.name!a:.80}, which is no form of a name here.")


def check_fits_its_list(archive: Archive) -> None:
    """Refuse a file that holds anything but what its own list of collections and files says, or lacks some of it."""
    listed, files = archive.manifest.collections, {each.member for each in archive.manifest.files}
    places = {each.folder for each in listed}
    for member in archive.infos:
        place = table_of(member)
        known = place[0] in places or place == (STORE, OUTPUTS.name) if place else member in {*LISTS, *files}
        if not known:
            raise archive.wrong(f"It holds {member}, which its own list does not know. Nothing was restored.")
    revision = archive.manifest.revisions.get(evals_chain.name, "")
    lacking = [member for member in sorted(files) if member not in archive.infos]
    for each in listed:
        there = set(archive.tables(each.folder))
        wanted = {part.name for part in OF_COLLECTIONS if part.since <= revision} | NEEDED[each.kind]
        lacking += [f"{table} of {each.name!r:.80}" for table in sorted(wanted - there)]
        if strange := there - wanted if each.kind != "own" else {}:
            raise archive.wrong(
                f"It holds {min(strange)} of {each.name!r:.80}, which by its own list has no documents here. Nothing "
                "was restored."
            )
    if lacking:
        raise archive.wrong(f"By its own list it should hold {lacking[0]}, and does not. Nothing was restored.")


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


async def fitted(
    store: Store, archive: Archive, collection: str | None, name: str | None, tables: Mapping[str, str]
) -> Plan:
    """The plan, or a refusal that names every collection in the way. `tables` are to be attached, by collection."""
    attached = [each.name for each in archive.manifest.collections if each.kind == "attached"]
    for of, table_name in tables.items():
        if of not in attached:
            raise UnknownName("attached collection of this backup", of, attached)
        readable_tables.refuse_system_schema(relation_name(table_name)[0])
    here = {row.name: row.created_at for row in await collections.listed(store)}
    targets, there, taken = [], [], []
    for found in chosen(archive, collection, name):
        each = replace(found, table=tables.get(found.kept.name, ""))
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
