"""The outputs of evaluate and compare cells on the page, made of real runs; and what any output can be drawn with."""

from __future__ import annotations

import tomllib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import streamlit as st
from hypothesis import given, strategies
from streamlit.testing.v1 import AppTest

from core import bridge
from core.legs import leg_descriptions
from core.store.engine import Store
from evals.display import Table, TableCell
from evals.presentation import palette
from evals.presentation.types import Block, Chart, Code, Output, ResultColumn, ResultHit, SearchResults, Text
from tests.app.corpus import MARKUP, SCRIPT
from tests.app.test_search_page import handed, visit, written
from workbench import session
from workbench.components import blocks, comparison
from workbench.components.comparison import ComparisonSelection
from workbench.components.table import RichCell
from workbench.notebooks.cells.search import SearchCell
from workbench.notebooks.document import Notebook
from workbench.notebooks.runner import Runner
from workbench.screens.notebook.cell_views import VIEWS, CellView, base, compare, evaluate

HEADER = '```notebook\ncollection = "kettles"\nsplit = "test"\n```\n\n'
EVALUATE = '```evaluate it\nvariants = ["bm25", "vector", "fulltext"]\nmetrics = ["recall@100", "ndcg@10"]\n```\n'
COMPARE = '```compare it\none = "bm25"\nother = "vector"\n```\n'
HOSTILE = '```notebook\ncollection = "hostile"\n```\n\n'
Asked = dict[str, str]


def view(text: str, folder: str, plain: bool) -> None:
    from tests.app.test_outputs_scores import play

    play(text, folder, plain=plain)


def play(text: str, folder: str, *, plain: bool) -> None:
    """The only cell as the notebook page draws it. `press` stands for whichever button of a component `what` says."""
    runner = Runner(session.store(), Notebook.parse(text), path=Path(folder) / "book.md", key="scores")
    (result,) = bridge.run(runner.run())
    assert result.output is not None, result.problem
    assert result.spec is not None
    output = Output(blocks=result.output.blocks) if plain else result.output
    shown = CellView(
        result.cell,
        result.spec,
        output,
        runner.context,
        (),
        change=lambda options: st.session_state.update(changed=options),
        add=lambda kind, source: st.session_state.update(added=(kind, source)),
    )
    VIEWS[result.cell.kind](shown)
    st.button("press", key="press", on_click=pressed, args=(shown,))


def pressed(shown: CellView) -> None:
    what = st.session_state["what"]
    if shown.cell.kind == "evaluate":
        evaluate.follow(shown, evaluate.look_of(shown), what)
    else:
        compare.follow(shown, compare.look_of(shown), what)


def page(text: str, folder: Path = Path(), *, plain: bool = False, **address: str) -> AppTest:
    made = AppTest.from_function(view, args=(text, str(folder), plain), default_timeout=60)
    return visit(made, **({"cell": "it", **address} if address else {}))


def press(app: AppTest, **what: str) -> AppTest:
    app.session_state["what"] = what
    app.button(key="press").click().run()
    assert not app.exception
    return app


def table(app: AppTest, name: str) -> dict[str, Any]:
    found = handed(app, f"cell.it.{name}")
    return {**found, "heads": found["columns"], "rows": [row["cells"] for row in found["rows"]]}


def texts(found: dict[str, Any], column: int = 0) -> list[str]:
    return [row[column]["text"] for row in found["rows"]]


def is_drawn(app: AppTest, name: str) -> bool:
    return f"cell.it.{name}" in [element.key for element in app.get("bidi_component")]


def pressable(found: dict[str, Any]) -> list[Asked]:
    """What the buttons of a table stand for."""
    cells = [*found["heads"], *(cell for row in found["rows"] for cell in row)]
    return [cell["action"] for cell in cells if "action" in cell]


# -- evaluate ----------------------------------------------------------------------------------------------------------


def test_metrics_stand_in_the_order_of_the_cell_though_the_database_keeps_none(store: Store):
    for _ in range(2):  # the second is read from what the first kept
        assert [head["text"] for head in table(page(HEADER + EVALUATE), "scores")["heads"][:3]] == [
            "variant",
            "recall@100",
            "ndcg@10",
        ]


