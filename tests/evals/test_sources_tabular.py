"""CSV, TSV, JSONL and Parquet with a column mapping."""

# mypy: disable-error-code="union-attr, no-untyped-call, attr-defined"
# In a test a Flaw where a Row was expected fails by itself.

from __future__ import annotations

import datetime as dt
import gzip
import json
import tracemalloc

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from core.errors import InputError, RankbookError, SpecError
from core.types import Flaw, Row
from evals.sources import BeirSource, ItemColumns, TabularSource
from evals.sources.guess import source_of
from evals.sources.json_lines import _ObjectScanner
from evals.sources.table_files import sniff
from tests.effort import examples


def table(tmp_path, name: str, content: str | bytes):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return tmp_path / name


def split(rows):
    rows = list(rows)
    return [row for row in rows if isinstance(row, Row)], [row for row in rows if isinstance(row, Flaw)]


def test_the_line_reported_is_where_a_quoted_record_starts(tmp_path):
    content = 'id,title,text,lang\n1,"A","one\ntwo\n""three""",en\n\n2,B,plain\n3,C,"x, y",\n'
    content += ",D,no id,\n4,E,\xff,\n5,F,end,de\n"
    path = table(tmp_path, "d.csv", content.encode("latin-1"))
    rows, flaws = split(TabularSource(path=path).items())
    assert [(row.value.id, row.place.line) for row in rows] == [("1", 2), ("3", 7), ("5", 10)]
    assert rows[0].value.text == 'one\ntwo\n"three"'
    assert (rows[0].value.title, dict(rows[0].value.metadata)) == ("A", {"lang": "en"})
    assert [flaw.place.line for flaw in flaws] == [6, 8, 9]
    assert rows[1].value.metadata == {}


def test_columns_can_be_mapped_and_metadata_chosen(tmp_path):
    path = table(tmp_path, "d.tsv", "nr\thead\tbody\ta\tb\n1\tH\tT\tx\ty\n")
    columns = ItemColumns(id="nr", text="body", title="head", metadata=("b",))
    item = next(TabularSource(path=path, columns=columns).items()).value
    assert (item.id, item.title, item.text, dict(item.metadata)) == ("1", "H", "T", {"b": "y"})


@pytest.mark.parametrize("name", ["d.csv", "d.jsonl"])
def test_a_missing_column_names_those_there_are_and_the_nearest(tmp_path, name):
    path = table(tmp_path, name, "ident,txet\n1,a\n" if name.endswith("csv") else '{"ident": 1, "txet": "a"}\n')
    with pytest.raises(
        InputError, match=r"no column 'text' for the text. Did you mean 'txet'\? The columns are: 'ident', 'txet'"
    ):
        next(TabularSource(path=path, columns=ItemColumns(id="ident", text="text")).items())
    with pytest.raises(InputError, match="no column 'id'"):
        next(TabularSource(path=path).items())


def test_json_lines_keep_types_and_bad_lines_their_places(tmp_path):
    rows = ['{"id": 1, "text": "a", "n": 2, "metadata": {"k": [1]}}', "{", '{"id": 2, "text": "b", "n": null}']
    rows_read, flaws = split(TabularSource(path=table(tmp_path, "d.jsonl", "\n".join(rows))).items())
    assert [dict(row.value.metadata) for row in rows_read] == [{"n": 2, "k": [1]}, {}]
    assert flaws[0].place.line == 2
    packed = table(tmp_path, "d.jsonl.gz", gzip.compress("\n".join(rows).encode()))
    assert [row.value for row in split(TabularSource(path=packed).items())[0]] == [row.value for row in rows_read]


