"""Endpoints that misbehave in every way are told of in a sentence, within bounds of time and size."""

from __future__ import annotations

import pytest

from core import bridge
from core.errors import RankbookError
from tests.drills.faults.endpoints import AT_MOST, KINDS, WITHIN, Kind, meet, well_met, wrongs
from tests.drills.faults.outcome import is_sentence
from tests.unit.misbehaving import Pauses, Reply, serving

CASES = [pytest.param(kind, reply, id=f"{kind.name}: {name}") for kind in KINDS for name, reply in wrongs(kind).items()]


@pytest.mark.parametrize(("kind", "reply"), CASES)
def test_every_misbehaviour_becomes_a_sentence_in_bounded_time_and_size(kind: Kind, reply: Reply) -> None:
    met = meet(kind, reply)
    assert is_sentence(met.said), met.said
    assert well_met(kind, met), met
    assert all(pause <= 30 for pause in met.pauses)
    assert ("compressed" in met.said) == ("Content-Encoding" in reply.headers), "what would unpack is not unpacked"


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_an_answer_that_is_too_long_is_left_at_the_cap_and_not_when_time_is_up(kind: Kind) -> None:
    met = meet(kind, Reply(b" " * (kind.largest + 2**20)), within=3 * AT_MOST)
    assert f"longer than {kind.largest:,} bytes" in met.said
    assert met.asked == 1


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_a_redirect_takes_nothing_elsewhere(kind: Kind) -> None:
    """307 would have query, texts and key sent again, to wherever it says."""
    with serving(Reply(b"")) as elsewhere, serving(Reply(b"", 307, {"Location": elsewhere.url})) as endpoint:
        with pytest.raises(RankbookError):
            bridge.run(kind.ask(endpoint, Pauses(), WITHIN))  # type: ignore[arg-type]
        assert endpoint.asked
        assert elsewhere.asked == []
