"""What a page says while the server is waited for."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.app.test_search_page import written

SENTENCE = "Waiting for PostgreSQL for 4 s: process 12 (startup <recovering>)."


def waits_on() -> None:
    """A page whose drawing ends while it still waits, so that a test sees what stands there then."""
    import threading

    import streamlit as st

    from tests.app.test_server_waits import SENTENCE
    from workbench import server_waits
    from workbench.ui import waiting

    with waiting.drawn():
        waiter = threading.Thread(target=server_waits.tell, args=(SENTENCE,))  # the server is waited for in a thread
        waiter.start()
        waiter.join()
        st.stop()


def waited() -> None:
    import streamlit as st

    from tests.app.test_server_waits import SENTENCE
    from workbench import server_waits
    from workbench.ui import waiting

    with waiting.drawn():
        server_waits.tell(SENTENCE)
        st.write("drawn")
    server_waits.tell("Of another wait.")


def test_a_page_says_for_what_the_server_is_waited_for() -> None:
    page = AppTest.from_function(waits_on, default_timeout=30).run()
    assert not page.exception
    assert "process 12 (startup &lt;recovering&gt;)" in written(page)


def test_once_the_page_is_drawn_nothing_of_it_is_left() -> None:
    page = AppTest.from_function(waited, default_timeout=30).run()
    assert not page.exception
    assert "Waiting for" not in written(page)
    assert "Of another wait" not in written(page)
    assert [each.value for each in page.markdown] == ["drawn"]
