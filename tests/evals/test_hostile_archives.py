"""Archives that somebody made to do harm: refused in a sentence, before they cost memory, time or disk."""

from __future__ import annotations

import gzip
import json
import struct
import tracemalloc
import zipfile
import zlib
from pathlib import Path

import pytest

from core.errors import InputError
from evals.sources.beir import BeirSource
from evals.sources.files import ArchiveLimits, open_tree

MIB = 2**20
LINE = json.dumps({"_id": "1", "text": "kettle"}).encode() + b"\n"


def bomb(size: int = 24 * MIB) -> bytes:
    """That many bytes of blanks in a thousandth of them."""
    return gzip.compress(LINE + b" " * size)


def refusal_of(path: Path, limits: ArchiveLimits | None = None) -> str:
    """What reading all of it is refused with."""
    source = BeirSource(path=path, limits=limits or ArchiveLimits())

    def read() -> None:
        for rows in (source.items(), source.queries(), source.labels()):
            list(rows)

    with pytest.raises(InputError) as caught:
        read()
    return str(caught.value)


def test_small_bombs_are_counted_together_over_all_files_of_a_folder(tmp_path):
    """Each by itself would pass: it is below what harms nobody."""
    (tmp_path / "qrels").mkdir()
    (tmp_path / "corpus.jsonl").write_bytes(LINE)
    (tmp_path / "queries.jsonl").write_bytes(LINE)
    for number in range(4):
        (tmp_path / "qrels" / f"split{number}.tsv.gz").write_bytes(bomb(6 * MIB))
    assert "Unpacking was stopped" in refusal_of(tmp_path)
    one = tmp_path / "one"
    (one / "qrels").mkdir(parents=True)
    (one / "corpus.jsonl").write_bytes(LINE)
    (one / "queries.jsonl").write_bytes(LINE)
    (one / "qrels" / "test.tsv.gz").write_bytes(gzip.compress(b" " * (6 * MIB)))
    assert list(BeirSource(path=one).labels()) == []


def test_bombs_inside_a_zip_are_counted_together_with_the_zip(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("corpus.jsonl", LINE)
        archive.writestr("queries.jsonl", LINE)
        for number in range(4):
            archive.writestr(f"qrels/split{number}.tsv.gz", bomb(6 * MIB))
    assert "Unpacking was stopped" in refusal_of(path)


def test_a_zip_whose_entry_says_it_is_short_is_stopped_where_more_comes_out(tmp_path):
    path, content = tmp_path / "a.zip", b" " * (40 * MIB)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("corpus.jsonl", content)
    whole = path.read_bytes().replace(struct.pack("<L", len(content)), struct.pack("<L", 100))
    path.write_bytes(whole)
    assert refusal_of(path)


def test_entries_that_share_their_bytes_are_counted_each(tmp_path):
    """Every entry of the directory points at the same compressed bytes, as the densest known bombs have it."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = packer.compress(b" " * (16 * MIB)) + packer.flush()
    names = [f"qrels/split{number}.tsv".encode() for number in range(200)]
    crc = zlib.crc32(b" " * (16 * MIB))
    local = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 8, 0, 0, crc, len(packed), 16 * MIB, len(names[0]), 0) + names[0]
    directory = b"".join(
        struct.pack(
            "<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 8, 0, 0, crc, len(packed), 16 * MIB, len(name), 0, 0, 0, 0, 0, 0
        )
        + name
        for name in names
    )
    at = len(local) + len(packed)
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, len(names), len(names), len(directory), at, 0)
    path = tmp_path / "shared.zip"
    path.write_bytes(local + packed + directory + end)
    assert "Unpacking was stopped" in refusal_of(path)


def test_a_directory_of_a_million_entries_costs_no_memory(tmp_path):
    """It is refused by its length, and not after all of it was read."""
    entry = struct.pack("<4s6H3L5H2L", b"PK\1\2", 20, 20, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0) + b"a"
    directory = entry * 1_000_000
    end = struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFE, 0xFFFE, len(directory), 0, 0)
    path = tmp_path / "many.zip"
    path.write_bytes(directory + end)
    del directory
    tracemalloc.start()
    try:
        assert "directory is longer" in refusal_of(path)
        assert tracemalloc.get_traced_memory()[1] < 8 * MIB
    finally:
        tracemalloc.stop()


def test_a_directory_that_says_to_be_longer_than_memory_is_refused(tmp_path):
    path = tmp_path / "liar.zip"
    path.write_bytes(b"PK" + b"\0" * 1000 + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, 0xFFFFFFF0, 0, 0))
    assert refusal_of(path)


def test_ways_of_packing_that_take_gigabytes_to_unpack_are_refused(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("corpus.jsonl", LINE)
    assert "unusual way" in refusal_of(path)


@pytest.mark.slow
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_the_usual_ways_are_read(tmp_path, method):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("corpus.jsonl", LINE * 30_000)
    assert len(list(BeirSource(path=path).items())) == 30_000


@pytest.mark.parametrize("name", ["../corpus.jsonl", "/corpus.jsonl", "a/../../corpus.jsonl", "C:\\corpus.jsonl"])
def test_nothing_is_ever_written_to_disk_whatever_names_say(tmp_path, name):
    path = tmp_path / "in" / "a.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(name, LINE)
    assert "refused" in refusal_of(path)
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["a.zip", "in"]


def test_a_tree_with_no_hostility_in_it_is_read_twice(tmp_path):
    (tmp_path / "corpus.jsonl.gz").write_bytes(gzip.compress(LINE * 10))
    with open_tree(tmp_path, ArchiveLimits()) as tree:
        for _ in range(2):
            with tree.open("corpus.jsonl.gz") as stream:
                assert stream.read() == LINE * 10