@pytest.mark.slow
def test_parquet_is_read_in_batches_with_plain_values(tmp_path):
    count = 2500
    columns = {
        "id": list(range(count)),
        "text": [f"t{n}" for n in range(count)],
        "day": [dt.date(2024, 1, 2)] * count,
        "score": [float("nan")] * count,
        "tags": [["a", "b"]] * count,
    }
    parquet.write_table(pa.table(columns), tmp_path / "d.parquet")
    rows, flaws = split(TabularSource(path=tmp_path / "d.parquet").items())
    assert (len(rows), flaws) == (count, [])
    assert dict(rows[0].value.metadata) == {"day": "2024-01-02", "tags": ["a", "b"]}
    assert (rows[-1].value.id, rows[-1].place.line) == ("2499", 2500)
    table(tmp_path, "d.parquet", (tmp_path / "d.parquet").read_bytes()[:-30])
    with pytest.raises(InputError, match="not a readable Parquet file"):
        next(TabularSource(path=tmp_path / "d.parquet").items())


def test_queries_and_labels_from_tables(tmp_path):
    source = TabularSource(
        path=table(tmp_path, "d.csv", "id,text\na,b\n"),
        queries_path=table(
            tmp_path, "q.csv", "qid,question,kind,tags,weight,lang\n1,why,paraphrase,x;y,2,en\n2,how,,,,\n"
        ),
        labels_path=table(tmp_path, "l.csv", "qid,doc_id,rating,split\n1,a,3,train\n1,b,0,\n1,c,high,\n"),
    )
    first, second = (row.value for row in source.queries())
    assert (first.text, first.kind, first.tags, first.weight, dict(first.metadata)) == (
        "why",
        "paraphrase",
        ("x", "y"),
        2.0,
        {"lang": "en"},
    )
    assert (second.kind, second.tags, second.weight) == ("", (), 1.0)
    rows, flaws = split(source.labels())
    assert [(row.value.item_id, row.value.grade, row.value.split) for row in rows] == [
        ("a", 3, "train"),
        ("b", 0, "test"),
    ]
    assert flaws[0].place.line == 4


def test_headers_and_endings_that_cannot_work_are_told(tmp_path):
    for name, content, message in (
        ("a.csv", "", "empty"),
        ("b.csv", "id,id\n", "column twice"),
        ("c.xlsx", "x", "What is understood"),
        ("d.csv", b"\xff\n", "not UTF-8"),
    ):
        with pytest.raises(InputError, match=message):
            next(TabularSource(path=table(tmp_path, name, content)).items())
    with pytest.raises(InputError, match="There is nothing here"):
        next(TabularSource(path=tmp_path / "none.csv").items())


def test_unquoted_tsv_takes_a_lone_quote_as_text(tmp_path):
    path = table(tmp_path, "d.tsv", 'id\ttext\n1\t"open\n2\tnext\n')
    assert [row.value.text for row in TabularSource(path=path, quote="").items()] == ['"open', "next"]


@examples(60)
@given(
    name=st.sampled_from(["f.csv", "f.tsv", "f.jsonl", "f.json", "f.parquet", "f.csv.gz"]),
    header=st.sampled_from(
        [b"", b"id,text\n", b"id\ttext\n", b"id;text\n", b'{"id": 1, "text": "t"}\n', b"[{", b"PAR1"]
    ),
    content=st.lists(
        st.sampled_from([b'"', b",", b"\t", b"\n", b"\r", b"\0", b"{}"]) | st.binary(max_size=5), max_size=20
    ).map(b"".join),
)
def test_arbitrary_bytes_raise_nothing_but_our_own_errors(tmp_path, name, header, content):
    path = table(tmp_path, name, header + content)
    source = TabularSource(path=path, queries_path=path, labels_path=path)
    for read in (source.items, source.queries, source.labels):
        try:
            assert all(isinstance(row, (Row, Flaw)) for row in read())
        except RankbookError as error:
            assert str(error)  # noqa: PT017


@examples(50)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20), min_size=1, max_size=5))
def test_what_json_writes_is_read_back_exactly(tmp_path, texts):
    lines = [json.dumps({"id": number, "text": text}) for number, text in enumerate(texts)]
    assert [row.value.text for row in TabularSource(path=table(tmp_path, "r.jsonl", "\n".join(lines))).items()] == texts


