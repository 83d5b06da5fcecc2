"""Kept runs: whole, found, pinned, pruned; and the few bytes that rankings become."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"
# mypy: disable-error-code="arg-type, var-annotated, unused-ignore"

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import event, text, update

from core import bridge
from core.errors import InputError, StoreError, UnknownName
from core.legs.bm25 import Bm25Leg
from core.variant import Variant
from evals.runs import run_store
from evals.runs.provenance import code_version, environment
from evals.runs.rankings import Ranking, decode_rankings, encode_rankings
from evals.runs.types import Latency, Run, RunSubject
from evals.schema import RunRow
from tests.store.making import fresh, make

RANKED = Ranking(("d1#1", "d2#7"), (0.1 + 0.2, 1e-300), ("d1", "d2"), ((0, 10), (5, 7)))
TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
SPAN = st.tuples(st.integers(0, 2**40), st.integers(0, 2**40))


def run(collection: str, name: str = "hybrid", **changes) -> Run:
    variant = Variant(name=name, legs=(Bm25Leg(k1=changes.pop("k1", 1.2)),))
    made = Run(
        name,
        RunSubject(collection, 3, "default", b"\x01\x02", "test", "abc"),
        {"q1": RANKED, "q2": Ranking(), "q ü": Ranking(("x",), (-1.5,))},
        variant,
        {"q2": "it's broken: \x01"},
        {"q1": 1.25, "q ü": 3.0},
        {"leg bm25": {"q1": 1.0}},
        {"code": "v1", "server": {"version": "18"}},
        depth=100,
        timed=("q1",),
        notes=("a note",),
    )
    return replace(made, **changes)


def ask(work):
    return bridge.run(work)


def saved(store, *args, **changes) -> Run:
    return ask(run_store.save(store, run(*args, **changes)))


# -- bytes -----------------------------------------------------------------------------------------------------------


@st.composite
def rankings(draw):
    ids = draw(st.lists(TEXT, unique=True, max_size=12))
    items, spans = draw(st.booleans()), draw(st.booleans())
    return Ranking(
        tuple(ids),
        tuple(draw(st.lists(st.floats(allow_nan=False), min_size=len(ids), max_size=len(ids)))),
        tuple(draw(st.lists(TEXT, min_size=len(ids), max_size=len(ids)))) if items else (),
        tuple(draw(st.lists(SPAN, min_size=len(ids), max_size=len(ids)))) if spans else (),
    )


@pytest.mark.slow
@given(st.dictionaries(TEXT, rankings(), max_size=6))
def test_rankings_come_out_of_their_bytes_equal(given_rankings):
    content = decode_rankings(encode_rankings(given_rankings, note={"a": [1, "b"]}))
    assert content.rankings == given_rankings
    assert list(content.rankings) == list(given_rankings)
    assert content.more == {"note": {"a": [1, "b"]}}


def test_the_bytes_are_few_and_name_every_unit_once():
    units = [f"a-document-with-quite-a-long-name-{number:05d}" for number in range(500)]
    shuffled = {
        f"q{at}": Ranking(tuple(units[at:] + units[:at]), tuple(1 / (60 + n) for n in range(500))) for at in range(100)
    }
    assert len(encode_rankings(shuffled)) < 100 * 500 * 4


# -- whole -----------------------------------------------------------------------------------------------------------


def test_what_is_kept_is_read_back_equal(store, name):
    kept = saved(store, name)
    assert kept.id
    assert kept.made_at
    assert ask(run_store.load(store, kept.id)) == kept == replace(run(name), id=kept.id, made_at=kept.made_at)


def test_a_run_kept_again_takes_the_place_of_the_one_there(store, name):
    first, again = saved(store, name), saved(store, name, notes=("other",))
    assert first.id == again.id
    assert [each.id for each in ask(run_store.listed(store, collection=name))] == [first.id]
    assert ask(run_store.load(store, first.id)).notes == ("other",)


def test_variant_depth_and_subject_tell_runs_apart_and_a_name_does_not(store, name):
    kept = saved(store, name)
    assert saved(store, name, "renamed").id == kept.id
    others = [{"k1": 2.0}, {"depth": 0}] + [
        {"subject": replace(kept.subject, **change)}
        for change in ({"version": 4}, {"split": "train"}, {"digest": b"x"}, {"content": "y"}, {"query_set": "z"})
    ]
    assert len({kept.id, *(saved(store, name, **each).id for each in others)}) == 1 + len(others)


def test_a_foreign_run_has_no_variant_and_is_otherwise_an_equal(store, name):
    kept = saved(store, name, "lucene", variant=None)
    other = saved(store, name, "lucene", variant=None, rankings={"q1": Ranking(("z",), (1.0,))})
    assert kept.id != other.id
    assert ask(run_store.load(store, kept.id)) == kept
    assert [each.variant for each in ask(run_store.listed(store, collection=name))] == [None, None]


# -- lists -----------------------------------------------------------------------------------------------------------


def test_a_kept_run_that_is_timed_keeps_its_scores_and_one_that_is_made_anew_does_not(store, name):
    made = saved(store, name)
    ask(run_store.keep_scores(store, made.id, {"mrr": 0.25}))
    kept = ask(run_store.get(store, made.id))
    ask(run_store.save(store, replace(kept, milliseconds={"q1": 9.0}, timed=("q1",))))
    (found,) = ask(run_store.listed(store, collection=name))
    assert (found.scores, found.latency.p50) == ({"mrr": 0.25}, 9.0)
    ask(run_store.save(store, replace(kept, made_at=None)))
    assert ask(run_store.listed(store, collection=name))[0].scores == {}


def test_a_list_says_all_but_the_rankings_and_does_not_fetch_them(store, name):
    kept = saved(store, name)
    ask(run_store.keep_scores(store, kept.id, {"ndcg@10": 0.5}))
    ask(run_store.keep_scores(store, kept.id, {"mrr": 0.25}))
    asked = []

    def note(connection, cursor, statement, *_):
        asked.append(statement)

    event.listen(store.engine.sync_engine, "before_cursor_execute", note)
    try:
        (found,) = ask(run_store.listed(store, collection=name, split="test"))
    finally:
        event.remove(store.engine.sync_engine, "before_cursor_execute", note)
    assert any("runs.name" in statement for statement in asked)
    assert not any("rankings" in statement for statement in asked)
    assert (found.id, found.name, found.subject, found.depth) == (kept.id, "hybrid", kept.subject, 100)
    assert (found.queries, found.failed, found.latency) == (3, 1, Latency(1.25, 1.25, 1))
    assert found.scores == {"ndcg@10": 0.5, "mrr": 0.25}
    assert found.variant == kept.variant
    assert ask(run_store.listed(store, collection=name, split="train")) == []


def test_latency_is_of_the_queries_that_were_timed_alone(name):
    assert run(name).latency == Latency(1.25, 1.25, 1)
    assert run(name, timed=()).latency is None
    assert run(name).stage_latencies == {"leg bm25": Latency(1.0, 1.0, 1)}
    assert run(name, milliseconds={}).latency is None


def test_estimates_that_were_kept_before_are_no_latencies(store, name):
    kept = saved(store, name)

    async def rewrite(latency):
        async with store.begin() as connection:
            await connection.execute(update(RunRow).where(RunRow.id == kept.id).values(latency=latency))

    for live, latency in ((True, Latency(1.0, 2.0, 3)), (False, None)):
        ask(rewrite({"p50": 1.0, "p95": 2.0, "queries": 3, "live": live}))
        assert ask(run_store.find(store, kept.id)).latency == latency


# -- finding ---------------------------------------------------------------------------------------------------------


def test_a_run_is_found_by_id_by_its_beginning_by_name_and_by_pin(store, name):
    kept = saved(store, name, f"{name} hybrid")
    ask(run_store.pin(store, kept.id, f"{name} main"))
    for reference in (kept.id, kept.id[:10], kept.id[:10].upper(), f"{name} hybrid", f"{name} hy", f"{name} main"):
        assert ask(run_store.find(store, reference)).id == kept.id


def test_a_name_means_the_newest_run_that_bears_it(store, name):
    saved(store, name)
    newest = saved(store, name, k1=2.0)
    assert ask(run_store.find(store, "hybrid", collection=name)).id == newest.id
    assert ask(run_store.find(store, "hyb", collection=name)).id == newest.id


def test_a_run_that_is_asked_for_again_is_the_one_its_name_means_and_keeps_its_date(store, name):
    first = saved(store, name)
    saved(store, name, k1=2.0)
    ask(run_store.mark_used(store, {first.id: ["hybrid"]}))
    found = ask(run_store.find(store, "hybrid", collection=name))
    assert (found.id, found.made_at) == (first.id, first.made_at)
    ask(run_store.prune(store, collection=name))
    assert [each.id for each in ask(run_store.listed(store, collection=name))] == [first.id]


def test_a_run_that_is_asked_for_under_another_name_is_found_by_that(store, name):
    kept = saved(store, name)
    ask(run_store.mark_used(store, {kept.id: ["mine"]}))
    found = ask(run_store.find(store, "mine", collection=name))
    assert (found.id, found.name) == (kept.id, "mine")


def test_a_run_keeps_its_name_where_a_suite_has_another_for_it_and_is_found_by_both(store, name):
    kept = saved(store, name, "mine")
    ask(run_store.mark_used(store, {kept.id: ["hybrid, fusion.k=60", "hybrid"]}, rename=False))
    for each in ("mine", "hybrid", "hybrid, fusion.k=60"):
        found = ask(run_store.find(store, each, collection=name))
        assert (found.id, found.name) == (kept.id, "mine")
    ask(run_store.save(store, run(name, "hybrid again"), rename=False))
    assert [each.name for each in ask(run_store.listed(store, collection=name))] == ["mine"]
    assert found.other_names == "hybrid; hybrid, fusion.k=60"


def test_a_name_means_the_run_that_was_used_under_it_last_whatever_else_that_was_used_as(store, name):
    older, newer = saved(store, name, "mine"), saved(store, name, "mine", k1=2.0)
    ask(run_store.mark_used(store, {older.id: ["a suite's"]}, rename=False))
    assert ask(run_store.find(store, "mine", collection=name)).id == newer.id
    assert ask(run_store.find(store, "a suite's", collection=name)).id == older.id
    assert ask(run_store.prune(store, collection=name)) == [], "each is the newest under one of its names"


def test_a_run_of_before_has_the_one_name_that_it_bears(store, name):
    kept = saved(store, name)

    async def forget():
        async with store.begin() as connection:
            await connection.execute(text("UPDATE rankbook.runs SET names = '{}' WHERE id = :id"), {"id": kept.id})

    ask(forget())
    assert list(ask(run_store.find(store, "hybrid", collection=name)).names) == ["hybrid"]
    ask(run_store.mark_used(store, {kept.id: ["a suite's"]}, rename=False))
    assert set(ask(run_store.find(store, "hybrid", collection=name)).names) == {"hybrid", "a suite's"}


@pytest.mark.parametrize("names", ['{"other": 5}', '{"other": "2026-01-01T00:00:00"}', '["other"]', '"other"'])
def test_names_that_nobody_can_have_kept_are_passed_over(store, name, names):
    """As a backup that somebody else wrote could hold them."""
    kept = saved(store, name)

    async def forge():
        async with store.begin() as connection:
            forged = "UPDATE rankbook.runs SET names = CAST(:names AS jsonb) WHERE id = :id"
            await connection.execute(text(forged), {"names": names, "id": kept.id})

    ask(forge())
    assert list(ask(run_store.find(store, "hybrid", collection=name)).names) == ["hybrid"]
    assert ask(run_store.prune(store, collection=name)) == []


def test_runs_are_listed_newest_first_whichever_was_used_last(store, name):
    first, second = saved(store, name, "first"), saved(store, name, "second", k1=2.0)
    ask(run_store.mark_used(store, {first.id: ["first"]}))
    ask(run_store.save(store, replace(first, timed=())))
    assert [each.id for each in ask(run_store.listed(store, collection=name))] == [second.id, first.id]
    assert [each.id for each in ask(run_store.listed(store, collection=name, most=1))] == [second.id]


def test_a_run_that_is_not_over_what_was_named_is_told_with_what_it_is_over(store, name):
    saved(store, name)
    with pytest.raises(UnknownName, match=r"'hybrid' is a run over 'test' of .*, and not over 'train' of"):
        ask(run_store.find(store, "hybrid", collection=name, split="train"))


def test_of_one_name_over_several_query_sets_the_one_that_is_named_is_meant(store, name):
    both = [
        saved(store, name, subject=RunSubject(name, 3, each, b"\x01", "test", "abc")) for each in ("default", "pilot")
    ]
    with pytest.raises(InputError, match="stands for 2 runs"):
        ask(run_store.find(store, "hybrid", collection=name))
    for each in both:
        of = each.subject.query_set
        assert ask(run_store.find(store, "hybrid", collection=name, query_set=of)).id == each.id


def test_a_name_over_several_splits_is_refused_with_all_of_them_unless_the_split_is_said(store, name):
    subjects = [RunSubject(name, 3, "default", b"\x01\x02", split, "abc") for split in ("test", "train")]
    both = [saved(store, name, subject=each) for each in subjects]
    with pytest.raises(InputError, match="stands for 2 runs") as caught:
        ask(run_store.find(store, "hybrid", collection=name))
    assert all(f"{each.id[:12]} (hybrid, {name} {each.subject.split}" in str(caught.value) for each in both)
    assert "pin the one you mean" in str(caught.value)
    assert ask(run_store.load(store, "hybrid", collection=name, split="test")).id == both[0].id


def test_the_beginning_of_several_names_is_refused(store, name):
    saved(store, name, "hybrid-1")
    saved(store, name, "hybrid-2", k1=2.0)
    with pytest.raises(InputError, match="stands for 2 runs"):
        ask(run_store.find(store, "hybrid", collection=name))


def test_a_whole_name_is_meant_before_the_beginning_of_another(store, name):
    kept = saved(store, name, "hybrid")
    saved(store, name, "hybrid-2", k1=2.0)
    assert ask(run_store.find(store, "hybrid", collection=name)).id == kept.id


def test_an_unknown_name_is_refused_with_the_nearest(store, name):
    saved(store, name, "hybrid")
    with pytest.raises(UnknownName, match="Did you mean 'hybrid'"):
        ask(run_store.load(store, "hybird", collection=name))
    with pytest.raises(UnknownName):
        ask(run_store.find(store, "", collection=name))


# -- pinning and pruning ---------------------------------------------------------------------------------------------


def test_a_baseline_moves_to_another_run_and_can_be_taken_away(store, name):
    first, second = saved(store, name), saved(store, name, k1=2.0)
    ask(run_store.pin(store, first.id, name))
    ask(run_store.pin(store, second.id, name))
    assert ask(run_store.pinned(store))[name] == second.id
    assert [each.pins for each in ask(run_store.listed(store, collection=name)) if each.id == second.id] == [(name,)]
    with pytest.raises(StoreError, match="is the baseline"):
        ask(run_store.remove(store, second.id))
    ask(run_store.remove(store, first.id))
    ask(run_store.unpin(store, name))
    ask(run_store.remove(store, second.id))
    assert ask(run_store.listed(store, collection=name)) == []
    with pytest.raises(UnknownName):
        ask(run_store.unpin(store, name))
    with pytest.raises(UnknownName):
        ask(run_store.pin(store, first.id, name))


def test_pruning_keeps_the_newest_of_each_name_and_what_is_pinned(store, name):
    old, middle, newest = (saved(store, name, k1=float(k1)) for k1 in (1, 2, 3))
    alone = saved(store, name, "alone", k1=4.0)

    async def aged():
        async with store.begin() as connection:
            for days, each in ((3, old), (2, middle), (1, newest)):
                then = datetime.now(UTC) - timedelta(days=days)
                await connection.execute(update(RunRow).where(RunRow.id == each.id).values(created_at=then))

    ask(aged())
    ask(run_store.pin(store, old.id, name))
    long_ago = datetime.now(UTC) - timedelta(days=9)
    assert ask(run_store.prune(store, collection=name, before=long_ago)) == []
    assert [each.count for each in ask(run_store.prune(store, collection=name))] == [1]
    assert {each.id for each in ask(run_store.listed(store, collection=name))} == {old.id, newest.id, alone.id}
    assert [each.count for each in ask(run_store.prune(store, collection=name, keep=0))] == [2]
    assert [each.id for each in ask(run_store.listed(store, collection=name))] == [old.id]


# -- environment -----------------------------------------------------------------------------------------------------


def test_the_environment_names_code_machine_server_and_index_sizes(store, name):
    make(store, name)
    found = ask(environment(store, fresh(store, name)))
    assert found["code"] == code_version()
    assert found["server"]["version"]
    assert found["server"]["extensions"] == dict(sorted(store.capabilities.extensions.items()))
    assert "work_mem" in found["server"]["settings"]
    assert found["machine"]["cores"] >= 1
    assert found["packages"]["ranx"] != "unknown"
    assert found["indexes"]["items_pkey"] > 0


@pytest.mark.parametrize(
    "more", [None, {}, {"failures": [], "milliseconds": {}, "stages": {}, "timed": [], "notes": []}]
)
def test_a_run_that_cannot_be_read_says_how_to_be_rid_of_it(store, name, more):
    make(store, name)
    made = saved(store, name)
    content = b"a bomb" if more is None else encode_rankings({}, **more)

    async def damage():
        async with store.begin() as connection:
            await connection.execute(update(RunRow).where(RunRow.id == made.id).values(rankings=content))

    ask(damage())
    with pytest.raises(StoreError, match=f"'hybrid' of {name!r} cannot be read.*rankbook runs delete {made.id}"):
        ask(run_store.get(store, made.id))
    ask(run_store.remove(store, made.id))
    assert ask(run_store.get(store, made.id)) is None