def test_a_row_tells_score_interval_verdict_judged_and_time(store: Store):
    found = table(page(HEADER + EVALUATE, metric="ndcg@10"), "scores")
    rows = {row[0]["text"]: row for row in found["rows"]}
    assert set(rows) == {"bm25", "vector", "fulltext"}
    score = rows["vector"][2]
    assert 0 <= float(score["text"]) <= 1
    assert score["beside"].startswith("[")
    assert score["sign"] == "?"
    assert "bm25" in score["hint"]
    assert rows["vector"][3]["text"].endswith("%")
    assert (rows["vector"][4]["text"], rows["vector"][4]["hint"]) == ("-", "No query was timed alone: set time_live.")
    assert any(note.startswith("* the best, or too close to the best to tell.") for note in found["notes"])


def test_all_that_are_too_close_to_the_best_are_marked_and_not_the_highest_number_alone(store: Store):
    rows = table(page(HEADER + EVALUATE), "scores")["rows"]
    assert [row[2]["strong"] for row in rows] == [True, True, True]  # two queries tell nothing apart


def test_a_lone_variant_is_neither_compared_nor_marked(store: Store):
    app = page(HEADER + '```evaluate it\nvariants = ["bm25"]\n```\n')
    found = table(app, "scores")
    assert "compared with" not in [head["text"] for head in found["heads"]]
    assert not any(cell["strong"] for row in found["rows"] for cell in row)
    assert not any("baseline" in each for each in pressable(found))


def test_choosing_another_baseline_changes_the_cell_and_the_same_one_does_not(store: Store):
    app = page(HEADER + EVALUATE)
    assert {"baseline": "vector"} in pressable(table(app, "scores"))
    press(app, baseline="bm25")
    assert "changed" not in app.session_state
    press(app, baseline="vector")
    assert app.session_state["changed"] == {"baseline": "vector"}


def test_choosing_a_metric_writes_it_to_the_address_and_moves_everything_to_it(store: Store):
    app = press(page(HEADER + EVALUATE), metric="ndcg@10")
    assert (app.query_params["cell"], app.query_params["metric"]) == ("it", "ndcg@10")
    assert table(app, "kinds")["label"] == "ndcg@10 by kind of query"
    assert [head["on"] for head in table(app, "scores")["heads"] if "on" in head] == [False, True]


def test_a_metric_or_variant_that_is_not_there_is_passed_over(store: Store):
    app = page(HEADER + EVALUATE, metric="map", variant="nobody")
    assert table(app, "kinds")["label"].startswith("recall@100")
    assert not is_drawn(app, "queries")


def test_before_anything_is_chosen_the_page_says_what_can_be(store: Store):
    app = page(HEADER + EVALUATE)
    assert not is_drawn(app, "queries")
    assert evaluate.INVITATION in written(app)


def test_a_variant_shows_its_queries_with_everybodys_scores_and_once_more_hides_them(store: Store):
    app = press(page(HEADER + EVALUATE), variant="vector")
    assert app.query_params["variant"] == "vector"
    found = table(app, "queries")
    assert set(texts(found)) == {"remove scale from the kettle", "E-42"}
    assert len(found["rows"][0]) == 5  # the query, three variants, the difference
    press(app, variant="vector")
    assert not is_drawn(app, "queries")


def test_a_cell_of_the_heatmap_shows_the_queries_of_that_kind(store: Store):
    app = page(HEADER + EVALUATE)
    asked = {"variant": "fulltext", "group": "kind:identifier"}
    assert asked in pressable(table(app, "kinds"))
    press(app, **asked)
    assert texts(table(app, "queries")) == ["E-42"]
    assert app.selectbox(key="cell.it.kind").value == "kind:identifier"
    app.selectbox(key="cell.it.kind").select("").run()
    assert len(table(app, "queries")["rows"]) == 2


def test_queries_stand_by_score_by_difference_or_by_how_divided_they_are(store: Store):
    app = page(HEADER + EVALUATE, variant="vector", metric="ndcg@10")
    for order in ("worst", "behind", "ahead"):
        app.selectbox(key="cell.it.order").select(order).run()
        found = table(app, "queries")
        at = [head["text"] for head in found["heads"]].index("vector" if order == "worst" else "difference")
        values = [float(text) for text in texts(found, at)]
        assert values == sorted(values, reverse=order == "ahead")
    assert list(app.selectbox(key="cell.it.order").options)[-1] == "Variants most divided"


