"""Runs in and out of files, frames and dictionaries."""

from __future__ import annotations

import gzip
from dataclasses import replace

import pytest
import pytrec_eval
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.types import Query
from evals.metrics.scoring import score_rankings
from evals.runs import exchange
from evals.runs.rankings import Ranking, Rankings
from evals.runs.types import Run, RunSubject
from evals.types import QuerySplit
from tests.effort import examples

SUBJECT = RunSubject("docs", 3, "default", b"digest", "test")
SPLIT = QuerySplit("test", {each: Query(each, f"text of {each}") for each in ("q1", "q2", "q 3")})
RUN = Run(
    "two words",
    SUBJECT,
    {
        "q1": Ranking(("a", "b b", "c"), (3.0, 1.5, 1.5)),
        "q 3": Ranking(("d#1", "d#2", "e"), (2.0, 1.0, 0.5), ("d", "d", "e")),
    },
)
ITEMS = {"q1": ("a", "b b", "c"), "q 3": ("d", "e")}


def items(rankings: Rankings) -> dict[str, tuple[str, ...]]:
    return {query: ranked.item_ids for query, ranked in rankings.items()}


@pytest.mark.parametrize("ending", ["run", "txt", "trec", "csv", "tsv", "jsonl", "parquet"])
def test_a_run_comes_back_as_it_was_written(tmp_path, ending):
    path = tmp_path / f"mine.{ending}"
    exchange.write_run(RUN, path)
    back = exchange.read_run(path, SUBJECT, SPLIT)
    assert items(back.run.rankings) == ITEMS
    assert (back.run.name, back.flaws, back.unasked, back.missing) == ("mine", (), (), ("q2",))


