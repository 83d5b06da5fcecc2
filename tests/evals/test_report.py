"""Reports: what they say, that they say the same twice, and that no text in them is anything but text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from core import bridge
from core.errors import InputError
from core.store.passages import ItemText
from core.types import Item, Query
from evals.display import el, embedded, written
from evals.evaluation.board import Board
from evals.presentation.charts import latency, safe, short_names
from evals.presentation.palette import STYLES, colour, shape
from evals.reports import (
    Limits,
    Part,
    documents,
    render_html,
    render_latex,
    render_markdown,
    report,
    text_formats,
    write,
)
from evals.types import QuerySplit
from tests.evals import reports
from tests.evals.boards import SPLIT, board, run
from tests.store.making import fresh, ingest, make

# Machado, Oliveira and Fernandes 2009, doi:10.1109/TVCG.2009.113, severity 1
MACHADO = {
    "protan": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deutan": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritan": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
VOID = {"meta", "br", "input", "img", "link"}


class Page(HTMLParser):
    """A page as a browser reads it: its elements, its text, and what its scripts hold."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.scripts: list[str] = []
        self.comments: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag, "elements are closed in the order in which they were opened"

    def handle_data(self, data):
        if self.open[-1:] == ["script"]:
            self.scripts[-1] += data
        else:
            self.text += data

    def handle_comment(self, data):
        self.comments.append(data)

    @property
    def values(self):
        return json.loads(self.scripts[0])


@pytest.fixture(scope="module")
def plausible():
    return reports.plausible()


@pytest.fixture(scope="module")
def page(plausible) -> Page:
    return Page(render_html(plausible))


@pytest.fixture(scope="module")
def hostile():
    return reports.hostile()


# -- names that fit ----------------------------------------------------------------------------------------------------


def test_names_of_a_grid_that_begin_alike_stay_apart_on_an_axis():
    grid = [f"hybrid of two legs, bm25.k1={k1}, bm25.b={b}" for k1 in (0.9, 1.2) for b in (0.4, 0.75)]
    shown = short_names(["bm25", *grid], 26)
    assert shown[:2] == ["bm25", "…bm25.k1=0.9, bm25.b=0.4"]
    assert len(set(shown)) == 5
    assert max(map(len, shown)) <= 26


def test_one_long_name_loses_its_middle():
    assert short_names(["a name that is far too long for any axis, k=10"], 20) == ["a name…ny axis, k=10"]


def test_no_two_names_of_the_latency_chart_lie_on_each_other():
    times = dict.fromkeys(SPLIT.queries, 5.0)
    made = [run(f"variant {at}", ("right", "half"), milliseconds=times, timed=tuple(times)) for at in range(4)]
    (section,) = report([Part(Board(SPLIT, made, ("mrr@10",)))]).sections
    chart = latency(section.board, section.board.metrics[0])
    assert chart is not None
    named = [trace for trace in chart.figure["data"] if trace["mode"] == "markers+text"]
    assert [trace["text"] for trace in named] == [["variant 0"]]


def test_the_latency_chart_has_the_runs_alone_that_were_timed_alone():
    times = dict.fromkeys(SPLIT.queries, 5.0)
    live = run("live", ("half", "right"), milliseconds=dict.fromkeys(times, 9.0), timed=tuple(times))
    made = [live, run("guess", ("right", "half"), milliseconds=times)]
    (section,) = report([Part(Board(SPLIT, made, ("ndcg@10",)))]).sections
    chart = latency(section.board, section.board.metrics[0])
    assert chart is not None
    assert chart.description.endswith("Front: live.")
    front, *points = chart.figure["data"]
    assert front["x"] == [9.0]
    assert {trace["text"][0]: trace["meta"] for trace in points} == {"live": "front"}


# -- what is said ------------------------------------------------------------------------------------------------------


def test_a_section_says_what_was_measured(plausible):
    facts = dict(plausible.sections[0].facts)
    assert facts["Collection"] == "handbook, version 3"
    assert facts["Queries"] == "60"
    assert facts["Labels"] == "360, 180 of them relevant"
    assert facts["Code"] == "v0.2.0-14-gabc1234"
    assert facts["Machine"] == "AMD EPYC 7B13, 2 cores, Linux-6.6 x86_64"
    assert facts["Made"] == "2026-11-18 12:00 UTC to 2026-11-18 12:05 UTC"


