"""What is written for Rankbook itself: TOML of variants and suites, notebooks, filters, synonyms, names, queries."""

from __future__ import annotations

import json
from html.parser import HTMLParser

from sqlalchemy import column
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import JSONB

from core.chunking import chunker_from, chunkers, word_tokens
from core.errors import InputError, RankbookError
from core.expansion import PatternExpansion
from core.expansion.patterns import Rule, filled
from core.expansion.synonyms import from_path
from core.filters import JsonField, compiled, filter_from
from core.routing import classify
from core.snippets import snippet
from core.store import names
from core.store.attached.mapping import relation_name
from core.types import Item
from core.variant import Variant
from evals.measures import Metric
from evals.sources.guess import chunk_set_of
from evals.suites.suite import Suite
from tests.drills.fuzz.scratch import written
from tests.drills.fuzz.target import Family
from workbench.notebooks import export_html, export_jupyter, files, markdown
from workbench.notebooks.document import Cell, Notebook, Prose, unified
from workbench.notebooks.parsing import meaning
from workbench.services import toml_edit
from workbench.services.runs import RunsState

family = Family()

VARIANT = (
    b'name = "hybrid"\ntop_k = 10\nfusion = { method = "rrf", k = 60 }\nparents = "replace"\n'
    b'rerank = { method = "overlap", depth = 20 }\n'
    b'filter = { and = [ { field = "type", eq = "guide" }, { not = { field = "d", gt = 2024-01-01 } } ] }\n'
    b'expand = { method = "patterns" }\nroute = { weights = { question = { vector = 0.5 } } }\n'
    b'[[leg]]\nkind = "vector"\nweight = 0.65\n[[leg]]\nkind = "fulltext"\nmode = "web"\nlabel = "words"\n'
)
SUITE = (
    b'name = "nightly"\nmetrics = ["ndcg@10", "recall@100"]\n[[collection]]\nname = "handbook"\n'
    b'[[variant]]\nname = "words"\n[[variant.leg]]\nkind = "bm25"\n'
    b'[[grid]]\nbase = "words"\nvary = { "top_k" = [5, 10] }\n[gate]\n'
)
TOML_WORDS = (
    b"[[leg]]", b'"""', b"'''", b"0x", b"1e999", b"nan", b"-inf", b"2024-13-01", b"\\U0010ffff", b"\\ud800",
    b"a.b.c = 1", b"[[[[[[[[", b"{a={a={a=", b"9" * 400, b"kind =", b"method =", b"\x00",
)  # fmt: skip


def text_of(content: bytes) -> str:
    """As files are read: what is not UTF-8 is refused before anything is made of it."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError("not UTF-8") from error


@family.target(VARIANT, words=TOML_WORDS, longest=16_384)
def variant(content: bytes) -> None:
    made = Variant.from_file(written("variant.toml", content))
    assert len(made.id) == 64
    assert Variant.from_toml(made.to_toml()) == made
    assert Variant.from_data(made.to_data()) == made


@family.target(SUITE, words=(*TOML_WORDS, b"[[variant]]", b"[gate]", b"file =", b"preset ="), longest=16_384)
def suite(content: bytes) -> None:
    Suite.from_file(written("suite.toml", content)).all_variants()


@family.target(VARIANT, SUITE, words=TOML_WORDS)
def toml_form(content: bytes) -> None:
    """What a form on a page does to text: one value changed, all others as they were."""
    source = text_of(content)
    plain = toml_edit.read(source)
    for key in list(plain)[:4]:
        toml_edit.line_of(source, (key,))
        changed = toml_edit.read(toml_edit.put(source, {(key,): 1}))
        assert changed == {**plain, key: 1} or repr(changed) == repr({**plain, key: 1})


NOTEBOOK = (
    b"# A notebook\n\nprose <b>x</b> [l](javascript:x) ![i](http://x)\n\n```notebook\ncollection = 'handbook'\n```\n\n"
    b'```search first\nquery = "hold"\nvariants = ["bm25"]\n```\n\n'
    b'~~~evaluate\nvariants = ["bm25", "hybrid-retriever"]\n'
    b"~~~\n\n```judge\n```\n\n```context\nquery = 'a'\nvariant = 'context-pack'\n```\n<!-- c -->\n"
)
ALLOWED = frozenset(
    {
        "a",
        "blockquote",
        "br",
        "code",
        "del",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "li",
        "ol",
        "p",
        "pre",
        "s",
    }
    | {"strong", "table", "tbody", "td", "th", "thead", "tr", "ul"}
)


class _Tags(HTMLParser):
    """Refuses every element that prose has no use for, everything that runs, and every address that does."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ALLOWED, tag
        for name, value in attrs:
            assert not name.startswith("on"), name
            if name in ("href", "src"):
                address = "".join((value or "").split()).lower()
                assert not address.startswith(("javascript:", "vbscript:", "data:", "file:")), value


