"""Two systems over the same queries, and all pairs of a suite: what is counted, grouped, corrected and kept."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from core.errors import InputError, UnknownName
from evals.statistics.comparison import all_pairs, compare, findings
from evals.statistics.verdicts import Finding, Rules, Verdict

QUICK = Rules(samples=1000)
IDS = [f"q{number:02d}" for number in range(40)]


def two(seed: int = 1, better: float = 0.15, queries: int = 40) -> np.ndarray:
    random = np.random.default_rng(seed)
    baseline = random.beta(2, 2, queries) * 0.7
    return np.stack([baseline + random.normal(better, 0.1, queries), baseline])


def test_a_comparison_holds_the_finding_and_each_querys_part_of_it():
    rows = two()
    seen = compare(("hybrid", "bm25"), rows, IDS, rules=QUICK)
    assert seen.finding.verdict == Verdict.BETTER
    assert seen.finding.difference.mean == pytest.approx((rows[0] - rows[1]).mean())
    assert [query.difference for query in seen.queries] == sorted((rows[0] - rows[1]).tolist(), reverse=True)
    assert {query.query: query.difference for query in seen.queries} == dict(zip(IDS, rows[0] - rows[1], strict=True))
    assert seen.wins + seen.ties + seen.losses == 40
    assert seen.wins == (rows[0] > rows[1]).sum()


def test_shown_bare_it_is_its_sentences():
    seen = compare(("hybrid", "bm25"), two(), IDS, groups={"kind": {"short": IDS[:20], "": IDS[20:]}}, rules=QUICK)
    first, short, unnamed = repr(seen).splitlines()
    assert first == seen.finding.sentence
    assert short == f"kind short: {seen.groups[0].finding.sentence}"
    assert unnamed.startswith("kind (none): hybrid is better than bm25")


def test_equal_differences_come_by_id():
    seen = compare(("a", "b"), np.zeros((2, 4)), ["d", "a", "c", "b"], rules=QUICK)
    assert [query.query for query in seen.queries] == ["a", "b", "c", "d"]
    assert seen.deciding == ()


def test_influence_is_what_the_mean_changes_by_without_the_query():
    rows, weights = two(2, queries=12), np.arange(1.0, 13.0)
    seen = compare(("a", "b"), rows, IDS[:12], weights, rules=QUICK, deciding=3)
    difference = rows[0] - rows[1]
    mean = np.average(difference, weights=weights)
    for query in seen.queries:
        others = np.array([each != query.query for each in IDS[:12]])
        assert query.influence == pytest.approx(mean - np.average(difference[others], weights=weights[others]))
    strongest = sorted(seen.queries, key=lambda query: -abs(query.influence))[:3]
    assert list(seen.deciding) == strongest


def test_ten_queries_decide_unless_asked_otherwise():
    assert len(compare(("a", "b"), two(), IDS, rules=QUICK).deciding) == 10


def test_groups_have_findings_of_their_own_looked_at_together():
    rows = two(3, better=0.0)
    rows[0, :20] += 0.2  # the first half is where it is better
    groups = {
        "kind": {"short": IDS[:20], "long": IDS[20:]},
        "tag": {"odd": IDS[1::2], "few": IDS[:2], "none": ["other"]},
    }
    seen = compare(("hybrid", "bm25"), rows, IDS, groups=groups, rules=QUICK)
    by = {(each.by, each.group): each.finding for each in seen.groups}
    assert list(by) == [("kind", "short"), ("kind", "long"), ("tag", "odd"), ("tag", "few"), ("tag", "none")]
    assert by["kind", "short"].verdict == Verdict.BETTER
    assert by["kind", "long"].verdict == Verdict.TOO_FEW
    assert by["kind", "short"].difference.mean == pytest.approx((rows[0] - rows[1])[:20].mean())
    assert by["tag", "few"].difference.queries == 2
    assert by["tag", "none"].sentence.startswith("Nothing tells hybrid from bm25")
    short = by["kind", "short"].difference
    assert short.among == 4  # one without a query is none


def test_many_tags_of_one_query_take_no_certainty_from_the_others():
    rows = two(4, better=0.04)
    alone = compare(("a", "b"), rows, IDS, groups={"kind": {"all": IDS}}, rules=QUICK)
    tags = {query: [query] for query in IDS}
    among = compare(("a", "b"), rows, IDS, groups={"kind": {"all": IDS}, "tag": tags}, rules=QUICK)
    assert among.groups[0] == alone.groups[0]


def test_an_id_listed_twice_in_a_group_counts_once():
    seen = compare(("a", "b"), two(), IDS, groups={"tag": {"x": [*IDS[:8], *IDS[:8]]}}, rules=QUICK)
    assert seen.groups[0].finding.difference.queries == 8


def test_weights_go_through_everything():
    random = np.random.default_rng(5)
    rows = random.random((2, 40))
    rows[0] = rows[1] + np.where(np.arange(40) < 10, 0.2, -0.05) + random.normal(0, 0.01, 40)
    weights = np.where(np.arange(40) < 10, 4.0, 1.0)
    weights[39] = 0
    groups = {"tag": {"mixed": [*IDS[5:15], IDS[39]]}}
    plain = compare(("a", "b"), rows, IDS, groups=groups, rules=QUICK)
    seen = compare(("a", "b"), rows, IDS, weights, groups=groups, rules=QUICK)
    assert plain.finding.verdict != Verdict.BETTER
    assert seen.finding.verdict == Verdict.BETTER
    assert seen.finding.difference.mean == pytest.approx(np.average(rows[0] - rows[1], weights=weights))
    assert seen.finding.difference.queries == len(seen.queries) == 39
    assert seen.finding.difference.effective == pytest.approx(69**2 / 189)
    own = slice(5, 15)
    mean = np.average((rows[0] - rows[1])[own], weights=weights[own])
    assert seen.groups[0].finding.difference.mean == pytest.approx(mean)


def test_a_group_whose_queries_all_weigh_nothing_is_an_empty_one():
    weights = np.r_[np.zeros(5), np.ones(35)]
    seen = compare(("a", "b"), two(), IDS, weights, groups={"tag": {"x": IDS[:5]}}, rules=QUICK)
    assert seen.groups[0].finding.difference.queries == 0


@pytest.mark.parametrize("queries", [0, 1, 2])
def test_with_hardly_any_query_there_is_a_comparison_and_it_says_too_few(queries):
    seen = compare(("a", "b"), two()[:, :queries], IDS[:queries], groups={"kind": {"": IDS}}, rules=QUICK)
    assert seen.finding.verdict == Verdict.TOO_FEW
    assert len(seen.queries) == queries
    pairs = all_pairs(["a", "b"], two()[:, :queries], rules=QUICK)
    assert pairs.of("a", "b").verdict == Verdict.TOO_FEW
    assert sorted(pairs.best()) == ["a", "b"]


def test_everything_is_plain_and_repeats():
    once, again = (compare(("a", "b"), two(), IDS, groups={"kind": {"x": IDS[:9]}}, rules=QUICK) for _ in range(2))
    assert once == again
    assert json.loads(json.dumps(dataclasses.asdict(once)))["finding"]["verdict"] == "better"


def suite(seed: int = 6, queries: int = 80) -> np.ndarray:
    random = np.random.default_rng(seed)
    easy = random.beta(2, 2, queries) * 0.6
    return np.stack([easy + random.normal(gain, 0.08, queries) for gain in (0.0, 0.2, 0.195, 0.1)])


NAMES = ["bm25", "hybrid", "hybrid 2", "vector"]


def test_all_pairs_are_judged_once_and_read_either_way():
    pairs = all_pairs(NAMES, suite(), rules=QUICK)
    assert pairs.of("hybrid", "bm25").difference.among == 6
    one, other = pairs.of("hybrid", "bm25"), pairs.of("bm25", "hybrid")
    assert (one.verdict, other.verdict) == (Verdict.BETTER, Verdict.WORSE)
    assert one.sentence.startswith("hybrid is better than bm25 by 0.")
    assert other.sentence.startswith("bm25 is worse than hybrid by 0.")
    assert one.difference == other.difference.flipped()


def test_against_a_baseline_each_is_looked_at_among_all_the_others():
    scores, weights = suite(), np.linspace(1, 2, 80)
    names = [(name, "bm25") for name in NAMES[1:]]
    together = findings(names, scores[1:] - scores[0], weights, rules=QUICK)
    (alone,) = findings(names[:1], scores[1:2] - scores[0], weights, rules=QUICK)
    assert [each.difference.among for each in together] == [3, 3, 3]
    assert together[0].difference.mean == pytest.approx(np.average(scores[1] - scores[0], weights=weights))
    assert width(together[0]) > width(alone)
    assert together[0].difference.p >= alone.difference.p


def width(finding: Finding) -> float:
    assert finding.difference.low is not None
    assert finding.difference.high is not None
    return finding.difference.high - finding.difference.low


def test_a_verdict_beside_the_baseline_is_never_against_a_star():
    pairs = all_pairs(NAMES, suite(), rules=QUICK)
    assert sorted(pairs.best({("hybrid", "hybrid 2")})) == ["hybrid"]
    assert sorted(pairs.best({("hybrid 2", "bm25")})) == ["hybrid", "hybrid 2"]


def test_the_best_group_holds_what_cannot_be_told_from_the_best():
    assert sorted(all_pairs(NAMES, suite(), rules=QUICK).best()) == ["hybrid", "hybrid 2"]


def test_one_system_alone_has_no_pairs_and_is_the_best():
    assert all_pairs(["only"], suite()[:1], rules=QUICK).best() == ("only",)
    assert all_pairs([], np.empty((0, 5)), rules=QUICK).best() == ()


def test_a_large_suite_can_still_find_something():
    """435 pairs at once."""
    scores = np.random.default_rng(7).normal(0.5, 0.05, (30, 20))
    scores[7] += 0.4
    pairs = all_pairs([f"v{row:02d}" for row in range(30)], scores, rules=QUICK)
    assert pairs.best() == ("v07",)
    assert pairs.of("v07", "v00").difference.p < 0.05


def test_detectable_differences_allow_for_how_many_are_looked_at():
    alone = all_pairs(NAMES[:2], suite()[:2], rules=QUICK).of("bm25", "hybrid").difference.detectable
    among = all_pairs(NAMES, suite(), rules=QUICK).of("bm25", "hybrid").difference.detectable
    assert alone is not None
    assert among is not None
    assert among > alone


def test_mistakes_are_said_in_sentences():
    scores = suite()
    with pytest.raises(InputError, match="a name of its own; these are: a, a"):
        compare(("a", "a"), scores[:2], IDS)
    with pytest.raises(InputError, match="one row of scores for each of 2 systems"):
        compare(("a", "b"), scores, IDS)
    with pytest.raises(InputError, match="3 query ids, 2 of them distinct, for 80 scores"):
        compare(("a", "b"), scores[:2], ["x", "x", "y"])
    scores[2, 5] = np.nan
    with pytest.raises(InputError, match="the first in row 2 at query 5"):
        all_pairs(NAMES, scores)
    pairs = all_pairs(NAMES, suite(), rules=QUICK)
    with pytest.raises(UnknownName, match="Did you mean 'hybrid'"):
        pairs.of("hybird", "bm25")
    with pytest.raises(InputError, match="cannot be compared with itself"):
        pairs.of("bm25", "bm25")