def test_numbers_are_the_boards(plausible):
    of = reports.part().board
    for each in plausible.sections[0].board.rows:
        for metric in of.metrics:
            assert each.scores[metric] == of.cells(metric)[each.name]
            assert each.findings.get(metric) == of.finding(metric, each.name)


def test_lines_stand_best_first_and_the_top_group_is_the_boards(plausible):
    made = plausible.sections[0].board
    means = [each.scores["ndcg@10"].mean for each in made.rows]
    assert means == sorted(means, reverse=True)
    assert made.metrics[0].top == reports.part().board.best("ndcg@10")


def test_doubts_stand_at_the_scores_they_are_about(plausible):
    failing = next(each for each in plausible.sections[0].board.rows if each.failed)
    assert any("1 query failed" in doubt for doubt in failing.doubts["ndcg@10"])
    assert any("judged" in doubt and "between" in doubt for doubt in failing.doubts["ndcg@10"])
    assert report([board("good", "poor")]).sections[0].board.rows[0].doubts == {}


def test_a_variant_has_one_colour_in_every_section():
    both = report([board("good", "poor", "bare"), board("bare", "good", baseline="bare")])
    styles = [{each.name: each.style for each in section.board.rows} for section in both.sections]
    assert styles[1] == {name: styles[0][name] for name in ("bare", "good")}
    looks = {(colour(style), shape(style)) for style in range(6 * len(STYLES))}
    assert len(looks) == 6 * len(STYLES)


@pytest.mark.parametrize("kind", MACHADO)
@pytest.mark.parametrize("ground", [0, 1], ids=["light", "dark"])
def test_marks_that_a_colour_blind_eye_confuses_have_other_shapes(kind, ground):
    seen = [lab(style[ground], np.array(MACHADO[kind])) for style in STYLES]
    alike = [(a, b) for a, b in combinations(range(len(STYLES)), 2) if np.linalg.norm(seen[a] - seen[b]) < 10]
    assert all(shape(a) != shape(b) for a, b in alike)


def lab(colour: str, eye: np.ndarray) -> np.ndarray:
    """CIELAB of a colour as that eye sees it."""
    given = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(given <= 0.04045, given / 12.92, ((given + 0.055) / 1.055) ** 2.4)
    xyz = TO_XYZ @ np.clip(eye @ linear, 0, 1) / np.array([0.9505, 1, 1.089])
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.slow
def test_the_same_report_is_the_same_to_the_byte(plausible):
    again = reports.plausible()
    for render in (render_html, render_markdown, render_latex):
        assert render(plausible) == render(again)


def test_a_board_alone_makes_a_report_chosen_by_the_ending(tmp_path):
    for ending, sign in ((".html", "<!DOCTYPE html>"), (".md", "# "), (".tex", "% ")):
        assert write(board(), tmp_path / f"report{ending}").read_text(encoding="utf-8").startswith(sign)
    with pytest.raises(InputError, match=r"\.html, \.md, \.tex"):
        write(board(), tmp_path / "report.pdf")
    with pytest.raises(InputError, match="cannot be written"):
        write(board(), tmp_path / "nowhere" / "report.md")
    with pytest.raises(InputError, match="nothing to report"):
        report([])


def test_weights_say_what_they_are_worth_and_on_which_queries(plausible):
    two, three = plausible.sections[0].weights
    tuned = reports.tuned()
    assert (two.in_sample, two.cross_fitted) == (tuned.in_sample, tuned.cross_fitted)
    assert two.oracle >= two.in_sample >= two.equal_weights
    assert [fusion.votes for fusion in two.fusions] == [6, 0]
    assert len(three.fusions[0].grid) == 120
    assert three.tied[three.best.best]


def test_a_surface_that_was_only_swept_promises_nothing():
    swept = reports.surface(("a", "b", "c", "d"), 4)
    made = report([Part(board(), {"four": swept})])
    assert made.sections[0].weights[0].cross_fitted is None
    text = Page(render_html(made)).text
    assert "Only swept, not tuned" in text
    assert "To expect of new queries" not in text
    assert "which does not make them equal" in text
    assert "any would do" not in text


