"""BEIR folders and zips: the labelled collections record for record, bad rows, hostile archives, arbitrary bytes."""

# mypy: disable-error-code="union-attr, no-untyped-call, attr-defined"
# In a test a Flaw where a Row was expected fails by itself.

from __future__ import annotations

import gzip
import json
import os
import stat
import zipfile
from itertools import chain
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, RankbookError
from core.types import Flaw, Row
from evals.labels.label_checks import check_labels
from evals.sources import ArchiveLimits, BeirSource
from tests.effort import examples

ROOT = Path(__file__).resolve().parents[2]
DATA = Path(os.environ.get("RANKBOOK_DATA", ROOT.parent / "shared" / "data"))

PINNED = {  # items, queries, labels by split, spans, exclusions; first, tenth and last item
    "scifact": (5183, 1109, {"test": 339, "train": 919}, 366, 0, ("4983", "70490", "198309074")),
    "cranfield": (1400, 225, {"test": 1612}, 0, 225, ("1", "10", "1400")),
    "xquad-de": (240, 1190, {"test": 1190}, 1190, 0, ("p0001", "p0010", "p0240")),
    "chroma-chunking": (238, 472, {"test": 473}, 790, 0, ("wikitexts-000", "wikitexts-009", "chatlogs-004")),
}


def collection(name: str) -> BeirSource:
    if not (DATA / name).is_dir():
        pytest.skip(f"the labelled collection {name} is not at {DATA} (set RANKBOOK_DATA)")
    return BeirSource(path=DATA / name)


def values(rows):
    rows = list(rows)
    assert [row for row in rows if isinstance(row, Flaw)] == []
    return [row.value for row in rows]


def write(folder: Path, corpus: bytes | str = "", queries: bytes | str = "", qrels: bytes | str = "") -> Path:
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, content in (("corpus.jsonl", corpus), ("queries.jsonl", queries), ("qrels/test.tsv", qrels)):
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return folder


