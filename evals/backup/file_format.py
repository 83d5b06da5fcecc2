"""The format of a backup's file: its lists, its tables and their pieces, and the files of the home folder."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, cast

from psycopg import sql
from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import Table

from core import atomic_files
from core.errors import InputError
from core.store.collections import CollectionView
from core.store.schema import (
    CachedChunks,
    CachedEmbedding,
    ChunkSet,
    Collection,
    EmbeddingSet,
    ItemRow,
    TableGrant,
    TrashRow,
    chunk_table,
    vector_table,
)
from evals.schema import (
    ContestRow,
    JudgementRow,
    LabelRevision,
    OutputRow,
    Pin,
    QuerySet,
    RankingBatch,
    RunRow,
    SetUp,
    StoredExclusion,
    StoredLabel,
    StoredQuery,
    StoredSpan,
    VoteRow,
    WithdrawnJudgement,
)


class _FrozenRecord(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class BackedUpCollection(_FrozenRecord):
    """A collection in a backup. One of kind "gone" was dropped, and only has labels, judgements or runs."""

    number: int = Field(ge=1, le=999_999, description="The number of its folder in the backup.")
    name: str
    kind: Kind
    created_at: datetime | None = Field(None, description="Distinguishes it from another collection of its name.")

    @property
    def folder(self) -> str:
        return f"collections/{self.number:04d}"


@dataclass(frozen=True, slots=True)
class RestoreTarget:
    """A collection of the backup, the name to restore it under, and the table to attach it to, if any."""

    kept: BackedUpCollection
    name: str
    table: str = ""

    @property
    def renamed(self) -> bool:
        return self.name != self.kept.name


FORMAT: Final = 1
MANIFEST, CONTENTS = "manifest.json", "contents.json"  # the first member and the last
STORE: Final = "store"  # the folder of tables that belong to no collection
LARGEST_LIST: Final = 256 * 2**20  # bytes of either list
LARGEST_PIECE: Final = 2**31  # bytes of a piece unpacked: PostgreSQL's longest row and room
LARGEST_FILE: Final = 64 * 2**20  # bytes of a notebook or a variant
MOST_MEMBERS: Final = 500_000
NAME: Final = re.compile(
    rf"{MANIFEST}|{CONTENTS}|files/\d{{4,6}}|(?:{STORE}|collections/\d{{4,6}})/[a-z_]{{1,40}}(?:_\d{{1,9}})?\.\d{{5}}\.tsv\.gz"
)

Kind = Literal["own", "attached", "gone"]


class HomeFile(_FrozenRecord):
    """A notebook or a kept variant."""

    number: int = Field(ge=1, le=999_999)
    folder: Literal["notebooks", "variants"]
    name: str = Field(min_length=1, max_length=255)

    @property
    def member(self) -> str:
        return f"files/{self.number:04d}"


class Manifest(_FrozenRecord):
    """The first member of a backup."""

    format: Literal[1] = FORMAT
    rankbook: str = Field(description="The version of Rankbook that wrote it.")
    postgres: int = Field(description="The server's version number.")
    pgvector: str | None = None
    made_at: datetime
    whole: bool = Field(description="Whether it is of the whole store.")
    revisions: dict[str, str] = Field(description="The revision of each chain of migrations.")
    collections: tuple[BackedUpCollection, ...] = Field(max_length=MOST_MEMBERS)
    files: tuple[HomeFile, ...] = Field((), max_length=MOST_MEMBERS)

    def find(self, name: str) -> BackedUpCollection | None:
        return next((each for each in self.collections if each.name == name), None)


class Member(_FrozenRecord):
    """A member as it was written: unpacked size and digest, and the number of rows without the header."""

    name: str
    size: int = Field(ge=0, le=LARGEST_PIECE)
    rows: int = Field(0, ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Contents(_FrozenRecord):
    """The last member of a backup. A file without it was cut off."""

    members: tuple[Member, ...] = Field(max_length=MOST_MEMBERS)


def piece(folder: str, table: str, number: int) -> str:
    return f"{folder}/{table}.{number:05d}.tsv.gz"


def table_of(member: str) -> tuple[str, str] | None:
    """The folder and the table of a member that is a piece of a table; else None."""
    folder, _, name = member.rpartition("/")
    return (folder, name.split(".")[0]) if name.endswith(".tsv.gz") else None


def mapped_table(mapped: Any) -> Table:
    return cast("Table", mapped.__table__)


@dataclass(frozen=True, slots=True)
class BackupPart:
    """A table of the catalogue, and the column that relates its rows to a collection, directly or by another table."""

    table: Table
    column: str
    through: BackupPart | None = None
    key: str = ""  # the column of the other table that `column` refers to
    since: str = ""  # the revision that created the table, if older backups lack it

    @property
    def name(self) -> str:
        return str(self.table.name)

    def rows_of(self, collection: str) -> sql.Composed:
        """A condition on the table's rows."""
        if self.through is None:
            return sql.SQL("{} = {}").format(sql.Identifier(self.column), sql.Literal(collection))
        return sql.SQL("{} IN (SELECT {} FROM {} WHERE {})").format(
            sql.Identifier(self.column),
            sql.Identifier(self.key),
            identifier(self.through.table),
            self.through.rows_of(collection),
        )