@pytest.mark.parametrize(
    "made",
    [
        lambda: board("good"),
        lambda: board("good", "bare", wanted=("span_recall@1", "map")),
        lambda: Board(SPLIT.only({"q00"}), [replace(run("good"), rankings={}), run("poor")], ["mrr"]),
        lambda: Board(replace(SPLIT, queries=weightless(SPLIT)), [run("good"), run("poor")], ["mrr"]),
        lambda: Board(SPLIT, [run("good", milliseconds={"q00": 0.0}), run("poor", milliseconds={"q00": 9.0})], ["mrr"]),
    ],
    ids=["one run", "spans", "one query", "no weight", "no time"],
)
def test_what_little_there_is_makes_a_report(made):
    little = report([made()])
    assert "good" in Page(render_html(little)).text
    assert "| good" in render_markdown(little)
    assert "\ngood" in render_latex(little)
    assert "is a run of another engine" in render_markdown(little)


def weightless(split: QuerySplit) -> dict[str, Query]:
    return {name: replace(query, weight=0.0) for name, query in split.queries.items()}


# -- what is cut -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_too_much_is_cut_and_said_and_scores_stay_over_all():
    whole = reports.part()
    limits = Limits(rankings=60, hits=3, labels=2, texts=500, groups=2)
    made = report([whole], limits=limits)
    section = made.sections[0]
    assert len(section.queries.rows) == 10
    assert {len(hits) for row in section.queries.rows for hits in row["hits"]} == {3}
    assert section.queries.rows[0]["unlisted"] == 1
    assert len(section.board.groups) == 2
    assert section.board.rows[0].scores == report([whole]).sections[0].board.rows[0].scores
    quoted = [excerpt for _, excerpt in section.queries.passages if excerpt]
    assert 0 < sum(len(excerpt.encode()) for excerpt in quoted) <= 500
    said = " ".join(made.cut)
    assert "of 60 queries, the 10" in said
    assert f"the first {len(quoted)} of" in said
    assert "of 6 kinds and tags, the first 2" in said
    assert said[:40] in Page(render_html(made)).text


def test_the_queries_kept_are_those_that_variants_differ_on():
    whole = reports.part()
    values = whole.board.values("ndcg@10")
    spread = dict(zip(whole.board.queries("ndcg@10"), values.max(axis=0) - values.min(axis=0), strict=True))
    kept = {row["id"] for row in report([whole], limits=Limits(rankings=60)).sections[0].queries.rows}
    assert min(spread[query] for query in kept) >= max(spread[query] for query in spread if query not in kept)


@pytest.mark.slow
def test_a_thousand_queries_and_36_variants_stay_small():
    """Every size there grows with queries x variants; a part of it is made, and held to its share of 20 MB."""
    of = reports.split(100, text="x" * 2000 + "{}")
    runs = reports.runs(of, [f"variant {number}" for number in range(36)])
    known = reports.documents("長い文書" * 100)
    made = report([Part(Board(of, runs, ("ndcg@10", "mrr@10"), rules=reports.RULES), documents=known)])
    values = json.dumps(made.sections[0].queries.rows, ensure_ascii=False).encode()
    assert len(values) * 10 + Limits().texts + 5_500_000 < 20_000_000
    assert made.cut == ()


# -- HTML --------------------------------------------------------------------------------------------------------------


def test_the_page_fetches_nothing(plausible, page):
    html = render_html(plausible)
    own = html.replace(page.scripts[1], "")
    assert not re.search(r"https?:|//[a-z]|@import|url\(", own.replace(page.scripts[-1], ""))
    assert not re.search(r"https?:|fetch\(|import\(|XMLHttpRequest", page.scripts[-1])
    assert not [attributes for _, attributes in page.tags if {"src", "srcset", "action"} & attributes.keys()]
    assert all((given["href"] or "").startswith("#") for _, given in page.tags if "href" in given)
    policy = next(given["content"] or "" for _, given in page.tags if "Content-Security" in str(given))
    assert policy.startswith("default-src 'none'")
    assert "unsafe-inline" not in policy.split("style-src")[0]


