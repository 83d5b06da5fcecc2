"""What a child's parent does to a ranking: SYSTEMS.md, section 1 "Parents" and section 3 "Parent context"."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from core import bridge
from core.pipeline.postprocess import SECTION_CHARACTERS, annotate, replace_by_parents, resolve_parents
from core.store import collections, passages
from core.store.passages import StoredChunk
from core.types import Hit, Item, LegScore
from tests.store.making import fresh, ingest, make, some_name

CHUNKERS = {
    "family": {"kind": "parent_child", "parents": "sections", "parent_tokens": 200, "child_tokens": 6},
    "flat": {"kind": "headings", "max_tokens": 6},
}
GUIDE = Item(
    "guide",
    "# Battery\n\n"
    + " ".join(f"The battery has fact {at}." for at in range(12))
    + "\n\n# Screen\n\nThe screen is flat. It glows.",
    title="The guide",
    metadata={"type": "guide"},
)


@pytest.fixture(scope="module")
def collection(store):
    name = some_name()
    make(store, name, [], CHUNKERS)
    ingest(store, name, [GUIDE])
    return fresh(store, name)


@pytest.fixture
def family(store, collection):
    """The item's chunks: parents, and children of each."""
    found = bridge.run(passages.whole_items(store, collection, collection.chunk_set("family"), ["guide"]))
    return found["guide"].chunks


@pytest.fixture
def resolve(store, collection):
    def work(hits, how, chunks="family"):
        return bridge.run(resolve_parents(store, collection, collection.chunk_set(chunks), hits, how))

    return work


def hit_of(chunk: StoredChunk, rank: int, score: float) -> Hit:
    return Hit(
        id=chunk.id,
        item_id=chunk.item_id,
        score=score,
        rank=rank,
        title=chunk.title,
        text=chunk.text,
        metadata={"type": "guide"},
        level=chunk.level,
        parent_id=chunk.parent_id,
        start=chunk.start,
        end=chunk.end,
        legs=(LegScore("vector", rank, score, score),),
        rerank_score=score / 2,
        raw_score=score / 60,
    )


def ranking(chunks):
    return [hit_of(chunk, rank, 1 - rank / 100) for rank, chunk in enumerate(chunks, start=1)]


def of_level(family, level):
    return [chunk for chunk in family if chunk.level == level]


def test_a_child_is_replaced_by_its_parents_content_and_keeps_its_score(resolve, family):
    child = of_level(family, "child")[-1]
    parent = next(chunk for chunk in family if chunk.id == child.parent_id)
    before = hit_of(child, 1, 0.83)
    (after,) = resolve([before], "replace").hits
    assert (after.text, after.id, after.start, after.end) == (parent.text, parent.id, parent.start, parent.end)
    assert (after.level, after.parent_id, after.heading_path) == ("parent", None, ("Screen",))
    for field in ("score", "raw_score", "rerank_score", "legs", "title", "metadata", "item_id"):
        assert getattr(after, field) == getattr(before, field), field


def test_of_several_children_of_one_parent_the_best_one_stands_and_the_others_are_told_of(resolve, family):
    battery = [chunk for chunk in of_level(family, "child") if "battery" in chunk.text]
    screen = of_level(family, "child")[-1]
    hits = ranking([battery[2], screen, battery[0], battery[1]])
    found = resolve(hits, "replace")
    assert [(hit.text[:9], hit.score, hit.rank) for hit in found.hits] == [
        ("# Battery", hits[0].score, 1),
        ("# Screen\n", hits[1].score, 2),
    ]
    assert [each.id for each in found.dropped] == [battery[0].id, battery[1].id]
    parent = found.hits[0].id
    assert all(
        each.reason == f"merged into its parent {parent}, which stands there for {battery[2].id}"
        for each in found.dropped
    )


def test_a_child_without_a_parent_passes_through_and_a_note_says_so(resolve, family):
    lost = replace(hit_of(of_level(family, "child")[0], 1, 0.9), id="guide#0099")
    for how in ("replace", "annotate"):
        found = resolve([lost], how)
        assert found.hits == (lost,)
        assert found.notes == ("1 of 1 hits are children without a parent, and stand as they are.",)