# -- CSV as it is found ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("d.csv", 'id;text;lang\n1;"a; b, c";en\n2;d;de\n', "semicolons"),
        ("d.csv", "id\ttext\tlang\n1\ta; b, c\ten\n2\td\tde\n", "tabs"),
        ("d.csv", "id|text|lang\n1|a; b, c|en\n2|d|de\n", "vertical bars"),
        ("d.tsv", 'id,text,lang\n1,"a; b, c",en\n2,d,de\n', "commas"),
        ("d.csv.gz", 'id;text;lang\n1;"a; b, c";en\n2;d;de\n', "semicolons"),
    ],
)
def test_what_parts_the_columns_is_told_by_the_first_rows_and_said(tmp_path, name, content, told):
    raw = gzip.compress(content.encode(), mtime=0) if name.endswith(".gz") else content.encode()
    rows, flaws = split(TabularSource(path=table(tmp_path, name, raw)).items())
    assert [(row.value.text, dict(row.value.metadata)) for row in rows] == [
        ("a; b, c", {"lang": "en"}),
        ("d", {"lang": "de"}),
    ]
    assert [(flaw.message, flaw.outcome) for flaw in flaws] == [
        (f"The columns are parted by {told}, as the first rows tell.", "noted")
    ]


@pytest.mark.parametrize(
    "content",
    ["id,text\n1,a;b;c\n2,d;e;f\n", "id,text\n1,a|b\n2,c|d\n", "text\na;b\nc;d\n", "id,text\n1,a,b\n2,c;d\n", "", "\n"],
)
def test_a_file_that_its_own_ending_reads_is_read_by_that(content):
    assert sniff(content.encode(), ",") == ","


def test_a_delimiter_that_is_given_is_not_guessed(tmp_path):
    path = table(tmp_path, "d.csv", "id;text|more\n1;a|b\n")
    source = source_of(str(path), None, ["delimiter=|", "columns.id=id;text", "columns.text=more"])
    assert [row.value.id for row in source.items()] == ["1;a"]
    assert source_of(str(path), None, ["delimiter=tab"]).spec()["delimiter"] == "\t"
    with pytest.raises(SpecError, match="one character"):
        source_of(str(path), None, ["delimiter=;;"])


# -- JSON as it is found -----------------------------------------------------------------------------------------------

DOCUMENTS = [{"id": 1, "text": 'a "quoted" { [ \\'}, {"id": 2, "text": "b", "m": {"n": [1, {"o": "]}"}]}}]
ARRAY = json.dumps(DOCUMENTS)
PRETTY = json.dumps(DOCUMENTS, indent=2)
ONE_BY_ONE = "\n".join(json.dumps(each, indent=2) for each in DOCUMENTS)


@pytest.mark.parametrize("name", ["d.json", "d.jsonl", "d.ndjson", "d.json.gz"])
@pytest.mark.parametrize(
    "content", [ARRAY, PRETTY, ONE_BY_ONE, f"\ufeff\n {PRETTY}"], ids=["array", "pretty", "ones", "mark"]
)
def test_arrays_and_pretty_printed_json_are_read(tmp_path, name, content):
    raw = gzip.compress(content.encode(), mtime=0) if name.endswith(".gz") else content.encode()
    source = TabularSource(path=table(tmp_path, name, raw))
    rows, flaws = split(source.items())
    assert [(row.value.id, row.value.text, dict(row.value.metadata)) for row in rows] == [
        ("1", 'a "quoted" { [ \\', {}),
        ("2", "b", {"m": {"n": [1, {"o": "]}"}]}}),
    ]
    assert [flaw.outcome for flaw in flaws] == ([] if ".json" in name and "jsonl" not in name else ["noted"])
    assert source.size() is None


def test_lines_of_json_are_read_from_a_json_file_too(tmp_path):
    path = table(tmp_path, "d.json", '{"id": 1, "text": "a"}\n{\n{"id": 2, "text": "b"}\n')
    rows, flaws = split(TabularSource(path=path).items())
    assert ([row.value.id for row in rows], [flaw.place.line for flaw in flaws]) == (["1", "2"], [2])