def test_headings_sort_and_say_so(page):
    heads = [given for tag, given in page.tags if tag == "th" and given.get("scope") == "col"]
    assert sum(given.get("aria-sort") == "descending" for given in heads) == 1
    formulas = [given.get("title") for tag, given in page.tags if tag == "button"]
    assert any("DCG, the sum of gain / log2(rank + 1)" in str(each) for each in formulas)


def test_every_chart_says_what_it_shows(page):
    places = [given for _, given in page.tags if "data-chart" in given]
    assert len(places) == len(page.values["charts"]) == 3 + 3 * 4 + 2
    assert all(given["role"] == "img" and given["aria-label"] for given in places)


def test_the_page_holds_command_variants_warnings_and_gate(page):
    for told in (
        "rankbook suite run handbook.toml",
        'kind = "bm25"',
        "1 of 60 queries failed",
        "The gate does not hold",
        "6 variants -> 3 leg runs",
        "hybrid rrf is better than bm25",
    ):
        assert told in page.text


def test_a_gate_that_fails_comes_first_and_one_that_holds_last(plausible):
    fails = render_html(plausible)
    assert fails.index('id="gate"') < fails.index('id="s0"')
    held = render_html(replace(plausible, checks=tuple(replace(each, outcome="passed") for each in plausible.checks)))
    assert held.index('id="gate"') > held.index('id="s0"')


def test_hits_carry_the_items_at_their_best_passages(page):
    section = page.values["sections"][0]
    board = reports.part().board
    row = section["queries"][3]
    shown = [section["items"][section["passages"][number][0]][0] for number in row["hits"][0]]
    assert shown == list(board.run(section["names"][0]).rankings[row["id"]].item_ids[:10])
    assert section["items"][row["relevant"][0]][0] == "d021"
    assert row["grades"][str(row["relevant"][0])] == 2


def test_hostile_texts_stay_texts_in_html(hostile):
    made = Page(render_html(hostile))
    assert made.open == [], "every element is closed"
    assert len(made.scripts) == 3
    assert made.comments == []
    assert not [tag for tag, _ in made.tags if tag == "img"]
    assert not [given for _, given in made.tags if any(name.startswith("on") for name in given)]
    assert made.text.count("<script>window.harmed = true</script>") > 20
    values = made.values["sections"][0]
    assert values["queries"][0]["text"].startswith("</script><!-- <script>")
    assert not re.search("[<>&\u2028\u2029]", made.scripts[0])
    assert not re.search("[\ud800-\udfff\u202a-\u202e\x00-\x08]", render_html(hostile).replace(made.scripts[1], ""))


def test_charts_hold_no_markup_of_strangers(hostile):
    """Plotly reads its texts as HTML: the one tag it may find is our own line break."""

    def texts(value: object) -> Iterator[str]:
        if isinstance(value, str):
            yield value
        for each in value if isinstance(value, list | tuple) else value.values() if isinstance(value, dict) else ():
            yield from texts(each)

    found = list(texts(Page(render_html(hostile)).values["charts"]))
    tags = {tag for text in found for tag in re.findall(r"<[^>]*>?", text)}
    assert {tag for tag in tags if not re.fullmatch("<(br|[a-z]+|c[0-7])>", tag)} == set()
    assert "<script>" not in tags
    assert safe("<c0>", 20) == "&lt;c0&gt;"
    assert safe("&lt;", 20) == "&amp;lt;"


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_text_comes_back_from_a_page_as_it_was(text):
    read = Page(f"<body>{written(el('p', text, title=text))}<script>{embedded([text])}</script></body>")
    assert json.loads(read.scripts[0]) == [text]
    visible = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u202a-\u202e\u2066-\u2069]", "\N{REPLACEMENT CHARACTER}", text)
    assert read.text.replace("\r\n", "\n").replace("\r", "\n") == visible.replace("\r\n", "\n").replace("\r", "\n")
    assert [tag for tag, _ in read.tags] == ["body", "p", "script"]


# -- Markdown ----------------------------------------------------------------------------------------------------------


def parsed(text: str):
    return MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).parse(text)