def test_the_first_thing_wrong_with_a_run_is_no_mere_remark(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("query;item;score\nq1;a;high\n")
    with pytest.raises(InputError, match=r"first thing wrong with it: .*line 2: The score is 'high'"):
        exchange.read_run(path, SUBJECT, SPLIT)


def test_what_trec_eval_reads_has_no_ties_in_single_precision():
    import numpy as np

    lines = [line.split("\t") for line in exchange.trec_lines(RUN)]
    scores = [np.float32(cells[4]) for cells in lines if cells[0] == "q1"]
    assert scores[0] > scores[1] > scores[2]
    assert scores[2] == pytest.approx(1.5)
    assert {cells[5] for cells in lines} == {"two_words"}


def test_equal_scores_are_taken_by_rank_and_what_ranks_do_not_part_by_id_descending_which_is_told(tmp_path):
    path = tmp_path / "other.run"
    path.write_text(
        "q1 Q0 y 1 5 t\nq1 Q0 z 2 5 t\nq2 Q0 a 1 5 t\nq2 Q0 \u00e9 1 5 t\nq2 Q0 b 1 5 t\nq1 Q0 best 9 7.5 t\n"
    )
    found = exchange.read_run(path, SUBJECT, SPLIT).run
    assert items(found.rankings) == {"q1": ("best", "y", "z"), "q2": ("\u00e9", "b", "a")}
    (note,) = found.notes
    assert note.startswith("Documents have equal scores, and no ranks that part them, in 1 of its queries, 'q2' among")
    assert note.endswith("ordered by their ids, descending, as trec_eval does.")


def test_an_item_that_stands_twice_is_no_tie(tmp_path):
    path = tmp_path / "other.run"
    path.write_text("q1 Q0 a 1 5 t\nq1 Q0 a 1 5 t\nq1 Q0 b 2 4 t\n")
    assert exchange.read_run(path, SUBJECT, SPLIT).run.notes == ()


IDS = st.text("abAB019.-\u00e9\u4e2d\U0001f600", min_size=1, max_size=3)


@examples(100)
@given(
    st.dictionaries(IDS, st.sampled_from([1.0, 0.5, 0.25, 0.0, -1.0]), min_size=1, max_size=12),
    st.dictionaries(IDS, st.integers(0, 3), min_size=1, max_size=6),
)
def test_a_run_with_ties_and_without_ranks_scores_as_trec_eval_scores_it(scored, grades):
    tied: list[str] = []
    rankings = exchange.from_dict({"q": scored}, tied)
    assert tied == (["q"] if len(set(scored.values())) < len(scored) else [])
    if not any(grades.values()):
        return
    names = {"ndcg": "ndcg", "map": "map", "mrr": "recip_rank", "precision@5": "P_5", "recall@5": "recall_5"}
    measures = {"ndcg", "map", "recip_rank", "P.5", "recall.5"}
    asked = pytrec_eval.RelevanceEvaluator({"q": grades}, measures).evaluate({"q": scored})["q"]
    found = score_rankings({"q": grades}, rankings, list(names))
    expected = [asked[name] for name in names.values()]
    assert [found.of(name)["q"] for name in names] == pytest.approx(expected)


def test_documents_that_the_collection_has_not_are_counted_and_the_first_named(tmp_path):
    path = tmp_path / "other.run"
    lines = [f"q1 Q0 {item} {rank} {9 - rank} t" for rank, item in enumerate("abcdef", 1)]
    path.write_text("\n".join([*lines, "q2 Q0 f 1 1 t"]))
    read = exchange.read_run(path, SUBJECT, SPLIT)
    told = exchange.with_unknown(read, ["b", "c", "e", "f"])
    assert told.unknown == ("b", "c", "e", "f")
    (note,) = told.run.notes
    assert note.startswith("4 of its 6 documents are not in 'docs': 'b', 'c', 'e' and more.")
    assert told.run.rankings == read.run.rankings
    assert exchange.with_unknown(read, []) == read


def test_what_a_query_excludes_is_taken_out_as_of_our_own_runs_and_that_is_said(tmp_path):
    path, split = tmp_path / "other.run", replace(SPLIT, excluded={"q1": frozenset({"its own source"})})
    path.write_text("q1\tQ0\tits own source\t1\t9\tt\nq1\tQ0\ta\t2\t5\tt\nq2\tQ0\tits own source\t1\t4\tt\n")
    found = exchange.read_run(path, SUBJECT, split)
    assert found.run.rankings == {"q1": Ranking(("a",), (5.0,)), "q2": Ranking(("its own source",), (4.0,))}
    assert found.run.notes == ("Documents that its queries exclude were taken out of the rankings: 1.",)
    assert exchange.read_run(path, SUBJECT, SPLIT).run.notes == ()


def test_bad_lines_are_named_and_the_rest_is_read(tmp_path):
    path = tmp_path / "bad.run.gz"
    lines = b"q1 Q0 a 1 1.0 t\nq1 Q0 b\nq1 Q0 c 3 nan t\nq1 Q0 \xff 4 1 t\nq1 Q0 a 5 2.0 t\nq9 Q0 a 1 1 t\n"
    path.write_bytes(gzip.compress(lines))
    found = exchange.read_run(path, SUBJECT, SPLIT, name="other engine")
    assert found.run.rankings == {"q1": Ranking(("a",), (2.0,))}
    assert found.run.name == "other engine"
    assert [flaw.place.line for flaw in found.flaws] == [2, 3, 4, 5]
    assert (found.unasked, found.missing) == (("q9",), ("q2", "q 3"))


@pytest.mark.parametrize(
    ("text", "says"),
    [("", "no ranking"), ("nothing like a run\n", "line 1"), ("q7 Q0 a 1 1 t\n", "None of its 1 queries.*'q7'")],
)
def test_a_file_without_a_usable_ranking_is_refused_with_its_reason(tmp_path, text, says):
    path = tmp_path / "x.run"
    path.write_text(text)
    with pytest.raises(InputError, match=says):
        exchange.read_run(path, SUBJECT, SPLIT)


def test_a_table_without_the_column_says_which_there_are(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("query,document,score\nq1,a,1\n")
    with pytest.raises(InputError, match=r"no column 'item'.*'document'"):
        exchange.read_run(path, SUBJECT, SPLIT)


def test_a_frame_goes_out_and_in():
    frame = exchange.frame(RUN)
    assert list(frame.columns) == ["query", "item", "rank", "score"]
    assert items(exchange.from_frame(frame)) == items(exchange.from_frame(frame.sample(frac=1, random_state=1))) | ITEMS
    with pytest.raises(InputError, match="'score'"):
        exchange.from_frame(frame.drop(columns="score"))
    with pytest.raises(InputError, match="'query'"):
        exchange.from_frame(frame.rename(columns={"query": "wer"}))


def _through_ranx(scores):
    from ranx import Run as RanxRun

    return RanxRun(scores).to_dict()  # type: ignore[no-untyped-call]


@pytest.mark.slow
def test_a_run_goes_through_ranx_and_back(plain_ranx):
    there = plain_ranx(_through_ranx, exchange.to_dict(RUN.rankings))
    assert items(exchange.from_dict(there)) == ITEMS


@examples(50)
@given(st.dictionaries(st.text("ab", min_size=1), st.floats(-1e30, 1e30), min_size=1, max_size=20))
def test_a_dictionary_keeps_its_order(scores):
    rankings = exchange.from_dict({"q": scores})
    there = exchange.to_dict(rankings)
    assert list(there["q"].values()) == sorted(set(there["q"].values()), reverse=True)
    assert items(exchange.from_dict(there)) == items(rankings)


@pytest.mark.parametrize("name", ["x.xyz", "x.parquet.gz", "x.html", "x.zip", "x.trec.bz2"])
def test_an_ending_that_says_nothing_of_a_run_is_refused(tmp_path, name):
    with pytest.raises(InputError, match="The ending is none that a run is written by"):
        exchange.write_run(RUN, tmp_path / name)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["x", "x.RUN", "x.trec", "x.txt", "x.gz", "x.run.gz", "x.csv.gz", "x.jsonl.gz"])
def test_a_run_comes_back_from_every_ending_that_it_is_written_by(tmp_path, name):
    exchange.write_run(RUN, tmp_path / name)
    assert name.endswith(".gz") == (tmp_path / name).read_bytes().startswith(b"\x1f\x8b")
    split = QuerySplit("test", {query: Query(query, query) for query in RUN.rankings})
    back = exchange.read_run(tmp_path / name, SUBJECT, split).run.rankings
    assert {query: ranked.item_ids for query, ranked in back.items()} == {
        query: ranked.item_ids for query, ranked in RUN.rankings.items() if ranked.item_ids
    }
