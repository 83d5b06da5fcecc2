"""A clock that jumps breaks no load, no time-out, and no notion of what is the newest."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from core import bridge
from core.http import EndpointFailure, RetryPolicy, client, post, with_retries
from core.store.engine import Store
from tests.conftest import TEST_DSN
from tests.drills.faults import clock
from tests.unit.misbehaving import Pauses, Reply, serving

AHEAD = timedelta(days=400)


@pytest.mark.skipif(TEST_DSN is not None, reason="its process opens the embedded server of the test run")
def test_a_load_under_a_clock_that_jumps_by_years_is_whole_and_its_times_are_true(store: Store, tmp_path: Path) -> None:
    try:
        outcome = clock.under_load(store, tmp_path)
    except clock.NoFakeClock as reason:
        pytest.skip(str(reason))
    assert outcome.injected > 10
    assert outcome.clean, outcome


def test_after_the_clock_was_put_back_the_newest_is_still_what_came_last(store: Store) -> None:
    outcome = clock.put_back(store)
    assert outcome.clean, outcome


def test_an_endpoint_whose_clock_is_another_is_waited_for_as_long_as_it_asks() -> None:
    """Retry-After as a date is of the endpoint's clock, which its Date header tells."""
    theirs = datetime.now(UTC) + AHEAD
    asked = {"Date": format_datetime(theirs, usegmt=True)}
    later = asked | {"Retry-After": format_datetime(theirs + timedelta(seconds=7), usegmt=True)}
    pauses, patience = Pauses(), RetryPolicy(timeout=5, attempts=2)

    async def ask(url: str) -> bytes:
        async with client("", "") as sender:
            return await with_retries(patience, lambda: post(sender, url, {}, patience), pauses)

    with serving(Reply(b"", 429, later), Reply(b"{}")) as endpoint:
        assert bridge.run(ask(endpoint.url)) == b"{}"
    assert pauses == [7.0]
    with serving(Reply(b"", 429, {"Retry-After": later["Retry-After"]})) as endpoint, pytest.raises(EndpointFailure):
        bridge.run(ask(endpoint.url))
    assert pauses == [7.0], "without that header the date is a year away, which is too long to wait"
