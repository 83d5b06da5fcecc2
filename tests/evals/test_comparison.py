"""Two systems over the same queries, and all pairs of a suite: what is counted, grouped, corrected and kept."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

from core.errors import InputError, SpecError, UnknownName
from evals.statistics.bootstrap import intervals
from evals.statistics.comparison import all_pairs, compare
from evals.statistics.significance import permutation
from evals.statistics.verdicts import Rules, Verdict

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


def test_groups_have_findings_of_their_own_corrected_for_each_other():
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
    assert short.among == 3  # no test could find anything with 2 queries or with none
    assert short.corrected == pytest.approx(3 * short.p)


def test_many_tags_of_a_query_or_two_take_no_certainty_from_the_others():
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
    weights = np.where(np.arange(40) < 10, 10.0, 1.0)
    weights[39] = 0
    groups = {"tag": {"mixed": [*IDS[5:15], IDS[39]]}}
    plain = compare(("a", "b"), rows, IDS, groups=groups, rules=QUICK)
    seen = compare(("a", "b"), rows, IDS, weights, groups=groups, rules=QUICK)
    assert plain.finding.verdict != Verdict.BETTER
    assert seen.finding.verdict == Verdict.BETTER
    assert seen.finding.difference.mean == pytest.approx(np.average(rows[0] - rows[1], weights=weights))
    assert seen.finding.difference.queries == len(seen.queries) == 39
    assert seen.finding.difference.effective < 20
    own = slice(5, 15)
    mean = np.average((rows[0] - rows[1])[own], weights=weights[own])
    assert seen.groups[0].finding.difference.mean == pytest.approx(mean)


def test_a_group_whose_queries_all_weigh_nothing_is_an_empty_one():
    weights = np.r_[np.zeros(5), np.ones(35)]
    seen = compare(("a", "b"), two(), IDS, weights, groups={"tag": {"x": IDS[:5]}}, rules=QUICK)
    assert seen.groups[0].finding.difference.queries == 0


def test_wilcoxon_can_be_asked_for_and_says_no_to_weights():
    rules = Rules(test="wilcoxon", samples=500)
    assert compare(("a", "b"), two(), IDS, rules=rules).finding.verdict == Verdict.BETTER
    with pytest.raises(SpecError, match="permutation test"):
        compare(("a", "b"), two(), IDS, np.arange(1, 41), rules=rules)


@pytest.mark.parametrize("queries", [0, 1, 2])
def test_with_hardly_any_query_there_is_a_comparison_and_it_says_too_few(queries):
    seen = compare(("a", "b"), two()[:, :queries], IDS[:queries], groups={"kind": {"": IDS}}, rules=QUICK)
    assert seen.finding.verdict == Verdict.TOO_FEW
    assert len(seen.queries) == queries
    pairs = all_pairs(["a", "b"], two()[:, :queries], rules=QUICK)
    assert pairs.findings[0].verdict == Verdict.TOO_FEW
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
    assert len(pairs.findings) == 6
    one, other = pairs.of("hybrid", "bm25"), pairs.of("bm25", "hybrid")
    assert (one.verdict, other.verdict) == (Verdict.BETTER, Verdict.WORSE)
    assert one.sentence.startswith("hybrid is better than bm25 by 0.")
    assert other.sentence.startswith("bm25 is worse than hybrid by 0.")
    assert one.difference == other.difference.flipped()


def test_matrices_agree_with_the_pairs_and_with_each_other():
    pairs = all_pairs(NAMES, suite(), rules=QUICK)
    difference, p, corrected = (pairs.matrix(what) for what in ("mean", "p", "corrected"))
    off = ~np.eye(4, dtype=bool)
    assert np.isnan(np.diag(difference)).all()
    assert difference[off] == pytest.approx(-difference.T[off])
    assert (p[off] == p.T[off]).all()
    assert (corrected[off] >= p[off]).all()
    assert pairs.matrix("low")[off] == pytest.approx(-pairs.matrix("high").T[off])
    verdicts = pairs.verdicts()
    for row, system in enumerate(NAMES):
        for column, baseline in enumerate(NAMES):
            if row == column:
                assert verdicts[row][column] is None
                continue
            finding = pairs.of(system, baseline)
            assert difference[row, column] == finding.difference.mean
            assert verdicts[row][column] == finding.verdict


def test_the_numbers_are_those_of_the_statistics_themselves():
    scores, weights = suite(), np.linspace(1, 2, 80)
    pairs = all_pairs(NAMES, scores, weights, rules=QUICK)
    low, high = intervals(scores - scores[0], weights, samples=1000)
    assert pairs.matrix("low")[1:, 0] == pytest.approx(low[1:])
    assert pairs.matrix("high")[1:, 0] == pytest.approx(high[1:])
    assert pairs.matrix("p")[1:, 0] == pytest.approx(permutation(scores[1:] - scores[0], weights, samples=1000))


def test_the_best_group_holds_what_cannot_be_told_from_the_best():
    assert sorted(all_pairs(NAMES, suite(), rules=QUICK).best()) == ["hybrid", "hybrid 2"]


def test_one_system_alone_has_no_pairs_and_is_the_best():
    pairs = all_pairs(["only"], suite()[:1], rules=QUICK)
    assert (pairs.findings, pairs.best(), pairs.verdicts()) == ((), ("only",), ((None,),))
    assert pairs.matrix("mean").shape == (1, 1)
    assert all_pairs([], np.empty((0, 5)), rules=QUICK).best() == ()


def test_a_large_suite_can_still_find_something_under_holm():
    """435 pairs: with 1,000 samples no p could be small enough, so more are taken."""
    scores = np.random.default_rng(7).normal(0.5, 0.05, (30, 20))
    scores[7] += 0.4
    pairs = all_pairs([f"v{row:02d}" for row in range(30)], scores, rules=QUICK)
    assert pairs.best() == ("v07",)
    assert pairs.of("v07", "v00").difference.corrected < 0.05


def test_detectable_differences_allow_for_the_correction():
    alone = all_pairs(NAMES[:2], suite()[:2], rules=QUICK).findings[0].difference.detectable
    among = all_pairs(NAMES, suite(), rules=QUICK).of("bm25", "hybrid").difference.detectable
    careless = all_pairs(NAMES, suite(), rules=Rules(samples=1000, correction="none")).of("bm25", "hybrid")
    assert alone is not None
    assert among is not None
    assert among > alone
    assert careless.difference.detectable == pytest.approx(alone)


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