def assert_inert(prose: str) -> None:
    parser = _Tags()
    parser.feed(markdown.html(prose))
    parser.close()
    again = _Tags()
    again.feed(markdown.reader().render(markdown.inert(prose)))
    again.close()


@family.target(
    NOTEBOOK,
    words=(
        b"```search\n",
        b"```\n",
        b"~~~\n",
        b"<!--",
        b"-->",
        b"<script>",
        b"](javascript:",
        b"\r\n",
        b"\xe2\x80\xa8",
        b"    ",
        b"- ",
        b"> ",
    ),
    longest=2048,
)
def notebook(content: bytes) -> None:
    opened = files.opened(written("notebook.md", content))
    book = opened.notebook
    assert book.text == content.decode()
    meant = meaning(book, opened.path)
    assert set(meant.specs).isdisjoint(meant.problems)
    assert {cell.id for cell in book.cells} <= {*meant.specs, *meant.problems}
    for prose in (part for part in book.parts if isinstance(part, Prose)):
        assert_inert(prose.text)
    json.loads(export_jupyter.render(book, meant, opened.path.parent))
    export_html.render(book, ())
    assert book.doubts is not None


@family.target(NOTEBOOK, NOTEBOOK.replace(b"```", b"  ~~~~"), words=(b"```", b"~~~~", b"\x0c", b"<!--", b"\r"))
def notebook_changed(content: bytes) -> None:
    """What the workbench does to an open notebook: what is changed is as asked, all else as it was."""
    text = text_of(content)
    half = len(text) // 2
    book = Notebook.parse(text[:half])
    source = text[half:]
    for part in book.parts[:3]:
        for change in (
            lambda part=part: book.delete(part.id),
            lambda part=part: book.move(part.id),
            lambda part=part: book.duplicate(part.id)[0],
            lambda part=part: book.insert("search", source, before=part.id)[0],
        ):
            with_change(change)
        replaced(book, part, source)


def with_change(change: object) -> None:
    try:
        made = change()  # type: ignore[operator]
    except RankbookError:
        return
    again = Notebook.parse(made.text)
    assert [(cell.kind, cell.source) for cell in again.cells] == [(cell.kind, cell.source) for cell in made.cells]


def replaced(book: Notebook, part: Cell | Prose, source: str) -> None:
    try:
        made = book.replace(part.id, source)
    except RankbookError:
        return
    changed = made[part.id] if isinstance(part, Cell) else part
    if isinstance(changed, Cell):
        assert changed.source.rstrip("\n") == unified(source).rstrip("\n")


FILTER = (
    b'{"and": [{"field": "type", "eq": "guide"}, {"not": {"or": [{"field": "n", "gt": 1, "lte": 5}, '
    b'{"field": "t", "in": ["a", 2, true]}]}}]}'
)