def test_a_bad_object_of_an_array_costs_itself_and_has_its_line(tmp_path):
    content = '[\n{"id": 1,\n "text": "a"},\n{"id": 2,\n "text": },\n 3,\n"no",\n{"id": 4, "text": "\xff"},\n'
    content += '{"id": 5, "text": "e"}\n]\n{"id": 6'
    rows, flaws = split(TabularSource(path=table(tmp_path, "d.json", content.encode("latin-1"))).items())
    assert [(row.value.id, row.place.line) for row in rows] == [("1", 2), ("5", 9)]
    assert [flaw.place.line for flaw in flaws] == [5, 6, 7, 8, 11]
    assert "not closed" in flaws[-1].message


@pytest.mark.parametrize("end", ["", ",", ",\n", "\n"])
def test_an_array_that_was_cut_off_between_two_objects_is_said(tmp_path, end):
    path = table(tmp_path, "d.json", f'[{{"id": 1, "text": "a"}},\n{{"id": 2, "text": "b"}}{end}')
    rows, flaws = split(TabularSource(path=path).items())
    assert [row.value.id for row in rows] == ["1", "2"]
    assert [flaw.outcome for flaw in flaws] == ["quarantined"]
    assert "cut off" in flaws[0].message


@pytest.mark.slow
def test_memory_holds_one_object_of_an_array_and_blocks_may_end_anywhere(tmp_path):
    documents = [{"id": number, "text": '\\"' * (number % 7) + "x" * 997} for number in range(2000)]
    path = table(tmp_path, "d.json", json.dumps(documents))
    tracemalloc.start()
    try:
        texts = [len(row.value.text) for row in TabularSource(path=path).items()]
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert texts == [len(str(each["text"])) for each in documents]
    assert peak < 2 * 2**20 < path.stat().st_size + 2**20


def test_an_array_in_a_labelled_collection_is_read_as_its_lines_would_be(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(json.dumps([{"_id": "a", "text": "t"}], indent=1))
    rows, flaws = split(BeirSource(path=tmp_path).items())
    assert [row.value.id for row in rows] == ["a"]
    assert "JSON array" in flaws[0].message


@examples(60)
@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=5), st.text(max_size=8) | st.integers() | st.lists(st.text(max_size=3)), max_size=3
        ),
        max_size=6,
    ),
    st.sampled_from([None, 1]),
    st.integers(1, 9),
)
def test_objects_are_cut_out_of_any_array_whatever_the_blocks(objects, indent, size):
    scanner = _ObjectScanner("f", int)
    raw = json.dumps(objects, indent=indent, ensure_ascii=False).encode("utf-8", "replace")
    rows = [row for at in range(0, len(raw), size) for row in scanner.feed(raw[at : at + size])] + list(scanner.end())
    assert [row.value if isinstance(row, Row) else row for row in rows] == json.loads(raw)


@pytest.mark.parametrize(
    ("name", "content", "size"),
    [
        ("d.csv", "id,text\n1,a\n2,b\n", 2),
        ("d.tsv", "id\ttext\n1\ta\n", 1),
        ("d.csv", "", 0),
        ("d.jsonl", '{"id": 1}\n{"id": 2}\n', 2),
        ("d.csv.gz", gzip.compress(b"id,text\n1,a\n", mtime=0), None),
        ("d.parquet", "no parquet", None),
    ],
)
def test_the_number_of_rows_is_told_where_that_is_quick(tmp_path, name, content, size):
    assert TabularSource(path=table(tmp_path, name, content)).size() == size


def test_a_parquet_file_tells_its_rows_and_a_file_that_is_not_there_none(tmp_path):
    parquet.write_table(pa.table({"id": ["a", "b", "c"], "text": ["1", "2", "3"]}), tmp_path / "d.parquet")
    assert TabularSource(path=tmp_path / "d.parquet").size() == 3
    for name in ("gone.parquet", "gone.csv"):
        assert TabularSource(path=tmp_path / name).size() is None
