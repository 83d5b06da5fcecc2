"""Grids over a variant's fields."""

from __future__ import annotations

import pytest

from core.errors import SpecError, UnknownName
from core.fusion import BordaFusion, LinearFusion, RrfFusion
from core.rerank.base import OverlapReranker
from core.variant import Variant
from evals.suites.suite import varied

BASE = Variant.from_data({"name": "hybrid", "leg": [{"kind": "vector"}, {"kind": "bm25", "weight": 0.5}]})


def test_every_combination_once_the_last_field_changing_quickest():
    made = varied(BASE, {"top_k": [5, 10], "leg.bm25.k1": [0.9, 1.2, 2.0]})
    assert [(each.top_k, each.to_data()["leg"][1].get("k1", 1.2)) for each in made] == [
        (k, k1) for k in (5, 10) for k1 in (0.9, 1.2, 2.0)
    ]
    assert made[0].name == "hybrid, top_k=5, bm25.k1=0.9"
    assert {each.legs[1].weight for each in made} == {0.5}


def test_an_option_within_a_default_keeps_its_siblings():
    made = varied(BASE, {"fusion.k": [10, 60]})
    assert [each.model_dump()["fusion"]["k"] for each in made] == [10, 60]
    assert made[1].id == BASE.id


def test_a_whole_table_can_be_a_value():
    methods = varied(BASE, {"fusion": [{"method": "rrf"}, {"method": "linear", "normalize": "zscore"}]})
    assert [type(each.fusion).__name__ for each in methods] == ["RrfFusion", "LinearFusion"]


def test_another_method_begins_with_its_own_defaults_and_the_bases_keeps_its_options():
    base = BASE.but(fusion=RrfFusion(k=10))
    made = varied(base, {"fusion.method": ["rrf", "linear", "borda"]})
    assert [each.fusion for each in made] == [RrfFusion(k=10), LinearFusion(), BordaFusion()]
    assert [each.name for each in made] == [f"hybrid, fusion.method={each}" for each in ("rrf", "linear", "borda")]
    assert made[0].id == base.id


def test_a_stage_that_the_base_has_not_got_comes_with_its_method():
    made = varied(BASE, {"rerank.depth": [5, 10], "rerank.method": ["overlap"]})
    assert [each.rerank for each in made] == [OverlapReranker(depth=5), OverlapReranker(depth=10)]


def test_options_are_varied_for_the_methods_that_have_them_alone():
    made = varied(BASE, {"fusion.k": [10, 60], "fusion.method": ["rrf", "linear"], "fusion.normalize": ["none"]})
    assert [each.name.removeprefix("hybrid, ") for each in made] == [
        "fusion.k=10, fusion.method=rrf",
        "fusion.method=linear, fusion.normalize=none",
        "fusion.k=60, fusion.method=rrf",
    ]
    assert len({each.id for each in made}) == 3


def test_no_field_is_the_base_alone():
    assert varied(BASE, {}) == [BASE]


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({"leg.vectr.depth": [1]}, UnknownName, "'vector'"),
        ({"leg.vector": [1]}, SpecError, "leg.<name>.<option>"),
        ({"rerank.depth": [1]}, SpecError, "does not have"),
        ({"top_k.deep": [1]}, SpecError, "top_k"),
        ({"topk": [1]}, UnknownName, "'top_k'"),
        ({"fusion.kk": [1]}, UnknownName, "'k'"),
        ({"fusion.kk": [1], "fusion.method": ["rrf", "linear"]}, UnknownName, "'k'"),
        ({"fusion.method": ["rrf", "liner"]}, UnknownName, "'linear'"),
        ({"rerank.method": ["overlapp"]}, UnknownName, "'overlap'"),
        ({"top_k": []}, SpecError, "list of values"),
        ({"top_k": "10"}, SpecError, "list of values"),
        ({"top_k": range(1, 200), "overfetch": range(1, 100)}, SpecError, "19,701"),
    ],
)
def test_what_cannot_be_varied_is_refused_with_the_way_out(fields, error, says):
    with pytest.raises(error, match=says.replace("<", "<")):
        varied(BASE, fields)
