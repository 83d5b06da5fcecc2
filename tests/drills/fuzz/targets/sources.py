"""Everything that a labelled collection is read from: BEIR, TREC, tables, archives, documents with front matter."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from core.errors import InputError
from core.store.sanitize import digest, sanitize_item
from core.types import Flaw, Item, Place, Row
from evals.labels.label_checks import check_labels
from evals.labels.query_generation import read_queries
from evals.runs.exchange import read_run, write_run
from evals.runs.types import RunSubject
from evals.sources import BeirSource, FolderSource, Source, TabularSource, TrecSource, guess
from evals.sources.readers import AsciiDocReader, ReadDocument, RestructuredTextReader
from evals.sources.readers.html import html_to_text
from evals.types import QuerySplit
from tests.drills.fuzz.scratch import folder, packed, written
from tests.drills.fuzz.target import Family

family = Family()

CORPUS = (
    b'{"_id": "d1", "title": "Hold", "text": "Hold the button.", "metadata": {"a": 1, "b": [true, null, 0.5]}}\n'
    b'{"id": 2, "text": "Press\\u0000 it\\ud83e\\udd5d"}\n'
)
QUERIES = b'{"_id": "q1", "text": "hold?", "kind": "question", "tags": "a, b", "weight": 2, "metadata": {"x": 1}}\n'
SPANS = b'{"query-id": "q1", "corpus-id": "d1", "start": 0, "end": 4, "text": "Hold", "score": 1, "split": "test"}\n'
QRELS = b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq1 0 2 2\n"
JSON_WORDS = (
    b'"_id"',
    b'"metadata"',
    b'"text"',
    b"1e999",
    b"NaN",
    b"9" * 400,
    b"\\ud800",
    b"\\u0000",
    b"null",
    b"[[[[",
)
SGML = (
    b"<DOC>\n<DOCNO> d1 </DOCNO>\n<TITLE>Hold &amp; press</TITLE>\n<TEXT>\n<P>The button.</P>\n</TEXT>\n</DOC>\n"
    b"<DOC><DOCNO>d2</DOCNO><![CDATA[x]]><HL>T</HL>rest &#0; &#x110000; &nbsp</DOC>"
)
TOPICS = (
    b"<top>\n<num> Number: 051\n<title> Topic: Airbus\n<desc> Description:\nWhat?\n</top>\n"
    b'<topic number="2"><query>hold</query></topic>'
)
CSV = b'id,text,title,kind\n1,"Hold, ""the"" button",T,x\n2,"two\nlines",,\n'
RUN = b"q1 Q0 d1 1 0.9 tag\nq1\tQ0\td 2\t2\t0.5\ttag\nq2 Q0 d1 1 nan tag\n"


def exhausted(source: Source) -> None:
    """Every row of every kind through what an import does with it. A part that is refused leaves the others."""
    ids: set[str] = set()
    with suppress(InputError):
        ids = {item.id for item in admitted(source.items())}
    with suppress(InputError):
        check_labels(source.queries(), source.labels(), source.spans(), source.exclusions(), has_item=ids.__contains__)
    for told in (source.card, source.size, source.wishes):
        told()


def admitted(rows: Iterator[Row[Item] | Flaw]) -> Iterator[Item]:
    for row in rows:
        if isinstance(row, Row) and (item := sanitize_item(row.value, row.place, ("a", "kind"))[0]) is not None:
            digest(item)
            yield item


@family.target(CORPUS, QUERIES, SPANS, b'{"language": "german"}', words=JSON_WORDS)
def beir_files(content: bytes) -> None:
    for name in ("corpus.jsonl", "queries.jsonl", "spans.jsonl", "rankbook.json", "README.md"):
        path = written(f"beir/{name}", content)
    exhausted(BeirSource(path=path.parent))


@family.target(QRELS, b"q1 0 d1 1\n", b"q1\td1\n", words=(b"\t", b"1.0", b"-1", b"1e5", b"0x1", b"\xef\xbb\xbf"))
def qrels(content: bytes) -> None:
    written("judged/corpus.jsonl", CORPUS)
    written("judged/queries.jsonl", QUERIES)
    written("judged/qrels/exclusions.tsv", content)
    path = written("judged/qrels/test.tsv", content)
    exhausted(BeirSource(path=path.parents[1]))


MEMBERS = {"corpus.jsonl": CORPUS, "queries.jsonl": QUERIES, "spans.jsonl": SPANS, "qrels/test.tsv": QRELS}


@family.target(
    packed("x", MEMBERS),
    packed("", {"corpus.jsonl.gz": gzip.compress(CORPUS, mtime=0), "../up": b"x", "/abs": b""}),
    words=(
        b"PK\x03\x04",
        b"PK\x01\x02",
        b"PK\x05\x06",
        b"corpus.jsonl",
        b"qrels/",
        b"\x08\x00",
        b"\x0c\x00",
        b"\x0e\x00",
    ),
)
def beir_zip(content: bytes) -> None:
    exhausted(guess(written("archive.zip", content)))


@family.target(gzip.compress(CORPUS, mtime=0), gzip.compress(CORPUS * 2, mtime=0)[:-4], words=(b"\x1f\x8b\x08",))
def table_gz(content: bytes) -> None:
    exhausted(TabularSource(path=written("packed.jsonl.gz", content)))


def table(ending: str) -> Callable[[bytes], None]:
    def take(content: bytes) -> None:
        path = written(f"table{ending}", content)
        with suppress(InputError):
            list(read_queries(path))
        exhausted(TabularSource(path=path, queries_path=path, labels_path=path))

    return take


ARRAY = b'[\n {"id": 1, "text": "a { \\" ] b"},\n {"id": 2, "text": "x", "m": {"n": [1, {}]}}, 3\n]\n'
LABELLED = b"query_id,item_id,grade,split,id,text\nq1,1,2,test,1,a\n"
for ending, seeds, words in (
    (".csv", (CSV, LABELLED), (b'"', b'""', b"\r\n", b"\x00", b"id,text", b";", b"|", b"\t", b"\xff\xfe")),
    (".tsv", (CSV.replace(b",", b"\t"), LABELLED.replace(b",", b"\t")), (b'"', b"\t", b"\r", b"\xef\xbb\xbf")),
    (".jsonl", (CORPUS, QUERIES), JSON_WORDS),
    (".json", (ARRAY, CORPUS.replace(b', "', b',\n "')), (*JSON_WORDS, b"[", b"]", b"},{", b'\\"', b"\\")),
):
    family.target(*seeds, words=words, name=f"table_{ending[1:]}")(table(ending))


@cache
def parquet_seed() -> bytes:
    import pyarrow as pa
    from pyarrow import parquet

    made = io.BytesIO()
    columns: dict[str, list[Any]] = {
        "id": ["1", "2"],
        "text": ["Hold", None],
        "n": [1.5, None],
        "l": [["a"], None],
        "m": [{"x": 1}, None],
    }
    parquet.write_table(pa.table(columns), made, compression="NONE")  # type: ignore[no-untyped-call, attr-defined]
    return made.getvalue()


@family.target(b"PAR1", words=(b"PAR1", b"\x15\x00", b"\x19\x1c"), longest=8192)
def table_parquet(content: bytes) -> None:
    """Without a sound file to begin from, as pyarrow's own code cannot be watched; with one in `table_parquet_bent`."""
    table(".parquet")(content)


