"""Backups that anybody may have written: looked at, checked, and read as far as they can be read."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import zlib
from datetime import UTC, datetime

from evals.backup import archive_reader, restore
from evals.backup.archive_writer import ArchivePieces, ArchiveWriter
from evals.backup.file_format import LABELS, BackedUpCollection, HomeFile, Manifest
from evals.runs.rankings import MARK, Ranking, decode_rankings, encode_rankings
from tests.drills.fuzz.scratch import written
from tests.drills.fuzz.target import Family

family = Family()

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
MANIFEST = Manifest(
    rankbook="0.1.0",
    postgres=180000,
    made_at=NOON,
    whole=True,
    revisions={},
    collections=(BackedUpCollection(number=1, name="handbook", kind="own", created_at=NOON),),
    files=(HomeFile(number=1, folder="notebooks", name="a.md"),),
)


def archive() -> bytes:
    made = io.BytesIO()
    writer = ArchiveWriter(made, MANIFEST)
    pieces = ArchivePieces(writer, "collections/0001", LABELS[0].name)
    pieces.add(b"key\tname\n1\tdefault\n2\t\\N\n")
    pieces.close()
    writer.add("files/0001", b"# a\n")
    writer.close()
    return made.getvalue()


def read(content: bytes) -> None:
    path = written("some.rankbook", content)
    with archive_reader.open_archive(path) as found:
        restore.check_readable(found)
        for kept in found.manifest.collections:
            restore.select_targets(found, kept.name, None)
            for part in LABELS:
                found.keep_readable(kept.folder, part.name)
    restore.check(path)


@family.target(
    archive(),
    archive()[:2000],
    words=(b"manifest.json", b"contents.json", b"ustar\x0000", b"\x00" * 512),
    longest=16_384,
)
def backup_file(content: bytes) -> None:
    read(content)


@family.target(
    MANIFEST.model_dump_json().encode(),
    words=(
        b'"format"',
        b'"number"',
        b'"../../x.md"',
        b'"revisions"',
        b"1e400",
        b"9" * 400,
        b'"files"',
        b'"collections"',
    ),
)
def backup_manifest(content: bytes) -> None:
    """A backup that is whole but for what its first list says: digests are no protection from whoever made them."""
    listed = {"name": "manifest.json", "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, member in (("manifest.json", content), ("contents.json", json.dumps({"members": [listed]}).encode())):
            info = tarfile.TarInfo(name)
            info.size = len(member)
            tar.addfile(info, io.BytesIO(member))
    read(made.getvalue())


RANKINGS = encode_rankings(
    {"q": Ranking(("d1", "d2"), (0.5, 0.25), ("d1", "d2"), ((0, 5), (1, 2)))}, failures={}, notes=[]
)
BEGIN = len(MARK) + 8
END = BEGIN + int.from_bytes(RANKINGS[len(MARK) : BEGIN], "little")
HEAD, SCORES = RANKINGS[BEGIN:END], RANKINGS[END:]


@family.target(RANKINGS, words=(MARK, b"z", b"="))
def run_rankings(content: bytes) -> None:
    """What a run of a backup holds."""
    use(content)


@family.target(zlib.decompress(HEAD), words=(b"PK\x01\x02", b"\x93NUMPY", b"'<i4'", b"'|O'", b"(9999999999,)", b"[[]]"))
def run_rankings_inside(content: bytes) -> None:
    """The same, packed as it should be: what is in it was not made by numpy."""
    head = zlib.compress(content)
    use(MARK + len(head).to_bytes(8, "little") + head + SCORES)


def bent_directory(at: int, value: int) -> bytes:
    """Sound arrays whose directory says that in a byte of its first entry."""
    made = bytearray(zlib.decompress(HEAD))
    made[made.index(b"PK\x01\x02") + at] = value
    return bytes(made)


def use(content: bytes) -> None:
    for ranked in decode_rankings(content).rankings.values():
        assert ranked.length == len(ranked.ids) == len(ranked.scores)


TARGETS = tuple(family.targets)
