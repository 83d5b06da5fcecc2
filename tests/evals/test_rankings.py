"""Rankings as they are held: over units that many share, and equal to what they were made of."""

# mypy: disable-error-code="no-untyped-call, union-attr, misc, arg-type"

from __future__ import annotations

import io
import json
import pickle
import zlib

import numpy as np
import pytest

from core.errors import StoreError
from core.fusion.score_based import LinearFusion
from core.legs.bm25 import Bm25Leg
from evals.runs.batch_fusion import FusionArrays, ResultCut, fuse_all
from evals.runs.rankings import (
    LEVEL,
    MARK,
    LegRankings,
    Ranking,
    decode_rankings,
    encode_rankings,
    fingerprint,
    numbered,
    share_units,
)

ITEMS = {
    "q1": Ranking(("a", "b", "c"), (3.0, 0.1 + 0.2, 1e-300)),
    "q2": Ranking(),
    "q3": Ranking(("c", "d"), (2.0, -1.0)),
}
CHUNKS = {
    "q1": Ranking(("a#1", "b#1"), (3.0, 2.0), ("a", "b"), ((0, 5), (2, 9))),
    "q2": Ranking(("b#1", "a#2"), (3.0, 2.0), ("b", "a"), ((2, 9), (5, 7))),
}
MIXED = {"q1": ITEMS["q1"], "q2": CHUNKS["q1"], "q3": Ranking(("a#3",), (1.0,), ("a",))}


@pytest.mark.parametrize("given", [ITEMS, CHUNKS, MIXED, {}], ids=["items", "chunks", "mixed", "none"])
def test_rankings_that_share_their_units_are_the_same_in_memory_in_bytes_and_back(given):
    together = share_units(given)
    assert together == given
    assert list(together) == list(given)
    assert encode_rankings(together, told=1) == encode_rankings(given, told=1)
    assert fingerprint(together) == fingerprint(given)
    assert decode_rankings(encode_rankings(together)).rankings == given
    assert numbered(together.values())[0] == numbered(given.values())[0]
    assert pickle.loads(pickle.dumps(together)) == given


def test_plain_values_come_out_as_they_went_in():
    ranked = share_units(CHUNKS)["q2"]
    assert (ranked.ids, ranked.items, ranked.spans) == (("b#1", "a#2"), ("b", "a"), ((2, 9), (5, 7)))
    assert ranked.scores == (3.0, 2.0)
    assert all(type(score) is float for score in ranked.scores)
    assert ranked.item_ids == ("b", "a")
    assert ranked != CHUNKS["q1"]
    assert len({ranked, CHUNKS["q2"], CHUNKS["q1"]}) == 2
    assert "b#1" in repr(ranked)


def bytes_of(*, text=None, codes=(0,), lengths=(1,), scores=None, compressed=False):
    """As `packed` makes them, or nearly so."""
    plain = json.dumps({"queries": ["q"], "units": [["a", None, None]], "more": {}}) if text is None else text
    parts = {"text": np.frombuffer(plain.encode(), np.uint8), "lengths": np.array(lengths, np.int32)}
    made = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(made, codes=np.array(codes, np.int32), **parts)
    head = zlib.compress(made.getvalue())
    scores = b"=" + np.zeros(len(codes)).tobytes() if scores is None else scores
    return MARK + len(head).to_bytes(8, "little") + head + scores


def test_bytes_made_as_they_should_be_are_read():
    assert decode_rankings(bytes_of()).rankings == {"q": Ranking(("a",), (0.0,))}


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "cut off"),
        (b"rankings", "incorrect header"),
        (encode_rankings(ITEMS)[:-20], "cut off|size"),
        (encode_rankings(ITEMS)[:40], "cut off"),
        (bytes_of(compressed=True), "packed twice"),
        (bytes_of(scores=b"z" + zlib.compress(bytes(2**20))), "more than 8 bytes"),
        (bytes_of(scores=b"="), "do not fit together"),
        (bytes_of(codes=(1,)), "do not fit together"),
        (bytes_of(codes=(-1,)), "do not fit together"),
        (bytes_of(codes=(0, 0), lengths=(3, -1)), "do not fit together"),
        (bytes_of(text="[]"), "list indices"),
        (bytes_of(text="[" * 10**6), "recursion|deep"),
        (bytes_of(text='{"queries": ["q"], "units": [7], "more": {}}'), "iterable"),
        (bytes_of(text='{"queries": [], "units": [["a", null, null]]}'), "more"),
    ],
)
def test_bytes_that_nobody_packed_are_refused_in_a_sentence(content, why):
    with pytest.raises(StoreError, match=f"rankings are damaged.*({why})"):
        decode_rankings(content)