@family.target(b"\x00\x00\x01", b"\x10\x00\x80\x20\x00\xff", longest=256)
def table_parquet_bent(content: bytes) -> None:
    """A sound file in which bytes are changed: each three are a place and what to put there."""
    bent = bytearray(parquet_seed())
    for at in range(0, len(content) - 2, 3):
        bent[int.from_bytes(content[at : at + 2], "little") % len(bent)] = content[at + 2]
    table(".parquet")(bytes(bent))


@family.target(SGML, b"d1\tHold the button\n", words=(b"<DOC>", b"</DOC>", b"<DOCNO>", b"&#x", b"<![CDATA[", b"<a <a"))
def trec_documents(content: bytes) -> None:
    exhausted(TrecSource(documents=written("documents.sgml", content)))


@family.target(
    TOPICS, b"1\thold the button\n", words=(b"<top>", b"</top>", b"<num>", b"<title>", b"<narr>", b"number=")
)
def trec_topics(content: bytes) -> None:
    documents = written("one.sgml", SGML)
    path = written("topics.xml", content)
    exhausted(TrecSource(documents=documents, topics=path, qrels={"test": path}))


@cache
def asked() -> tuple[RunSubject, QuerySplit]:
    from core.types import Query

    return RunSubject("c", 1, "default", b"", "test"), QuerySplit(
        "test", {"q1": Query("q1", "a"), "q2": Query("q2", "b")}
    )


def run_back(path: Path) -> None:
    """What was read is written, and read again to the same order."""
    found = read_run(path, *asked())
    again = folder() / "again.run"
    write_run(found.run, again)
    read = read_run(again, *asked()) if any(each.length for each in found.run.rankings.values()) else found
    for query, ranked in found.run.rankings.items():
        if ranked.length and not any(has_break(each) for each in (query, *ranked.item_ids)):
            assert list(read.run.rankings[query].item_ids) == list(ranked.item_ids)