def write_zip(path: Path, entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, content in entries.items():
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("name", PINNED)
def test_known_collections_are_read_record_for_record(name):
    source = collection(name)
    items, queries, labels, spans, exclusions, (first, tenth, last) = PINNED[name]
    read = values(source.items())
    assert len(read) == items
    assert (read[0].id, read[9].id, read[-1].id) == (first, tenth, last)
    assert len(values(source.queries())) == queries
    splits = [label.split for label in values(source.labels())]
    assert {split: splits.count(split) for split in splits} == labels
    assert (len(values(source.spans())), len(values(source.exclusions()))) == (spans, exclusions)
    assert source.card().startswith(f"# {name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", PINNED)
def test_known_collections_have_sound_labels_and_spans(name):
    source = collection(name)
    texts = {item.id: item.text for item in values(source.items())}
    checked = check_labels(
        source.queries(),
        source.labels(),
        source.spans(),
        source.exclusions(),
        has_item=texts.__contains__,
        item_text=texts.get,
    )
    assert [flaw for flaw in checked.flaws if flaw.outcome != "noted"] == []
    assert len(checked.labels) == sum(PINNED[name][2].values())


def test_records_of_cranfield_carry_their_metadata_and_place():
    source = collection("cranfield")
    item = next(source.items())
    assert item.value.title == "experimental investigation of the aerodynamics of a wing in a slipstream ."
    assert item.value.metadata["author"] == "brenckman,m."
    assert (item.place.file, item.place.line) == (str(DATA / "cranfield" / "corpus.jsonl"), 1)
    assert values(source.queries())[2].metadata == {"original_number": "004"}
    label = next(source.labels())
    assert (label.value.query_id, label.value.item_id, label.value.grade, label.place.line) == ("1", "184", 3, 2)
    assert values(source.exclusions())[0].item_id == "486"


def test_numbers_as_ids_and_facets_inside_or_outside_metadata(tmp_path):
    queries = [
        {"_id": 1, "text": "a", "kind": "keyword", "tags": ["x", 2], "weight": 3},
        {"_id": 2.0, "text": "b", "metadata": {"kind": "question", "tags": "x, y", "weight": "0.5", "source": "log"}},
    ]
    path = write(
        tmp_path, '{"_id": 7, "text": "t", "url": "u", "metadata": {"a": 1}}', "\n".join(map(json.dumps, queries))
    )
    item = values(BeirSource(path=path).items())[0]
    assert (item.id, dict(item.metadata)) == ("7", {"url": "u", "a": 1})
    first, second = values(BeirSource(path=path).queries())
    assert (first.id, first.kind, first.tags, first.weight) == ("1", "keyword", ("x", "2"), 3.0)
    assert (second.id, second.kind, second.tags, second.weight) == ("2", "question", ("x", "y"), 0.5)
    assert second.metadata == {"source": "log"}


def test_one_bad_row_costs_that_row_alone_and_names_its_line(tmp_path):
    rows = [
        b'{"_id": "a", "text": "t"}',
        b"{broken",
        b"[1]",
        b'{"text": "no id"}',
        b'{"_id": {}, "text": "t"}',
        b"",
        b'{"_id": "b", "text": 5}',
        b'{"_id": "c", "text": "\xff"}',
        b'{"_id": "d", "text": "t", "metadata": {"x": NaN}}',
        b'{"_id": "e", "text": "t", "metadata": 3}',
        b'{"_id": "f"}',
        b"[" * 100_000,
        b'{"_id": "z", "text": "t"}',
    ]
    found = list(BeirSource(path=write(tmp_path, b"\n".join(rows))).items())
    assert [row.value.id for row in found if isinstance(row, Row)] == ["a", "e", "z"]
    flaws = [row for row in found if isinstance(row, Flaw)]
    assert [flaw.place.line for flaw in flaws] == [2, 3, 4, 5, 7, 8, 9, 10, 11, 12]
    assert [flaw.place.line for flaw in flaws if flaw.outcome == "cleaned"] == [10]
    assert all(flaw.message.endswith(".") for flaw in flaws)


def test_bad_facets_are_cleaned_and_the_query_is_kept(tmp_path):
    path = write(tmp_path, "{}", '{"_id": "q", "text": "t", "kind": [1], "tags": {"a": 1}, "weight": -1}')
    query, *flaws = BeirSource(path=path).queries()
    assert (query.value.kind, query.value.tags, query.value.weight) == ("", (), 1.0)
    assert [flaw.outcome for flaw in flaws] == ["cleaned"] * 3


def test_the_qrels_header_is_optional_and_columns_are_checked(tmp_path):
    source = BeirSource(path=write(tmp_path, "{}", "{}", "1\ta b\t2\n1 0 c 1\n1\td\t0.5\n1\te\n\t f\t1\n2\tg\t1.0\n"))
    found = list(source.labels())
    assert [(row.value.item_id, row.value.grade) for row in found if isinstance(row, Row)] == [
        ("a b", 2),
        ("c", 1),
        ("g", 1),
    ]
    assert [row.place.line for row in found if isinstance(row, Flaw)] == [3, 4, 5]
    headed = BeirSource(path=write(tmp_path / "headed", "{}", "{}", "Query-ID\tcorpus-id\tscore\n1\ta\t2\n"))
    assert [row.place.line for row in headed.labels()] == [2]


def test_compressed_files_and_a_zip_with_a_folder_inside_read_the_same(tmp_path):
    line = b'{"_id": "a", "text": "t"}\n'
    (tmp_path / "packed").mkdir()
    (tmp_path / "packed" / "corpus.jsonl.gz").write_bytes(gzip.compress(line))
    archive = write_zip(
        tmp_path / "set.zip", {"set/corpus.jsonl": line, "set/queries.jsonl": line, "set/qrels/dev.tsv": b"a\ta\t1"}
    )
    assert values(BeirSource(path=tmp_path / "packed").items()) == values(BeirSource(path=archive).items())
    row = next(BeirSource(path=archive).items())
    assert row.place.file == f"{archive}!set/corpus.jsonl"
    assert [label.split for label in values(BeirSource(path=archive).labels())] == ["dev"]


def test_exclusion_files_are_no_split(tmp_path):
    path = write(tmp_path, "{}", "{}", "1\ta\t1")
    for name in ("exclude", "exclusions", "source-docs"):
        (path / "qrels" / f"{name}.tsv").write_text(f"query-id\tcorpus-id\n1\t{name}\n")
    source = BeirSource(path=path)
    assert [label.split for label in values(source.labels())] == ["test"]
    assert [pair.item_id for pair in values(source.exclusions())] == ["exclude", "exclusions", "source-docs"]


def test_missing_files_name_what_was_expected(tmp_path):
    with pytest.raises(InputError, match=r"a folder or a \.zip was expected"):
        next(BeirSource(path=tmp_path / "none").items())
    (tmp_path / "other.txt").write_text("x")
    with pytest.raises(InputError, match=r"corpus\.jsonl was expected.*other\.txt"):
        next(BeirSource(path=tmp_path).items())
    (write(tmp_path, "{}") / "queries.jsonl").unlink()
    with pytest.raises(InputError, match=r"queries\.jsonl was expected"):
        next(BeirSource(path=tmp_path).queries())
    with pytest.raises(InputError, match="UTF-16"):
        next(BeirSource(path=write(tmp_path / "wide", '{"_id": 1}'.encode("utf-16"))).items())


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("../corpus.jsonl", "leads out"),
        ("a/../../corpus.jsonl", "leads out"),
        ("/etc/corpus.jsonl", "absolute"),
        ("C:/corpus.jsonl", "absolute"),
        ("a\\corpus.jsonl", "foreign"),
    ],
)
def test_archives_with_paths_that_lead_elsewhere_are_refused(tmp_path, name, reason):
    with pytest.raises(InputError, match=reason):
        next(BeirSource(path=write_zip(tmp_path / "bad.zip", {name: b"{}"})).items())


