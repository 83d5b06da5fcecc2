"""What a page says while the server is waited for."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
from collections.abc import Iterator

import pytest
from streamlit.testing.v1 import AppTest

from core import bridge
from core.errors import DeadlineExceeded
from core.store import collections
from core.store.engine import Store
from core.store.server import supervisor
from core.store.server.embedded import START
from evals.schema import schema_chain
from tests.app.test_demo_page import DEMO_APP, QUERY
from tests.app.test_search_page import written
from tests.conftest import TEST_DSN, make_home
from tests.fakes import HashingEmbedder
from tests.store.making import documents, ingest, make
from workbench.demo import show
from workbench.demo.answers import Answer, Answers
from workbench.demo.show import DemoOptions
from workbench.server import waits

SENTENCE = "Waiting for PostgreSQL for 4 s: process 12 (startup <recovering>)."


def waits_on() -> None:
    """A page whose drawing ends while it still waits, so that a test sees what stands there then."""
    import threading

    import streamlit as st

    from tests.app.test_server_waits import SENTENCE
    from workbench.components import server_waits
    from workbench.server import waits

    with server_waits.drawn():
        waiter = threading.Thread(target=waits.tell, args=(SENTENCE,))  # the server is waited for in a thread
        waiter.start()
        waiter.join()
        st.stop()


def waited() -> None:
    import streamlit as st

    from tests.app.test_server_waits import SENTENCE
    from workbench.components import server_waits
    from workbench.server import waits

    with server_waits.drawn():
        waits.tell(SENTENCE)
        st.write("drawn")
    waits.tell("Of another wait.")


def test_a_page_says_for_what_the_server_is_waited_for() -> None:
    page = AppTest.from_function(waits_on, default_timeout=60).run()
    assert not page.exception
    assert "process 12 (startup &lt;recovering&gt;)" in written(page)


def test_once_the_page_is_drawn_nothing_of_it_is_left() -> None:
    page = AppTest.from_function(waited, default_timeout=60).run()
    assert not page.exception
    assert "Waiting for" not in written(page)
    assert "Of another wait" not in written(page)
    assert [each.value for each in page.markdown] == ["drawn"]


# -- the demo ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def own_store() -> Iterator[Store]:
    """A server of this test's own, which it may kill."""
    opened = bridge.run(Store.open(home=make_home(), chains=[schema_chain], progress=waits.tell))
    yield opened
    bridge.run(opened.close())


class LeftOnceTold(Answers):
    """Asked by a visitor whose patience ends once it was said that another process starts the server."""

    async def answer(self, query: str) -> Answer:
        told, loop = asyncio.Event(), asyncio.get_running_loop()

        def listen(sentence: str) -> None:
            if "another process" in sentence:
                loop.call_soon_threadsafe(told.set)

        with waits.heard_by(listen):
            found = asyncio.create_task(super().answer(query))
            await told.wait()
        found.cancel()
        raise DeadlineExceeded("No answer.")


@pytest.mark.skipif(TEST_DSN is not None, reason="it is the embedded server that is started again")
def test_the_demo_says_for_what_the_server_is_waited_for_and_answers_once_it_is_there(own_store: Store) -> None:
    """Somebody else is starting it again, and takes longer than a visitor is made to wait."""
    server = own_store.server
    assert server is not None
    make(own_store, "kettles", [HashingEmbedder()])
    ingest(own_store, "kettles", documents(3), [HashingEmbedder()])
    view = bridge.run(collections.get(own_store, "kettles"))
    made = bridge.run(show.opened(own_store, view, DemoOptions(variants=("bm25",))))
    page = AppTest.from_file(str(DEMO_APP), default_timeout=60)
    page.query_params["query"] = QUERY
    starting = supervisor.open_lock(server.cluster / START)
    try:
        show.set_current(dataclasses.replace(made, answers=LeftOnceTold(made.store, view, made.answers.variants)))
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert supervisor.try_lock(starting)
        bridge.run(made.store.engine.dispose())  # a connection that is not yet known to be lost would break in a search
        page.run()
        assert "The database is not ready yet" in written(page)
        assert "Waiting for another process of Rankbook, which is starting PostgreSQL" in written(page)
        supervisor.unlock(starting)
        show.set_current(made)
        page.run()
        assert "Waiting for another process" not in written(page)
        assert page.get("bidi_component")
    finally:
        os.close(starting)
        show.take_off()
        bridge.run(made.store.close())