def test_few_bytes_do_not_become_all_that_there_is_room_for(monkeypatch):
    monkeypatch.setattr("evals.runs.rankings.LARGEST", 2**20)
    bomb = MARK + (4096).to_bytes(8, "little") + zlib.compress(bytes(4 * 2**20)) + b"="
    with pytest.raises(StoreError, match="more than 1,048,576 bytes"):
        decode_rankings(bomb)


@pytest.mark.parametrize("given", [CHUNKS["q1"], share_units(CHUNKS)["q1"]], ids=["alone", "shared"])
def test_some_places_of_a_ranking_are_a_ranking(given):
    assert given.at([1]) == Ranking(("b#1",), (2.0,), ("b",), ((2, 9),))
    assert given.at(slice(1)) == Ranking(("a#1",), (3.0,), ("a",), ((0, 5),))
    assert given.at([]) == Ranking()
    assert given.at(slice(9)) == given


def former(queries, units, codes, scores, lengths, **more):
    """What was kept before scores stood apart."""
    written, buffer = json.dumps({"queries": queries, "units": units, "more": more}), io.BytesIO()
    arrays = {"lengths": np.array(lengths, np.int32), "codes": np.array(codes, np.int32), "scores": np.array(scores)}
    np.savez(buffer, text=np.frombuffer(written.encode(), dtype=np.uint8), **arrays)
    return zlib.compress(buffer.getbuffer(), LEVEL)


def test_what_was_kept_in_the_former_form_is_read():
    content = former(
        ["q1", "q2"], [["a#1", "a", [0, 5]], ["b#1", "b", [2, 9]]], [0, 1, 1], [3.0, 2.0, 0.1], [2, 1], told=1
    )
    found = decode_rankings(content)
    assert found.rankings == {"q1": CHUNKS["q1"], "q2": Ranking(("b#1",), (0.1,), ("b",), ((2, 9),))}
    assert found.more == {"told": 1}


def test_a_foreign_run_is_told_apart_by_its_content_and_by_nothing_else():
    """Not by the order of its queries, nor by bytes that another zlib or numpy would write otherwise."""
    found = {"q": Ranking(("a", "b"), (2.0, 1.0)), "p": Ranking(("b",), (0.5,))}
    assert fingerprint(found).hex() == "a412783531974691cf66d70cbf2cd6ca"
    assert fingerprint(dict(reversed(found.items()))) == fingerprint(found)
    others = [
        {**found, "p": Ranking(("b",), (0.25,))},
        {**found, "p": Ranking(("c",), (0.5,))},
        {**found, "p": Ranking()},
        {"q": found["q"], "r": found["p"]},
        {"q": found["q"]},
    ]
    assert len({fingerprint(each) for each in (found, *others)}) == 6


@pytest.mark.parametrize("scores", [np.random.default_rng(0).random(5000), 1 / (60.0 + np.arange(5000) % 100)])
def test_scores_read_back_to_the_last_bit_and_repeated_ones_take_little(scores):
    given = {"q": Ranking([f"d{at}" for at in range(5000)], scores)}
    assert decode_rankings(encode_rankings(given)).rankings["q"].values.tobytes() == scores.tobytes()
    unique = len(np.unique(scores)) > 100
    assert (len(encode_rankings(given)) > scores.nbytes) == unique


def test_a_unit_is_written_once_where_it_is_first_met():
    units, codes = numbered([ITEMS["q3"], ITEMS["q1"]])
    assert [unit for unit, _, _ in units] == ["c", "d", "a", "b"]
    assert codes.tolist() == [0, 1, 2, 3, 0]


def test_a_hit_takes_twelve_bytes_and_no_more_than_was_cut_is_held():
    """A suite of 36 runs has tens of millions of them."""
    best = {
        f"q{at}": Ranking([f"d{(at * 7 + n) % 500}" for n in range(200)], np.arange(200, 0, -1)) for at in range(20)
    }
    legs = [LegRankings(name, Bm25Leg(), 200, best) for name in ("one", "two")]
    made = fuse_all(FusionArrays.of(legs), LinearFusion(), cut=ResultCut(depth=50))
    for rankings in (made, decode_rankings(encode_rankings(made)).rankings, share_units(best)):
        assert len({id(ranked.units) for ranked in rankings.values()}) == 1
        assert all(ranked.codes.nbytes + ranked.values.nbytes == 12 * ranked.length for ranked in rankings.values())
    whole = 20 * 50 * 12
    for ranked in made.values():
        bases = [each if each.base is None else each.base for each in (ranked.codes, ranked.values)]
        assert sum(each.nbytes for each in bases) <= whole