@family.target(
    FILTER,
    b'{"field": "a", "contains": "x", "exists": true, "ne": 1.5}',
    words=(
        b'"and"',
        b'"or"',
        b'"not"',
        b'"field"',
        b'"in"',
        b'"exists"',
        b"NaN",
        b"1e400",
        b"9" * 2000,
        b"'; --",
        b"{",
        b"[",
    ),
)
def metadata_filter(content: bytes) -> None:
    try:
        given = json.loads(content)
    except (ValueError, RecursionError):
        return
    made = filter_from(given)
    assert filter_from(made.model_dump(mode="json")) == made
    held = column("metadata", JSONB)
    asked = compiled(made, lambda name: JsonField(held[name], held, name))
    written_out = str(asked.compile(dialect=postgresql.dialect()))  # type: ignore[no-untyped-call]
    assert "--" not in written_out
    assert "DROP" not in written_out


@family.target(b"wifi, wlan => wireless\na\\,b, c # remark\n", words=(b"=>", b"\\,", b"#", b"\xef\xbb\xbf"))
def synonym_lines(content: bytes) -> None:
    from_path(str(written("synonyms.txt", content))).called_for(["a"])


@family.target(b'two_way = [["a", "b"]]\none_way = [{ from = ["a"], to = ["b"] }]\n', words=TOML_WORDS)
def synonym_tables(content: bytes) -> None:
    from_path(str(written("synonyms.toml", content))).called_for(["a"])


@family.target(
    b"what is {thing}\n{thing} is\nwhat is the button", words=(b"{a}", b"{a?}", b"{a:b|c}", b"{a:done}", b" a" * 50)
)
def answer_pattern(content: bytes) -> None:
    question, _, rest = content.decode("utf-8", "replace").partition("\n")
    answer, _, asked = rest.partition("\n")
    PatternExpansion().rewrite(asked)
    try:
        Rule(question=question, answer=answer)
    except ValueError:
        return
    filled(question, answer, asked)


@family.target(b"ndcg@10", b"rbp.90@20", b"recall@100:min2", words=(b"@", b".", b":min", b"map", b"9" * 5000))
def metric_name(content: bytes) -> None:
    found = Metric.parse(text_of(content))
    assert Metric.parse(str(found)) == found


@family.target(b'public."my ""odd"".docs"', b"small=fixed,max_tokens=100", words=(b'"', b".", b"=", b","))
def name_typed(content: bytes) -> None:
    text = text_of(content)
    for take in (relation_name, names.schema_of, lambda each: names.checked(each, what="x"), chunk_set_of):
        try:
            take(text)
        except RankbookError:
            continue


@family.target(b"run=a&page=9999&by=kind", words=(b"&", b"=", b"%00", b"page=", b"\xc2\xb2"))
def address(content: bytes) -> None:
    from urllib.parse import parse_qsl

    asked = RunsState.of(
        dict(parse_qsl(content.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=None))
    )
    assert asked.number >= 1
    assert RunsState.of(asked.parameters()) == asked


TEXT = (
    b"# Hold\n\nThe button. Press it (twice)! E.g. 3.5 V.\n\n## Next\n\n- one\n- two\n\n"
    b"| a | b |\n|---|---|\n| 1 | 2 |\n"
    b"\n```py\nx = 1\n```\n\x0cPage two. \xe6\xbc\xa2\xe5\xad\x97\xe3\x80\x82 \xf0\x9f\xa6\x8a"
)


@family.target(
    TEXT,
    words=(b"\x0c", b"```", b"# ", b"===\n", b"| ", b". ", b"A.B.", b"\xe2\x80\x8d", b" " * 64, b"(" * 32),
    longest=8192,
)
def document_text(content: bytes) -> None:
    """Chunkers, snippets and what tells kinds of queries apart."""
    text = content.decode("utf-8", "replace")
    for kind in chunkers:
        for chunk in chunker_from({"kind": kind}).chunk(Item("d", text), word_tokens):
            assert text[chunk.start : chunk.end] == chunk.text
            assert chunk.text.strip()
    classify(text)
    cut = snippet(text, text.split()[:20], 120)
    assert text[cut.at : cut.at + len(cut.text)] == cut.text


TARGETS = tuple(family.targets)