def test_an_order_that_the_next_variant_lacks_gives_way(store: Store):
    app = page(HEADER + EVALUATE, variant="vector")
    app.selectbox(key="cell.it.order").select("behind").run()
    press(app, variant="bm25")  # the baseline is not behind itself
    assert app.selectbox(key="cell.it.order").value == "worst"


def test_a_query_leads_to_a_search_by_the_cells_variants(store: Store):
    app = page(HEADER + EVALUATE, variant="vector")
    assert {"query": "q2"} in pressable(table(app, "queries"))
    press(app, query="q2")
    kind, source = app.session_state["added"]
    made = SearchCell.model_validate(tomllib.loads(source))
    assert (kind, made.query_id, made.variants) == ("search", "q2", ("bm25", "vector", "fulltext"))


def test_a_run_of_another_engine_is_scored_as_an_equal_and_not_searched_with(store: Store, tmp_path: Path):
    (tmp_path / "theirs.trec").write_text("q1 Q0 descale 1 2.0 theirs\nq2 Q0 e42 1 1.0 theirs\n")
    cell = '```evaluate it\nvariants = ["bm25"]\nruns = ["theirs.trec"]\n```\n'
    app = page(HEADER + cell, tmp_path, variant="theirs")
    rows = {row[0]["text"]: row for row in table(app, "scores")["rows"]}
    assert rows["theirs"][5]["text"] == "-"  # nobody looked at a clock
    press(app, query="q1")
    assert tomllib.loads(app.session_state["added"][1])["variants"] == ["bm25"]


def test_an_output_that_an_older_version_kept_is_drawn_block_by_block(store: Store):
    for text in (EVALUATE, COMPARE):
        app = page(HEADER + text, plain=True)
        assert "bm25" in written(app)
        assert not app.get("bidi_component")


# -- compare -----------------------------------------------------------------------------------------------------------


def test_a_comparison_says_its_verdict_and_who_won_how_often(store: Store):
    app = page(HEADER + COMPARE)
    assert "ndcg@10: Too few queries to tell bm25 from vector" in written(app)
    outcomes = written(app).partition("rb-outcomes")[2]
    assert "for bm25" in outcomes
    assert "for vector" in outcomes
    assert len(app.get("plotly_chart")) == 2


def test_the_queries_that_decide_each_lead_to_a_search_and_to_their_documents(store: Store):
    app = page(HEADER + COMPARE)
    found = table(app, "queries")
    assert set(texts(found)) == {"remove scale from the kettle", "E-42"}
    assert {"query": "q1"} in pressable(found)
    assert {"moves": "q1"} in pressable(found)
    press(app, query="q1")
    made = SearchCell.model_validate(tomllib.loads(app.session_state["added"][1]))
    assert (made.query_id, made.variants) == ("q1", ("vector", "bm25"))


def test_how_documents_moved_is_told_with_the_relevant_ones_first(store: Store):
    app = press(page(HEADER + COMPARE), moves="q1")
    assert app.query_params["query"] == "q1"
    found = table(app, "moves")
    assert texts(found)[:2] == ["Descale the kettle", "Warranty"]
    assert [row[1]["text"] for row in found["rows"]][:2] == ["grade 3", "grade 1"]
    assert found["rows"][0][1]["tone"] == "best"
    assert {row[1]["text"] for row in found["rows"][2:]} <= {"judged 0", "unjudged"}
    assert "remove scale from the kettle" in written(app)


def test_where_relevant_documents_stand_is_told_without_a_page_too(store: Store):
    runner = Runner(store, Notebook.parse(HEADER + COMPARE), key="scores")
    (result,) = bridge.run(runner.run())
    assert result.output is not None
    stood = [block for block in result.output.blocks if isinstance(block, Table)][-1]
    assert stood.columns[2:] == ("grade", "rank in bm25", "rank in vector")
    assert {"Descale the kettle", "Warranty"} <= {row[1].text for row in stood.rows}
    assert "The teapot" not in {row[1].text for row in stood.rows}  # judged, and not relevant