@pytest.mark.parametrize("how", ["replace", "annotate"])
def test_passages_parents_and_whole_items_pass_through(resolve, family, how):
    whole = Hit(id="guide", item_id="guide", score=0.4, rank=2, title="", text="All")
    hits = [hit_of(of_level(family, "parent")[0], 1, 0.5), whole]
    found = resolve(hits, how)
    assert (found.hits, found.dropped, found.notes) == (tuple(hits), (), ())
    flat = [Hit(id="guide#0001", item_id="guide", score=0.4, rank=1, title="", text="Fact")]
    assert resolve(flat, how, "flat").hits == tuple(flat)


def test_a_parent_that_was_found_itself_is_not_shown_twice(resolve, family):
    parent, child = family[0], family[1]
    found = resolve(ranking([parent, child]), "replace")
    assert [hit.id for hit in found.hits] == [parent.id]
    assert found.dropped[0].reason.endswith(f"stands there for {parent.id}")


@pytest.mark.parametrize("how", ["replace", "annotate"])
def test_any_failure_passes_results_through_unchanged_and_says_so(store, family, how):
    """The collection went while the search was under way."""
    name = some_name()
    make(store, name, [], CHUNKERS)
    view = fresh(store, name)
    gone = view.chunk_set("family")
    bridge.run(collections.drop(store, name))
    hits = ranking(family)
    found = bridge.run(resolve_parents(store, view, gone, hits, how))
    assert found.hits == tuple(hits)
    assert found.dropped == ()
    (note,) = found.notes
    assert note.startswith("Parents could not be read, so results passed through unchanged: ")
    assert "does not exist" in note
    assert "SELECT" not in note


def test_being_cancelled_is_no_failure_to_be_passed_over(store, collection, family):
    async def work():
        task = asyncio.create_task(
            resolve_parents(store, collection, collection.chunk_set("family"), ranking(family), "replace")
        )
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert bridge.run(work())


@pytest.mark.slow
def test_a_child_gets_the_first_200_characters_of_its_parent_as_its_section(resolve, family):
    child = of_level(family, "child")[1]
    before = hit_of(child, 1, 0.7)
    (after,) = resolve([before], "annotate").hits
    assert len(family[0].text) > SECTION_CHARACTERS == 200
    assert after == replace(before, section=family[0].text[:200])


def test_a_section_shorter_than_that_is_given_whole(resolve, family):
    (after,) = resolve([hit_of(of_level(family, "child")[-1], 1, 0.7)], "annotate").hits
    assert after.section == of_level(family, "parent")[-1].text


def test_the_option_decides(resolve, family):
    hits = ranking(of_level(family, "child"))
    replaced, annotated = (resolve(hits, how) for how in ("replace", "annotate"))
    assert len(replaced.hits) == 2 < len(annotated.hits) == len(hits)
    assert all(hit.section for hit in annotated.hits)


PARENTS = {
    f"d#{child:04d}": StoredChunk(f"d#{10 + child // 3:04d}", "d", "", f"Parent {child // 3}", 0, 0, 9, "parent")
    for child in range(9)
}


@given(some.lists(some.integers(0, 14), unique=True), some.sampled_from([replace_by_parents, annotate]))
def test_order_is_kept_and_ranks_are_numbered_anew(places, rule):
    hits = [
        Hit(id=f"d#{place:04d}", item_id="d", score=1 / (1 + at), rank=3 + at, title="", text="t")
        for at, place in enumerate(places)
    ]
    found = rule(hits, PARENTS)
    assert [hit.rank for hit in found.hits] == list(range(1, len(found.hits) + 1))
    scores = [hit.score for hit in found.hits]
    assert scores == sorted(scores, reverse=True)
    assert len({hit.id for hit in found.hits}) == len(found.hits)
    assert len(found.hits) + len(found.dropped) == len(hits)
    if hits:
        assert scores[0] == hits[0].score
