"""Votes of a demo's visitors: kept, changed, taken back, and what they come to."""

from __future__ import annotations

import itertools

import pytest

from core import bridge
from core.errors import InputError, UnknownName
from core.legs import legs
from core.variant import Variant
from evals.judging import votes
from evals.judging.votes import BOTH, NEITHER, Contest, Vote

WORDS, MEANING, SPELLING = (Variant.of_leg(legs[kind]()) for kind in ("bm25", "vector", "trigram"))


def contest_of(name: str) -> Contest:
    return Contest.of(name, {"Words": WORDS, "Meaning": MEANING})


@pytest.fixture
def contest(store, name):
    made = contest_of(name)
    bridge.run(votes.announce(store, made))
    return made


def cast(store, contest: Contest, visitor: str, query: str, choice: str | None) -> None:
    bridge.run(votes.cast(store, contest, Vote(visitor, query, choice)))


def votes_for(count: int, choice: str, *, begin: int = 0) -> list[Vote]:
    return [Vote(f"v{begin + number}", "q", choice) for number in range(count)]


# -- kept ------------------------------------------------------------------------------------------------------------


def test_a_vote_is_kept_changed_and_taken_back(store, contest):
    for choice, count in ((WORDS.id, 1), (MEANING.id, 1), (BOTH, 1), (NEITHER, 1), (None, 0), (WORDS.id, 1)):
        cast(store, contest, "ada", "reset", choice)
        assert bridge.run(votes.choice_of(store, contest, "ada", "reset")) == choice
        assert bridge.run(votes.count(store, contest)) == count


def test_votes_of_others_and_of_other_queries_stand_apart(store, contest):
    cast(store, contest, "ada", "reset", WORDS.id)
    cast(store, contest, "bob", "reset", MEANING.id)
    cast(store, contest, "ada", "late fee", BOTH)
    assert bridge.run(votes.count(store, contest)) == 3
    assert bridge.run(votes.choice_of(store, contest, "bob", "late fee")) is None
    ((found, kept),) = bridge.run(votes.contests(store, contest.collection))
    assert found == contest
    assert {(vote.visitor, vote.query) for vote in kept} == {("ada", "reset"), ("bob", "reset"), ("ada", "late fee")}


def test_the_same_variants_in_another_order_under_new_names_are_the_same_contest(store, contest, name):
    cast(store, contest, "ada", "reset", WORDS.id)
    again = Contest.of(name, {"New": MEANING, "Old": WORDS})
    assert again.key == contest.key
    bridge.run(votes.announce(store, again))
    ((found, kept),) = bridge.run(votes.contests(store, name))
    assert found.variants == {MEANING.id: "New", WORDS.id: "Old"}
    assert len(kept) == 1


def test_other_variants_or_another_collection_are_another_contest(name):
    keys = {
        contest_of(name).key,
        contest_of(f"{name} 2").key,
        Contest.of(name, {"Words": WORDS, "Spelling": SPELLING}).key,
    }
    assert len(keys) == 3


def test_a_contest_of_a_variant_with_itself_is_refused(name):
    with pytest.raises(InputError, match="the very same"):
        Contest.of(name, {"a": WORDS, "b": WORDS.model_copy(update={"name": "renamed"})})


def test_what_is_no_choice_of_the_contest_is_refused(store, contest):
    with pytest.raises(UnknownName):
        cast(store, contest, "ada", "reset", SPELLING.id)
    assert bridge.run(votes.count(store, contest)) == 0


@pytest.mark.parametrize("visitor", ["", "a\x00b", "x" * 65])
def test_a_visitor_who_cannot_be_kept_is_refused(store, contest, visitor):
    with pytest.raises(InputError):
        cast(store, contest, visitor, "reset", BOTH)


def test_the_longest_query_in_the_widest_letters_fits(store, contest):
    query = "\U0001f9ca" * (votes.LONGEST_QUERY + 50)
    cast(store, contest, "x" * votes.LONGEST_VISITOR, query, BOTH)
    assert bridge.run(votes.choice_of(store, contest, "x" * votes.LONGEST_VISITOR, query)) == BOTH


# -- tallied ---------------------------------------------------------------------------------------------------------


def test_shares_of_decided_votes_have_wilson_intervals(name):
    tally = votes.tally(
        contest_of(name), [*votes_for(8, WORDS.id), *votes_for(2, MEANING.id, begin=8), Vote("z", "q", BOTH)]
    )
    first, second = tally.shares
    assert (first.name, first.votes, first.share) == ("Words", 8, 0.8)
    # Wilson's interval of 8 in 10, as in any table of it.
    assert (first.low, first.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert (second.low, second.high) == pytest.approx((1 - first.high, 1 - first.low))
    assert (tally.votes, tally.decided, tally.both, tally.neither, tally.visitors) == (11, 10, 1, 0, 11)


def test_a_clear_lead_is_said_and_a_narrow_one_is_not(name):
    clear = votes.tally(contest_of(name), [*votes_for(18, MEANING.id), *votes_for(2, WORDS.id, begin=18)])
    assert clear.sentences()[0].startswith("'Meaning' is liked better. 18 of 20 votes")
    narrow = votes.tally(contest_of(name), [*votes_for(6, MEANING.id), *votes_for(4, WORDS.id, begin=6)])
    assert narrow.sentences()[0].startswith("Too few votes, or too alike")


def test_of_three_the_leader_is_held_against_the_runner_up(name):
    three = Contest.of(name, {"Words": WORDS, "Meaning": MEANING, "Spelling": SPELLING})
    cast_ones = [*votes_for(9, WORDS.id), *votes_for(8, MEANING.id, begin=9), *votes_for(1, SPELLING.id, begin=17)]
    tally = votes.tally(three, cast_ones)
    assert [share.name for share in tally.shares] == ["Words", "Meaning", "Spelling"]
    assert tally.lead is not None
    assert tally.lead.share == 9 / 17
    assert "Too few votes" in tally.sentences()[0]


def test_votes_taken_back_count_for_nothing(name):
    tally = votes.tally(contest_of(name), [Vote("ada", "q", None), Vote("bob", "q", WORDS.id)])
    assert (tally.votes, tally.visitors) == (1, 1)
    assert votes.tally(contest_of(name), [Vote("ada", "q", None)]).sentences() == ["Nobody has voted yet."]


def test_without_a_decided_vote_nothing_is_concluded(name):
    tally = votes.tally(contest_of(name), [Vote("ada", "q", BOTH), Vote("bob", "q", NEITHER)])
    assert tally.sentences() == ["No vote decides between them."]
    assert {(share.low, share.high) for share in tally.shares} == {(0.0, 1.0)}


def test_one_eager_visitor_is_pointed_out(name):
    eager = [Vote("ada", f"q{number}", WORDS.id) for number in range(6)]
    tally = votes.tally(contest_of(name), [*eager, *votes_for(2, WORDS.id)])
    assert "One visitor gave 75% of the decided votes" in tally.sentences()[1]


def test_the_order_of_votes_changes_nothing(name):
    cast_ones = [Vote("a", "q1", WORDS.id), Vote("b", "q1", MEANING.id), Vote("a", "q2", NEITHER)]
    tallies = [votes.tally(contest_of(name), each) for each in itertools.permutations(cast_ones)]
    assert all(each == tallies[0] for each in tallies)
    assert [(each.query, dict(each.votes)) for each in tallies[0].queries] == [
        ("q1", {"Words": 1, "Meaning": 1}),
        ("q2", {"neither": 1}),
    ]