def test_a_link_opens_the_queries_of_a_kind_in_their_order(store: Store):
    app = page(HEADER + EVALUATE, variant="vector")
    app.selectbox(key="cell.it.kind").select("kind:identifier").run()
    app.selectbox(key="cell.it.order").select("divided").run()
    link = dict(app.query_params)
    assert (link["kind"], link["order"]) == ("kind:identifier", "divided")
    opened = page(HEADER + EVALUATE, **link)
    assert [opened.selectbox(key=f"cell.it.{each}").value for each in ("kind", "order")] == [
        "kind:identifier",
        "divided",
    ]
    opened.selectbox(key="cell.it.order").select("worst").run()
    assert "order" not in opened.query_params


@pytest.mark.parametrize(
    ("ranks", "said", "tone"),
    [
        ({"one": 1, "other": 4}, "↑ 3", "win"),
        ({"one": 4, "other": 1}, "↓ 3", "loss"),
        ({"one": 2, "other": 2}, "=", "faint"),
        ({"one": None, "other": 2}, "gone", "loss"),
        ({"one": 2, "other": None}, "new", "win"),
        ({"one": None, "other": None}, "-", "faint"),
    ],
)
def test_a_move_is_a_gain_or_a_loss_where_the_document_is_relevant(ranks, said, tone):
    def moved(grade: int) -> dict[str, Any]:
        rows = {"q": [{"item": "a", "title": "", "grade": grade, **ranks}]}
        values = {"system": "one", "baseline": "other", "moved": rows}
        cell = comparison.moves(ComparisonSelection(values, {"one": 0, "other": 1}), "q").rows[0].cells[-1]
        assert isinstance(cell, RichCell)
        return cell.data()

    assert (moved(2)["text"], moved(2)["tone"]) == (said, tone)
    assert moved(0)["tone"] == "faint"


def test_the_kinds_of_a_comparison_choose_its_queries(store: Store):
    app = page(HEADER + COMPARE)
    assert set(texts(table(app, "kinds"))) == {"identifier", "question"}
    press(app, group="kind:question")
    assert texts(table(app, "queries")) == ["remove scale from the kettle"]
    press(app, group="kind:question")
    assert len(table(app, "queries")["rows"]) == 2


def test_two_runs_of_other_engines_are_compared_and_searched_for_by_what_there_is(store: Store, tmp_path: Path):
    (tmp_path / "one.trec").write_text("q1 Q0 descale 1 2.0 one\nq2 Q0 e42 1 1.0 one\n")
    (tmp_path / "two.trec").write_text("q1 Q0 teapot 1 2.0 two\nq2 Q0 e42 1 1.0 two\n")
    app = page(HEADER + '```compare it\none = "one.trec"\nother = "two.trec"\n```\n', tmp_path)
    assert table(app, "queries")["rows"][0][3]["text"].startswith("+")
    moves = {row[0]["text"]: (row[2]["text"], row[3]["text"]) for row in table(app, "moves")["rows"]}
    assert moves["Descale the kettle"] == ("not found", "1")
    press(app, query="q1")
    assert tomllib.loads(app.session_state["added"][1])["variants"] == ["bm25"]


# -- strangers' texts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "cell",
    ['```evaluate it\nvariants = ["bm25", "vector"]\n```\n', '```compare it\none = "bm25"\nother = "vector"\n```\n'],
)
def test_what_a_corpus_says_is_handed_to_tables_as_it_is_and_never_written_as_markup(store: Store, cell):
    app = page(HOSTILE + cell, variant="bm25", query="q")
    assert texts(table(app, "queries"))[0].startswith(f"trap {SCRIPT}")
    assert not Elements(written(app)).names & {"script", "img", "u"}
    assert not app.get("markdown")


def harmful() -> list[Block]:
    trap = f"{SCRIPT} {MARKUP} </style></div> \u202e back"
    hit = ResultHit(rank=1, id=trap, item_id=trap, title=trap, place=trap, score=1.0, snippet=((trap, True),), grade=1)
    column = ResultColumn(name=trap, milliseconds=1.0, hits=(hit,), notes=(trap,))
    return [
        Text(text=trap),
        Table(title=trap, columns=(trap,), rows=(({"text": trap, "beside": trap, "hint": '"><b>'},),), notes=(trap,)),
        Chart(title=trap, description=trap, figure={"data": [{"type": "bar", "y": [1]}]}, width=500),
        SearchResults(query=trap, query_id="q", columns=(column, column)),
        Code(title=trap, language="sql", text=f"select 1 -- {trap}\n" * 30),
    ]


def draw_harmful() -> None:
    from tests.app.test_outputs_scores import harmful
    from workbench.components import blocks

    blocks.draw_all(harmful(), "block")


