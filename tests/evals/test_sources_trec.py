"""TREC documents, topics and qrels."""

# mypy: disable-error-code="union-attr, no-untyped-call, attr-defined"
# In a test a Flaw where a Row was expected fails by itself.

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, RankbookError
from core.types import Flaw, Row
from evals.sources import TrecSource
from evals.sources import trec as sgml_module
from tests.effort import examples

SGML = """junk before
<DOC>
<DOCNO> FT911-3 </DOCNO>
<DATE>910514</DATE>
<HEADLINE>
FT  14 MAY 91 / A & B
</HEADLINE>
<TEXT>
First <P> paragraph &amp; 1 < 2.
</TEXT>
<TEXT>Second.</TEXT>
</DOC>
<DOC><TEXT>no number</TEXT></DOC>
<DOC>
<DOCNO>lost</DOCNO>
<doc>
<docno>x-1</docno><author>me</author> <body>only body</body></doc>
<DOC><DOCNO>open</DOCNO>
"""
TOPICS = """<top>
<num> Number: 051
<title> Topic: Airbus Subsidies
<desc> Description:
How much &amp; why?
<narr> Narrative:
Not this.
</top>
<top><title>no number</top>
"""


def split(rows):
    rows = list(rows)
    return [row for row in rows if isinstance(row, Row)], [row for row in rows if isinstance(row, Flaw)]


def test_sgml_is_read_though_no_xml_parser_would(tmp_path):
    (tmp_path / "ft.sgml").write_text(SGML)
    rows, flaws = split(TrecSource(documents=tmp_path / "ft.sgml").items())
    first, second = (row.value for row in rows)
    assert (first.id, first.title) == ("FT911-3", "FT 14 MAY 91 / A & B")
    assert first.text == "First paragraph & 1 < 2.\n\nSecond."
    assert first.metadata == {"date": "910514"}
    assert (second.id, second.text) == ("x-1", "me\nonly body")
    assert [row.place.line for row in rows] == [2, 16]
    assert [flaw.place.line for flaw in flaws] == [13, 14, 18]


def test_the_window_may_cut_a_document_anywhere(tmp_path, monkeypatch):
    whole = "".join(f"<DOC>\n<DOCNO>d{number}</DOCNO><TEXT>{'w ' * number}</TEXT>\n</DOC>\n" for number in range(200))
    (tmp_path / "d").write_text(whole)
    expected = list(TrecSource(documents=tmp_path / "d").items())
    assert [row.value.id for row in expected] == [f"d{number}" for number in range(200)]
    monkeypatch.setattr(sgml_module, "_READ", 7)
    assert list(TrecSource(documents=tmp_path / "d").items()) == expected