def test_archives_with_links_are_refused(tmp_path):
    entry = zipfile.ZipInfo("corpus.jsonl")
    entry.external_attr = (stat.S_IFLNK | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "link.zip", "w") as archive:
        archive.writestr(entry, "/etc/passwd")
    with pytest.raises(InputError, match="link"):
        next(BeirSource(path=tmp_path / "link.zip").items())


def test_archives_that_unpack_to_too_much_are_refused(tmp_path):
    bomb = write_zip(tmp_path / "bomb.zip", {"corpus.jsonl": b"0" * (32 * 2**20)})
    with pytest.raises(InputError, match="200 times"):
        next(BeirSource(path=bomb).items())
    many = write_zip(tmp_path / "many.zip", {f"{number}": b"" for number in range(20)})
    with pytest.raises(InputError, match="20 entries; 10 are allowed"):
        next(BeirSource(path=many, limits=ArchiveLimits(entries=10)).items())
    large = write_zip(tmp_path / "large.zip", {"corpus.jsonl": b"{}" * 1000}, zipfile.ZIP_STORED)
    with pytest.raises(InputError, match="1,000 bytes"):
        next(BeirSource(path=large, limits=ArchiveLimits(total_bytes=1000)).items())


@pytest.mark.slow
def test_bytes_are_counted_where_the_directory_says_nothing(tmp_path):
    inner = gzip.compress(b"0" * (64 * 2**20))
    for path in (write_zip(tmp_path / "nested.zip", {"corpus.jsonl.gz": inner}), tmp_path / "plain"):
        if path.suffix != ".zip":
            path.mkdir()
            (path / "corpus.jsonl.gz").write_bytes(inner)
        with pytest.raises(InputError, match="Unpacking was stopped"):
            list(BeirSource(path=path).items())


def test_damaged_archives_are_told_in_a_sentence(tmp_path):
    whole = write_zip(tmp_path / "a.zip", {"corpus.jsonl": os.urandom(5000)}, zipfile.ZIP_STORED).read_bytes()
    (tmp_path / "a.zip").write_bytes(whole[:100] + b"XXXX" + whole[104:])
    with pytest.raises(InputError, match="damaged"):
        list(BeirSource(path=tmp_path / "a.zip").items())
    (tmp_path / "a.zip").write_bytes(b"no zip")
    with pytest.raises(InputError, match="neither a folder nor a readable zip"):
        list(BeirSource(path=tmp_path / "a.zip").items())