def identifier(of: Table, namespace: str | None = None) -> sql.Identifier:
    """The table's full name. `namespace` stands for the schema of a collection's own tables."""
    return sql.Identifier(namespace or str(of.schema), of.name)


def columns(of: Table) -> list[str]:
    return [column.name for column in of.columns]


_SETS = BackupPart(mapped_table(QuerySet), "collection")
_RUNS = BackupPart(mapped_table(RunRow), "collection")
_CONTESTS = BackupPart(mapped_table(ContestRow), "collection")
LABELS: Final = (
    _SETS,
    *(
        BackupPart(mapped_table(each), "set_key", _SETS, "key")
        for each in (StoredQuery, StoredLabel, StoredSpan, StoredExclusion)
    ),
    BackupPart(mapped_table(JudgementRow), "collection"),
)
RESULTS: Final = (
    _RUNS,
    BackupPart(mapped_table(Pin), "run", _RUNS, "id"),
    BackupPart(mapped_table(SetUp), "collection", since="e0011"),
    _CONTESTS,
    BackupPart(mapped_table(VoteRow), "contest", _CONTESTS, "key"),
)
OF_COLLECTIONS: Final = (*LABELS, *RESULTS)
REGISTER: Final = BackupPart(mapped_table(Collection), "name")
OUTPUTS: Final = mapped_table(OutputRow)  # belongs to notebooks, not to collections; only where it is asked for
# Not for another store: the trash, rights on this server, and earlier labels.
NOT_SAVED: Final = tuple(mapped_table(row) for row in (TrashRow, WithdrawnJudgement, TableGrant, LabelRevision))
# Caches, which are filled again when they are needed.
DERIVED: Final = (mapped_table(CachedEmbedding), mapped_table(RankingBatch), mapped_table(CachedChunks))


def own_tables(view: CollectionView) -> Iterator[Table]:
    """The tables of a collection's schema that cannot be rebuilt without its source and its models."""
    yield from (mapped_table(ItemRow), mapped_table(ChunkSet), mapped_table(EmbeddingSet))
    yield from (chunk_table(each.key) for each in view.chunk_sets if each.key)
    yield from (vector_table(each.key, each.dimension) for each in view.embedding_sets)


def table_of_sets() -> Table:
    return _SETS.table


Folder = Literal["notebooks", "variants"]
Folders = Mapping[Folder, Path]
ENDINGS: Final[dict[Folder, str]] = {"notebooks": ".md", "variants": ".toml"}
LONGEST_NAME: Final = 200  # bytes; file systems allow 255, and a mark may be appended
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/\\:*?\"<>|.\s][^\x00-\x1f\x7f/\\:*?\"<>|]*")


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file of the home folder with its content."""

    folder: Folder
    name: str
    content: bytes


def home_files(folders: Folders) -> list[SavedFile]:
    """The files directly in the folders, links excluded."""
    files = []
    for folder, path in folders.items():
        for each in sorted(path.glob(f"*{ENDINGS[folder]}")) if path.is_dir() else ():
            if each.is_symlink() or not each.is_file() or not is_file_name(folder, each.name):
                continue
            if each.stat().st_size > LARGEST_FILE:
                raise InputError(f"It is larger than the {LARGEST_FILE:,} bytes that a backup takes.", path=each)
            files.append(SavedFile(folder, each.name, each.read_bytes()))
    return files


def is_file_name(folder: Folder, name: str) -> bool:
    """Whether a text is the name of a plain file with the folder's ending."""
    try:
        short = len(name.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False
    return short and name.endswith(ENDINGS[folder]) and _NAME.fullmatch(name) is not None


def check_files(files: Sequence[HomeFile], path: Path) -> None:
    """Refuse names that lead out of their folder. Called before anything is written."""
    for each in files:
        if not is_file_name(each.folder, each.name):
            raise InputError(
                f"{each.name!r:.80} is no name for a file in {each.folder}; it was not touched.", path=path
            )


def place_file(folder: Path, name: str, content: bytes) -> Path | None:
    """Write a file under its name, or under another if that is taken; None if the same file is there already."""
    folder.mkdir(parents=True, exist_ok=True)
    path, number = folder / name, 1
    stem, ending = path.stem, path.suffix
    while True:
        if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
            return None
        if not os.path.lexists(path):
            with suppress(FileExistsError):  # another process was first
                atomic_files.create_whole(path, content)
                return path
        mark = "-restored" if number == 1 else f"-restored-{number}"
        path, number = folder / f"{stem}{mark}{ending}", number + 1