class Elements(HTMLParser):
    """What a browser would make elements of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.attributes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_every_form_of_output_shows_texts_as_texts():
    app = visit(AppTest.from_function(draw_harmful))
    made = Elements(written(app))
    assert not made.names & {"script", "img", "a"}
    assert not {name for name in made.attributes if name.startswith("on")}
    assert "\u202e" not in written(app)
    assert "&lt;script&gt;" in written(app)
    assert not app.get("markdown")
    assert app.code[0].value.startswith("select 1")


def test_a_chart_of_nothing_says_so():
    empty = Chart(description="Nothing", figure={"data": [], "layout": {}})
    app = visit(AppTest.from_function(draw_block, args=(Output(blocks=(empty,)).model_dump_json(),)))
    assert "nothing to draw" in written(app)


def test_a_table_marks_what_is_strong_and_aligns_numbers():
    row = (TableCell(text="a", strong=True), TableCell(text="0.5"))
    made = Table(columns=("name", "score"), rows=(row,), numeric=("score",))
    app = visit(AppTest.from_function(draw_block, args=(Output(blocks=(made,)).model_dump_json(),)))
    assert '<td class="number">0.5</td>' in written(app)
    assert "<b>a</b> *" in written(app)
    assert "<caption>" not in written(app)


def draw_block(given: str) -> None:
    from evals.presentation.types import Output
    from workbench.components import blocks

    blocks.draw_all(Output.model_validate_json(given).blocks, "block")


# -- colours and sources -----------------------------------------------------------------------------------------------


def test_names_of_colours_become_the_light_or_the_dark_one():
    figure = {"data": [{"marker": {"color": ["<c0>", "<win>"]}, "text": "<nothing>"}], "layout": {"x": ("<text>", 3)}}
    light, dark = (blocks.coloured(figure, dark=dark) for dark in (False, True))
    assert light["data"][0]["marker"]["color"] == [palette.STYLES[0][0], palette.PAGE["win"][0]]
    assert dark["data"][0]["marker"]["color"] == [palette.STYLES[0][1], palette.PAGE["win"][1]]
    assert light["data"][0]["text"] == "<nothing>"
    assert dark["layout"]["x"] == [palette.PAGE["text"][1], 3]


def test_a_leg_has_the_colour_that_it_has_everywhere():
    legs = list(leg_descriptions())
    assert palette.styles(["mine", *legs]) == {**{leg: at for at, leg in enumerate(legs)}, "mine": 6}


def draw_colours() -> None:
    import streamlit as st

    from evals.presentation import palette
    from workbench.components import theme

    theme.in_view(palette.styles(["bm25", "hybrid", "other", "third"]))
    st.session_state["first"] = theme.styles(["hybrid", "bm25"])
    st.session_state["then"] = theme.styles(["other", "bm25", "hybrid"])
    st.session_state["new"] = theme.styles(["fourth", "hybrid"])


def test_a_variant_keeps_its_colour_from_cell_to_cell():
    app = visit(AppTest.from_function(draw_colours))
    first, then = app.session_state["first"], app.session_state["then"]
    assert then["hybrid"] == first["hybrid"]
    assert then["bm25"] == first["bm25"]
    assert len(set(then.values())) == 3
    assert len(set(app.session_state["new"].values())) == 2


words = strategies.text(strategies.characters(codec="utf-8", exclude_characters="\0"), min_size=1)
plain = strategies.recursive(
    words | strategies.integers(-(2**60), 2**60) | strategies.booleans(),
    lambda inner: strategies.lists(inner, max_size=3) | strategies.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)


@given(
    words,
    strategies.lists(words | strategies.dictionaries(words, plain, min_size=1, max_size=4), min_size=1, max_size=4),
)
def test_the_source_of_a_search_is_read_back_as_it_was_meant(query, variants):
    spec = SearchCell(query="x", collection="kettles", split="all")
    read = tomllib.loads(base.source(spec, query, variants))
    assert read == {"collection": "kettles", "split": "all", "query_id": query, "variants": variants}


def test_as_many_variants_are_searched_with_as_fit_side_by_side():
    names = ["a", "b", "c", "d", "e", "f"]
    assert base.first_columns(names, ["f", "b", "foreign", "c", "a", "d"]) == [0, 1, 2, 5]
