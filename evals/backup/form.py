"""The form of a backup: what its two lists say, what its members may be called, and in which order they come.

Knows no database and opens no file. Whoever reads a backup may not have written it: nothing in it is taken on trust.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

FORMAT: Final = 1
MANIFEST, CONTENTS = "manifest.json", "contents.json"  # the first member and the last
STORE: Final = "store"  # the folder of what belongs to no collection
LARGEST_LIST: Final = 256 * 2**20  # bytes of either list
LARGEST_PIECE: Final = 2**31  # bytes of a piece unpacked: PostgreSQL's longest row and room
LARGEST_FILE: Final = 64 * 2**20  # bytes of a notebook or a variant
MOST_MEMBERS: Final = 500_000
NAME: Final = re.compile(
    rf"{MANIFEST}|{CONTENTS}|files/\d{{4,6}}|(?:{STORE}|collections/\d{{4,6}})/[a-z_]{{1,40}}(?:_\d{{1,9}})?\.\d{{5}}\.tsv\.gz"
)

Kind = Literal["own", "attached", "gone"]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Kept(_Frozen):
    """A collection in a backup. One that is gone has labels, judgements or runs still, and no documents."""

    number: int = Field(ge=1, le=999_999, description="Which folder of the backup is its.")
    name: str
    kind: Kind
    created_at: datetime | None = Field(None, description="Tells it from another of its name.")

    @property
    def folder(self) -> str:
        return f"collections/{self.number:04d}"


class HomeFile(_Frozen):
    """A notebook or a kept variant."""

    number: int = Field(ge=1, le=999_999)
    folder: Literal["notebooks", "variants"]
    name: str = Field(min_length=1, max_length=255)

    @property
    def member(self) -> str:
        return f"files/{self.number:04d}"


class Manifest(_Frozen):
    """What a backup begins with."""

    format: Literal[1] = FORMAT
    rankbook: str = Field(description="Which Rankbook wrote it.")
    postgres: int = Field(description="The server's version number.")
    pgvector: str | None = None
    made_at: datetime
    whole: bool = Field(description="Whether all of the store was asked for.")
    revisions: dict[str, str] = Field(description="How far each chain of migrations had come.")
    collections: tuple[Kept, ...] = Field(max_length=MOST_MEMBERS)
    files: tuple[HomeFile, ...] = Field((), max_length=MOST_MEMBERS)

    def find(self, name: str) -> Kept | None:
        return next((each for each in self.collections if each.name == name), None)


class Member(_Frozen):
    """A member as it was written: its size unpacked, its rows without the heading, and what it unpacks to."""

    name: str
    size: int = Field(ge=0, le=LARGEST_PIECE)
    rows: int = Field(0, ge=0)
    sha256: str = Field(pattern="^[0-9a-f]{64}$")


class Contents(_Frozen):
    """What a backup ends with, so that one that lacks it was cut off."""

    members: tuple[Member, ...] = Field(max_length=MOST_MEMBERS)


def piece(folder: str, table: str, number: int) -> str:
    return f"{folder}/{table}.{number:05d}.tsv.gz"


def table_of(member: str) -> tuple[str, str] | None:
    """The folder and the table of which a member is a piece; None where it is something else."""
    folder, _, name = member.rpartition("/")
    return (folder, name.split(".")[0]) if name.endswith(".tsv.gz") else None
