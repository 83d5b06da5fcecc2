"""CSV, TSV, JSONL and Parquet with a column mapping."""

# mypy: disable-error-code="union-attr, no-untyped-call, attr-defined"
# In a test a Flaw where a Row was expected fails by itself.

from __future__ import annotations

import datetime as dt
import gzip
import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from core.errors import InputError, RankbookError
from core.types import Flaw, Row
from evals.sources import ItemColumns, TabularSource
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
    name=st.sampled_from(["f.csv", "f.tsv", "f.jsonl", "f.parquet", "f.csv.gz"]),
    header=st.sampled_from([b"", b"id,text\n", b"id\ttext\n", b'{"id": 1, "text": "t"}\n', b"PAR1"]),
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
