"""What packing promises whatever stands around the hits and however small the budget: order, once each, room."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as some

from core.packing import Packing, token_counter
from core.packing.pack import ORDER_OF_GOING, assembled, by_mark, fitted, mark_for, passage, rendered
from core.store.passages import Around, StoredChunk
from core.types import Hit
from tests.fakes import HashingEmbedder

CHUNKS = [
    StoredChunk(
        id=f"d{number // 6}#{number % 6:04d}",
        item_id=f"d{number // 6}",
        title="",
        text=f"Text {number} " + "word " * (number * 5 % 13),
        ordinal=number % 6,
        start=0,
        end=9,
        page_first=1 + number % 3,
        page_last=1 + number % 3,
        metadata={"rows": [1, number + 1]} if number % 2 else {},
    )
    for number in range(24)
]
PLACES = some.integers(0, len(CHUNKS) - 1)
HITS = some.lists(some.tuples(PLACES, some.none() | some.sampled_from([0.1, 0.5, 0.9])), max_size=8)
RELATED = some.dictionaries(PLACES, some.lists(PLACES, max_size=4, unique=True), max_size=24)
PACKINGS = some.builds(
    Packing,
    include_parents=some.booleans(),
    final_max_tokens=some.integers(1, 600),
    min_primary_hits_to_keep=some.integers(0, 5),
)
COUNTERS = some.sampled_from([len, token_counter(HashingEmbedder()), lambda text: -(-len(text) // 4)])


def hit(rank, place, mark):
    chunk = CHUNKS[place]
    return Hit(chunk.id, chunk.item_id, 1 / rank, rank, "", chunk.text, rerank_score=mark)


def around_of(parents, siblings, neighbours):
    def several(related):
        return {
            CHUNKS[place].id: tuple(CHUNKS[other] for other in others if other != place)
            for place, others in related.items()
        }

    first = {asked: one for asked, (one, *_) in ((a, s) for a, s in several(parents).items() if s)}
    return Around({chunk.id: chunk for chunk in CHUNKS}, first, several(siblings), several(neighbours))


AROUND = some.builds(around_of, RELATED, RELATED, RELATED)


@given(HITS, AROUND, PACKINGS)
def test_the_order_is_primaries_each_with_its_parent_then_siblings_then_neighbours_and_none_twice(
    found, around, packing
):
    hits = [hit(rank, place, mark) for rank, (place, mark) in enumerate(found, start=1)]
    drafts, repeated = assembled(hits, around, packing)
    ids = [draft.id for draft in drafts]
    assert len(ids) == len(set(ids))
    assert [draft.id for draft in drafts if draft.role == "primary"] == list(
        dict.fromkeys(each.id for each in by_mark(hits))
    )
    assert len(repeated) == len(hits) - len({each.id for each in hits})
    roles = [draft.role for draft in drafts]
    groups = [{"primary": 0, "parent": 0, "sibling": 1, "neighbour": 2}[role] for role in roles]
    assert groups == sorted(groups)
    for at, draft in enumerate(drafts):
        if draft.role == "parent":
            assert drafts[at - 1].role == "primary"
            assert around.parents[drafts[at - 1].id].id == draft.id
    if not packing.include_parents:
        assert "parent" not in roles


@given(HITS, AROUND, PACKINGS, COUNTERS)
def test_never_over_budget_unless_by_the_minimum_and_never_emptier_than_need_be(found, around, packing, counter):
    hits = [hit(rank, place, mark) for rank, (place, mark) in enumerate(found, start=1)]
    drafts, _ = assembled(hits, around, packing)
    mark = mark_for("query", drafts)
    fit = fitted(drafts, packing, mark, counter)
    assert fit.context == rendered(fit.kept, mark)
    assert fit.tokens == counter(fit.context)
    primaries = [draft for draft in drafts if draft.role == "primary"]
    least = primaries[: packing.min_primary_hits_to_keep]
    assert all(draft in fit.kept for draft in least)
    assert fit.tokens <= packing.final_max_tokens or list(fit.kept) == least
    if fit.gone:
        back = [*fit.kept, fit.gone[-1]]
        one_more = rendered([draft for draft in drafts if draft in back], mark)
        assert counter(one_more) > packing.final_max_tokens


@given(HITS, AROUND, PACKINGS, COUNTERS)
def test_what_goes_goes_by_kind_and_from_the_end_and_the_rest_keeps_its_order(found, around, packing, counter):
    hits = [hit(rank, place, mark) for rank, (place, mark) in enumerate(found, start=1)]
    drafts, _ = assembled(hits, around, packing)
    fit = fitted(drafts, packing, mark_for("query", drafts), counter)
    assert sorted([*fit.kept, *fit.gone], key=drafts.index) == drafts
    assert list(fit.kept) == [draft for draft in drafts if draft in fit.kept]
    places = [(ORDER_OF_GOING.index(draft.role), -drafts.index(draft)) for draft in fit.gone]
    assert places == sorted(places)
    for role in ORDER_OF_GOING[: places[-1][0] if places else 0]:
        assert role not in {draft.role for draft in fit.kept}


@given(HITS, AROUND, some.integers(1, 600), some.integers(1, 600))
def test_a_larger_budget_never_holds_less(found, around, one, other):
    hits = [hit(rank, place, mark) for rank, (place, mark) in enumerate(found, start=1)]
    less, more = (
        fitted(drafts, packing, mark_for("query", drafts), len)
        for packing in (Packing(final_max_tokens=budget) for budget in sorted((one, other)))
        for drafts in [assembled(hits, around, packing)[0]]
    )
    assert all(draft in more.kept for draft in less.kept)


@given(some.lists(some.text(some.sampled_from("<>/passage 01af\n|Doc:"), max_size=80), min_size=1, max_size=5))
def test_no_text_can_end_its_passage_or_begin_another(texts):
    hits = [replace(hit(rank, rank, None), text=text) for rank, text in enumerate(texts, start=1)]
    drafts, _ = assembled(hits, Around(), Packing())
    mark = mark_for("query", drafts)
    context = rendered(drafts, mark)
    assert context.count(mark) == 2 * len(drafts)
    for number, draft in enumerate(drafts, start=1):
        lines = passage(draft, number, mark).split("\n")
        assert [at for at, line in enumerate(lines) if mark in line] == [0, len(lines) - 1]
        assert lines[1] == str(draft.citation)
