"""The address bar is the only truth, but for what a browser sends that has not heard of a move yet."""

from __future__ import annotations

import time

from streamlit.testing.v1 import AppTest

from workbench.components.url_state import MOVED, UNDER_WAY, Move


def page() -> None:
    from typing import Any

    import streamlit as st
    from streamlit.runtime.scriptrunner import get_script_run_ctx

    from workbench.components import url_state

    run: Any = get_script_run_ctx()
    run.is_history_navigation = st.session_state.get("back", False)
    run.fragment_ids_this_run = st.session_state.get("parts")  # what a part's clock asks for says which part
    st.button("Move", on_click=url_state.go, kwargs={"cell": "second"})
    st.button("Move on", on_click=url_state.go, kwargs={"cell": "third"})
    st.text(url_state.said().get("cell", "nowhere"))


def moved() -> AppTest:
    """From the first cell to the second; then the browser says again what it said before."""
    app = AppTest.from_function(page)
    app.query_params["cell"] = "first"
    app.run().button[0].click().run()
    assert app.text[0].value == "second"
    app.query_params["cell"] = "first"
    return app


def long_ago(app: AppTest) -> AppTest:
    move: Move = app.session_state[MOVED]
    app.session_state[MOVED] = Move(move.page, move.before, move.after, time.monotonic() - 2 * UNDER_WAY)
    return app


def test_a_run_from_before_the_move_does_not_undo_it():
    app = moved().run()
    assert app.text[0].value == "second"
    assert app.query_params["cell"] == "second"


def test_a_parts_clock_does_not_undo_it_however_late_it_comes():
    app = long_ago(moved())
    app.session_state["parts"] = ["part"]
    assert app.run().text[0].value == "second"


def test_two_moves_in_a_row_are_both_kept():
    app = moved()
    app.button[1].click().run()
    assert app.text[0].value == "third"
    for heard in ("first", "second"):
        app.query_params["cell"] = heard
        assert app.run().text[0].value == "third"
    app.button[0].click().run()
    app.query_params["cell"] = "third"
    assert app.run().text[0].value == "second"


def test_the_way_back_leads_back_at_once():
    app = moved()
    app.session_state["back"] = True
    assert app.run().text[0].value == "first"


def test_who_was_led_back_stays_there_whatever_clocks_ask():
    app = long_ago(moved()).run()
    assert app.text[0].value == "first"
    app.session_state["parts"] = ["part"]
    assert app.run().text[0].value == "first"


def test_another_address_holds_as_it_is():
    app = moved()
    app.query_params["cell"] = "third"
    assert app.run().text[0].value == "third"
