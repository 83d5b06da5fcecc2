"""Who has which colour and mark: it hangs on the names in view, and on nothing else."""

from __future__ import annotations

from itertools import permutations
from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from core.legs import leg_descriptions
from evals.presentation import html, palette
from evals.presentation.charts import digest_of, restyled
from evals.presentation.types import Output, ResultColumn, SearchResults
from tests.effort import examples

LEGS = list(leg_descriptions())
NAMES = ["bm25", "mine", "theirs", "hybrid"]


def test_no_order_of_names_changes_a_colour():
    every = [palette.styles(names) for names in permutations(NAMES)]
    assert all(each == every[0] for each in every)


@examples(50)
@given(some.sets(some.text(max_size=5), max_size=43))
def test_no_two_names_look_alike_and_a_leg_keeps_its_own(names):
    found = palette.styles([*names, *LEGS])
    looks = {(palette.colour(style), palette.shape(style)) for style in found.values()}
    assert len(looks) == len(found)
    assert [found[leg] for leg in LEGS] == list(range(len(LEGS)))


def test_a_few_variants_have_colours_that_no_leg_has():
    found = palette.styles(["mine", "theirs", "hybrid"])
    assert sorted(found.values()) == [len(LEGS) + place for place in range(3)]


def test_a_chart_is_drawn_again_in_the_colours_of_what_surrounds_it():
    trace: dict[str, Any] = {
        "meta": {"variant": digest_of("mine")},
        "marker": {"color": "<c0>", "symbol": "circle", "size": 10},
        "error_x": {"color": "<c0>", "width": 4},
    }
    other = {"meta": "front", "marker": {"color": "<c1>"}}
    made = restyled({"data": [trace, other], "layout": {}}, {"mine": 7})
    look = {"color": "<c7>", "symbol": palette.shape(7)}
    assert made["data"] == [
        {**trace, "marker": {**look, "size": 10}, "error_x": {"color": "<c7>", "width": 4}},
        other,
    ]


def test_a_variant_has_the_same_colour_in_every_cell_of_a_notebook():
    first, then = (SearchResults(query="q", columns=(_column("mine"), _column(other))) for other in ("bm25", "hybrid"))
    scored = Output(blocks=(), values={"names": ["theirs", "mine"], "baseline": "theirs"})
    styles = palette.styles_of([Output(blocks=(first,)), None, Output(blocks=(then,)), scored])
    assert set(styles) == {"bm25", "hybrid", "mine", "theirs"}
    classes = [
        [section.get("class") for section in html.search_results(block, styles).iter("section")]
        for block in (first, then)
    ]
    assert classes[0][0] == classes[1][0] == f"ranked {palette.colour(styles['mine'])}"


def _column(name: str) -> ResultColumn:
    return ResultColumn(name=name, milliseconds=1.0, hits=())