def test_a_folder_with_gz_and_latin1(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.gz").write_bytes(gzip.compress(b"<DOC><DOCNO>1</DOCNO><TEXT>caf\xe9</TEXT></DOC>"))
    (tmp_path / "b").write_bytes(b"<DOC><DOCNO>2</DOCNO><TEXT>x</TEXT></DOC>")
    rows, flaws = split(TrecSource(documents=tmp_path).items())
    assert [(row.value.id, row.value.text) for row in rows] == [("2", "x"), ("1", "café")]
    assert [(flaw.outcome, flaw.subject) for flaw in flaws] == [("cleaned", "1")]


def test_documents_as_tsv_and_xml_of_other_names(tmp_path):
    (tmp_path / "c.tsv").write_text("1\ttext one\n2\ttitle\ttext two\nbroken\n")
    rows, flaws = split(TrecSource(documents=tmp_path / "c.tsv").items())
    assert [(row.value.id, row.value.title, row.value.text) for row in rows] == [
        ("1", "", "text one"),
        ("2", "title", "text two"),
    ]
    assert flaws[0].place.line == 3
    (tmp_path / "c.xml").write_text(
        "<?xml version='1.0'?><all><article><id>7</id><text><![CDATA[a < b]]></text></article></all>"
    )
    source = TrecSource(documents=tmp_path / "c.xml", document_tag="article", id_tag="id")
    assert [(row.value.id, row.value.text) for row in source.items()] == [("7", "a < b")]


def test_topics_classic_xml_and_tsv(tmp_path):
    path = tmp_path / "topics"
    path.write_text(TOPICS)
    rows, flaws = split(TrecSource(documents=tmp_path, topics=path).queries())
    assert (rows[0].value.id, rows[0].value.text) == ("51", "Airbus Subsidies")
    assert rows[0].value.metadata["desc"] == "How much & why?"
    assert [flaw.place.line for flaw in flaws] == [9]
    both = TrecSource(documents=tmp_path, topics=path, topic_fields=("title", "desc"))
    assert next(both.queries()).value.text == "Airbus Subsidies How much & why?"
    path.write_text('<topics><topic number="1"><query>corona</query><question>why</question></topic></topics>')
    assert [(row.value.id, row.value.text) for row in TrecSource(documents=tmp_path, topics=path).queries()] == [
        ("1", "corona")
    ]
    path.write_text("001\tq one\n")
    assert next(TrecSource(documents=tmp_path, topics=path).queries()).value.id == "001"


def test_qrels_by_split(tmp_path):
    (tmp_path / "qrels").write_text("51 0 FT911-3 1\n51 0 X -2\n")
    source = TrecSource(documents=tmp_path, qrels=tmp_path / "qrels")
    assert [(row.value.item_id, row.value.grade, row.value.split) for row in source.labels()] == [
        ("FT911-3", 1, "test"),
        ("X", -2, "test"),
    ]
    assert TrecSource(documents=tmp_path, qrels={"dev": tmp_path / "qrels"}).qrels.keys() == {"dev"}


def test_what_is_missing_is_told(tmp_path):
    with pytest.raises(InputError, match="TREC documents"):
        next(TrecSource(documents=tmp_path / "none").items())
    with pytest.raises(InputError, match="a file was expected"):
        next(TrecSource(documents=tmp_path, topics=tmp_path / "none").queries())


def test_a_document_without_end_does_not_fill_the_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(sgml_module, "MAX_DOCUMENT", 1000)
    monkeypatch.setattr(sgml_module, "_READ", 500)
    (tmp_path / "d").write_text("<DOC>" + "x" * 5000 + "</DOC><DOC><DOCNO>1</DOCNO><TEXT>t</TEXT></DOC>")
    rows, flaws = split(TrecSource(documents=tmp_path / "d").items())
    assert ([row.value.id for row in rows], len(flaws)) == (["1"], 1)


PIECES = st.lists(
    st.sampled_from(
        [
            "<DOC>",
            "</DOC>",
            "<DOCNO>",
            "</DOCNO>",
            "1",
            "<TEXT>",
            "</TEXT>",
            "<top>",
            "</top>",
            "<num>",
            "<",
            ">",
            "&#x",
            "\t",
            "\n",
            "<![CDATA[",
        ]
    ).map(str.encode)
    | st.binary(max_size=6),
    max_size=25,
).map(b"".join)


@examples(60)
@given(PIECES)
def test_arbitrary_bytes_raise_nothing_but_our_own_errors(tmp_path, content):
    (tmp_path / "f").write_bytes(content)
    source = TrecSource(documents=tmp_path / "f", topics=tmp_path / "f", qrels=tmp_path / "f")
    for read in (source.items, source.queries, source.labels):
        try:
            assert all(isinstance(row, (Row, Flaw)) for row in read())
        except RankbookError as error:
            assert str(error)  # noqa: PT017


def test_a_size_is_judged_by_what_the_first_files_hold(tmp_path):
    for file in range(3):
        documents = "".join(f"<DOC>\n<DOCNO>{file}-{n}</DOCNO><TEXT>{'word ' * 500}</TEXT></DOC>\n" for n in range(900))
        (tmp_path / f"{file}.sgml").write_text(documents)
    assert TrecSource(documents=tmp_path).size() == pytest.approx(2700, rel=0.02)
    (tmp_path / "lines.tsv").write_text("d1\tone\nd2\ttwo\n")
    assert TrecSource(documents=tmp_path / "lines.tsv").size() == 2


def test_a_size_is_not_told_of_packed_files_or_none(tmp_path):
    assert TrecSource(documents=tmp_path / "gone").size() is None
    assert TrecSource(documents=tmp_path).size() is None
    (tmp_path / "d.sgml.gz").write_bytes(gzip.compress(SGML.encode()))
    assert TrecSource(documents=tmp_path).size() is None
