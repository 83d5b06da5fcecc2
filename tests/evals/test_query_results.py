"""Parts of what was found become one: the later word on a query stands, remarks and notes are gathered."""

from __future__ import annotations

from evals.runs.rankings import Ranking
from evals.runs.types import QueryResults


def test_what_is_added_stands_where_both_say_something_and_beside_it_elsewhere() -> None:
    found = QueryResults(
        {"a": Ranking(["1"], [1.0])}, {"b": "lost"}, {"a": 1.0}, {"fuse": {"a": 1.0}}, ("one",), {"slow": ["a"]}
    )
    more = QueryResults(
        {"a": Ranking(["2"], [2.0]), "c": Ranking()},
        {"c": "refused"},
        {"a": 2.0},
        {"fuse": {"a": 2.0}, "rerank": {"c": 3.0}},
        ("one", "two"),
        {"slow": ["c"]},
        {"vector": {"c": "no model"}},
    )
    found.add(more)
    assert found.rankings == more.rankings
    assert found.failures == {"b": "lost", "c": "refused"}
    assert found.milliseconds == {"a": 2.0}
    assert found.stages == {"fuse": {"a": 2.0}, "rerank": {"c": 3.0}}
    assert found.notes == ("one", "two")
    assert found.remarks == {"slow": ["a", "c"]}
    assert found.unavailable == {"vector": {"c": "no model"}}


def test_what_was_added_stays_as_it_was() -> None:
    found, more = (
        QueryResults(),
        QueryResults(stages={"fuse": {"a": 1.0}}, remarks={"slow": ["a"]}, unavailable={"bm25": {"a": "gone"}}),
    )
    found.add(more)
    found.add(QueryResults(stages={"fuse": {"b": 2.0}}, remarks={"slow": ["b"]}, unavailable={"bm25": {"b": "gone"}}))
    assert (more.stages, more.remarks, more.unavailable) == (
        {"fuse": {"a": 1.0}},
        {"slow": ["a"]},
        {"bm25": {"a": "gone"}},
    )