def test_an_endless_line_is_left_out_and_the_next_is_read(tmp_path, monkeypatch):
    from evals.sources.rows import read_lines

    (tmp_path / "long").write_bytes(b"x" * 5000 + b"\nshort\n")
    with (tmp_path / "long").open("rb") as stream:
        long, short = read_lines(stream, "long", limit=1000)
    assert isinstance(long, Flaw)
    assert (short.value, short.place.line) == ("short\n", 2)


ANY_BYTES = st.one_of(st.binary(max_size=300), st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["_id", "text", "a"]), inner, max_size=3)
    ),
)
FIELDS = st.sampled_from(
    [
        "_id",
        "id",
        "title",
        "text",
        "metadata",
        "kind",
        "tags",
        "weight",
        "query-id",
        "corpus-id",
        "start",
        "end",
        "split",
        "score",
    ]
)
ROWS = st.lists(st.dictionaries(FIELDS, JSON, max_size=8).map(lambda row: json.dumps(row).encode()), max_size=4)


@pytest.mark.slow
@examples(60)
@given(jsonl=st.one_of(ANY_BYTES, ROWS.map(b"\n".join)), qrels=ANY_BYTES)
def test_arbitrary_bytes_raise_nothing_but_our_own_errors(tmp_path, jsonl, qrels):
    path = write(tmp_path, jsonl, jsonl, qrels)
    (path / "spans.jsonl").write_bytes(jsonl)
    (path / "qrels" / "exclude.tsv").write_bytes(qrels)
    source = BeirSource(path=path)
    for read in (source.items, source.queries, source.labels, source.spans, source.exclusions):
        try:
            assert all(isinstance(row, (Row, Flaw)) for row in read())
        except RankbookError as error:
            assert str(error)  # noqa: PT017
    check_labels(
        *(ignoring(read) for read in (source.queries, source.labels, source.spans, source.exclusions)), has_item=bool
    )


def ignoring(read):
    try:
        return list(read())
    except RankbookError:
        return []


@examples(60)
@given(
    content=st.binary(max_size=300), cuts=st.lists(st.tuples(st.integers(0, 400), st.binary(max_size=6)), max_size=4)
)
def test_arbitrarily_broken_zips_raise_nothing_but_our_own_errors(tmp_path, content, cuts):
    whole = bytearray(
        write_zip(tmp_path / "f.zip", {"corpus.jsonl": b'{"_id": 1, "text": "t"}\n' * 3, "b": content}).read_bytes()
    )
    for at, piece in cuts:
        whole[at : at + len(piece)] = piece
    (tmp_path / "f.zip").write_bytes(bytes(whole))
    source = BeirSource(path=tmp_path / "f.zip")
    try:
        list(chain(source.items(), source.labels()))
    except RankbookError as error:
        assert str(error)  # noqa: PT017


@pytest.mark.parametrize("documents", [1, 300, 40_000])
def test_a_size_is_judged_by_the_beginning_of_a_folder_or_a_zip(tmp_path, documents):
    lines = "".join(json.dumps({"_id": str(number), "text": "word " * 30}) + "\n" for number in range(documents))
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "corpus.jsonl").write_text(lines)
    archive = write_zip(tmp_path / "set.zip", {"set/corpus.jsonl": lines.encode()})
    for path in (folder, archive):
        assert BeirSource(path=path).size() == pytest.approx(documents, rel=0.02)


def test_a_size_that_nobody_can_tell_is_left_out(tmp_path):
    packed = write_zip(tmp_path / "packed.zip", {"corpus.jsonl.gz": gzip.compress(b"{}\n")})
    (tmp_path / "no.zip").write_bytes(b"no zip")
    for path in (
        packed,
        tmp_path / "no.zip",
        tmp_path / "gone",
        write_zip(tmp_path / "empty.zip", {"corpus.jsonl": b""}),
    ):
        assert BeirSource(path=path).size() is None