def has_break(text: str) -> bool:
    """An id with a tab or a line's end in it has no place in TREC's format."""
    return any(each in text for each in "\t\n\r") or text != text.strip()


@family.target(RUN, words=(b"Q0", b"\t", b"inf", b"1e400", b"-0.0", b"\x1c", b"\xc2\x85", b"0_1"))
def trec_run(content: bytes) -> None:
    run_back(written("some.run", content))


@family.target(
    b"query,item,score,rank\nq1,d1,0.5,1\nq1,d2,0.5,\n", words=(b"query_id", b"inf", b"1e400", b'"', b"\r", b"nan")
)
def run_table(content: bytes) -> None:
    run_back(written("run.csv", content))


MARKDOWN = b"---\ntitle: Hold\ntags: [a, {b: 2026-01-01}]\nn: 1_000\n---\n# Hold ##\n\n```\n# no\n```\ntext\n"
YAML_WORDS = (
    b"---\n",
    b"!!python/object:os.system",
    b"&a [*a]",
    b"*a",
    b"!!timestamp",
    b"!!binary",
    b"0o7",
    b"1:60",
    b"<<: ",
    b"!!set",
    b"!!int",
)


@family.target(MARKDOWN, b"\xef\xbb\xbf# A\n", words=YAML_WORDS)
def markdown_file(content: bytes) -> None:
    path = written("markdown/sub/x-y.md", content)
    exhausted(FolderSource(path=path.parents[1]))


HTML = (
    b"<!doctype html><html><head><title>T &amp; U</title><script>x()</script><style>a{}</style></head><body>"
    b"<h1>Hold</h1><p class='a>b'>The<br/>button</p><ul><li>one<li>two</ul><pre> a\n b</pre><table><tr><td>1<td>2"
)


@family.target(
    HTML, words=(b"<![", b"<!--", b"-->", b"<script", b"</", b"&#x0;", b"&#99999999;", b"<pre/>", b"<title>")
)
def html_file(content: bytes) -> None:
    path = written("html/x.html", content)
    for reader in (1, 2):
        exhausted(FolderSource(path=path.parent, reader=reader))
    html_to_text(content.decode("utf-8", "replace"))


RST = (
    b":author: Ann\n\nFilters\n=======\n\nSee :ref:`the pump <pump>` and ``mesh``.\n\n.. note:: One |bar| is *100*.\n\n"
    b".. code-block:: python\n   :linenos:\n\n   rinse()\n\n.. py:function:: rinse(hard)\n\n   :param hard: x\n\n"
    b"* one\n* two\n\n1. x\n\nterm\n   said\n\n+---+---+\n| a | b |\n+---+---+\n\n.. include:: /etc/passwd\n\n"
    b".. _x: y\n"
)


@family.target(
    RST,
    b"====  ==\na     b\n====  ==\n1     2\n====  ==\n\n.. [#] note\n",
    words=(b".. ", b"::", b":a:`", b"``", b"`_", b"|x|", b"__", b"\n   ", b"===", b"..\n", b"::\n\n", b"- ", b"[1]_"),
)
def restructured_text(content: bytes) -> None:
    """In this process, as its parser is to be watched; a folder's files are read in one of their own."""
    kept(RestructuredTextReader().read(content))


ASCIIDOC = (
    b"= Guide\nAnn <a@b>\nv1.0\n:product: Siphon\n\n== Filters\n\nA *{product}* _x_ <<p,the pump>> link:a[b].\n\n"
    b"[source,python]\n"
    b"----\n# no\n----\n\n.Steps\n* one\n** two\n. x\n\n|===\n|a |b\n|===\n\ninclude::x[]\n\n////\nno\n////\n"
    b"ifdef::a[b]\n"
)


@family.target(
    ASCIIDOC, words=(b"----\n", b"|===\n", b"====\n", b"[[", b"]]", b"<<", b"::", b"{a}", b":a: ", b"image::", b"##")
)
def asciidoc(content: bytes) -> None:
    kept(AsciiDocReader().read(content))


def kept(document: ReadDocument) -> None:
    """What a folder makes of a document, and an import of that."""
    item = Item("x", document.text, document.title or "x", document.metadata)
    list(admitted(iter([Row(item, Place("x"))])))
    json.dumps(dict(document.metadata))


TARGETS = tuple(family.targets)