def test_markdown_has_the_table_sentences_warnings_and_variants(plausible):
    text = render_markdown(plausible)
    rows = [line for line in text.splitlines() if line.startswith("| hybrid rrf")]
    assert re.search(r"\*\*0\.\d{3}\*\* \(0\.\d{3} to 0\.\d{3}\) ▲ judged \d+%", rows[0])
    assert "| bm25 (baseline) |" in text
    assert "- hybrid rrf is better than bm25 by" in text
    assert "1 of 60 queries failed" in text
    assert "```toml\nname = " in text
    assert "| FAILS | handbook | fulltext |" in text
    assert "Tuning is worth it" in text


def test_hostile_texts_stay_texts_in_markdown(hostile):
    tokens = parsed(render_markdown(hostile))
    inner = [child for token in tokens for child in token.children or []]
    assert not {token.type for token in (*tokens, *inner)} & {
        "html_block", "html_inline", "link_open", "image", "em_open", "code_inline", "s_open",
    }  # fmt: skip
    rows = "".join(token.type[:2] for token in tokens if token.type in ("tr_open", "td_open", "th_open")).split("tr")
    assert {len(row) for row in rows[1:4]} == {2 * 6}, "a row of the table has six cells, whatever is in them"
    assert any("<script>window.harmed = true</script>" in child.content for child in inner)


@given(st.text(max_size=30).filter(str.strip))
def test_any_text_is_plain_in_a_cell_of_a_table(text):
    made = text_formats.table(["head", "other"], [[text_formats.escape_markdown(text) or "-", "last"]], "lr")
    tokens = parsed(made)
    cells = [token for at, token in enumerate(tokens) if tokens[at - 1].type == "td_open"]
    assert len(cells) == 2
    assert {child.type for child in cells[0].children} <= {"text", "text_special"}


@pytest.mark.parametrize("text", ["- item", "1. item", "+ item", "# head", "> quote", "=== ", "    code", "--- "])
def test_no_sentence_begins_a_block(text):
    assert [token.type for token in parsed(f"- {text_formats.escape_markdown(text)}")][2:5] == [
        "paragraph_open",
        "inline",
        "paragraph_close",
    ]


# -- LaTeX -------------------------------------------------------------------------------------------------------------


def test_latex_is_a_booktabs_table_with_the_top_group_bold(plausible):
    text = render_latex(plausible)
    assert set(re.findall(r"\\usepackage\{(\w+)\}", text)) == {"booktabs"}
    assert [text.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1, 1, 1]
    row = next(line for line in text.splitlines() if line.startswith("hybrid rrf"))
    assert re.search(r"\\textbf\{0\.\d{3}\}\$\^\{\\bigtriangleup\}\$ \{\\scriptsize \[0\.\d{3}, 0\.\d{3}\]\}", row)
    assert row.endswith(r" \\")
    bare = next(line for line in text.splitlines() if line.startswith("fulltext"))
    assert "textbf" not in bare


def test_hostile_texts_stay_texts_in_latex(hostile):
    text = render_latex(hostile)
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert body.count(r"\begin{") == body.count(r"\end{") == 2
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {len(re.findall(r"(?<!\\)&", row)) for row in rows} == {3}
    assert body.isascii()


@given(st.text(max_size=30))
def test_any_text_is_escaped_for_latex(text):
    made = text_formats.escape_latex(text)
    known = {*text_formats._LATEX_SPECIAL.values(), "{}"}
    rest = re.sub(r"\\texttt\{U\+[0-9A-F]+\}", "", made)
    for sign in sorted(known, key=len, reverse=True):
        rest = rest.replace(sign, "")
    assert not re.search(r"[\\{}$&#_%^~<>|\"\[\]*`]", rest)
    assert "--" not in made
    assert made.count("{") - made.count(r"\{") == made.count("}") - made.count(r"\}")
    assert not made.startswith(("[", "*"))


# -- documents ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_documents_are_read_for_what_is_shown(store, name):
    make(store, name)
    ingest(store, name, [Item("right", "The text of it.", "Title"), Item("unasked", "No.", "")])
    found = bridge.run(documents(store, fresh(store, name), board("good", "bare")))
    assert found == {"right": ItemText("right", "Title", "The text of it.")}
    shown = report([Part(board("good"), documents=found)]).sections[0].queries
    assert ("right", "Title") in shown.items
    assert (list(shown.items).index(("right", "Title")), "The text") in shown.passages
