"""The parts of the pages that need no Streamlit."""

from __future__ import annotations

import socket
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import workbench
from core.errors import InputError
from core.types import Hit, Query
from evals.presentation.search_results import passage_of
from evals.types import Label, LabelledQueries
from workbench.components import cards, feedback
from workbench.screens.search.state import SearchState
from workbench.server import serve
from workbench.services import search, snippets
from workbench.services.search import LegHits, LegResults

WORKBENCH = Path(workbench.__file__).parent
anything = st.text(max_size=60)


def hit(unit: str, item: str, text: str = "", **also: object) -> Hit:
    return Hit(id=unit, item_id=item, score=1.0, rank=1, title="", text=text, **also)  # type: ignore[arg-type]


@given(anything, anything, anything, anything)
def test_a_selection_survives_the_address_bar(collection, level, query, opened):
    selection = SearchState(collection, level, query.strip(), opened)
    assert SearchState.of(selection.parameters()) == selection


@given(st.text(max_size=400), st.lists(st.text(alphabet="abc12", min_size=1, max_size=6), max_size=4))
def test_marking_loses_no_letter(text, keywords):
    assert "".join(piece for piece, _ in snippets.marked(text, keywords)) == text


@pytest.mark.parametrize(
    ("word", "keyword", "same"),
    [
        ("battery", "battery", True),
        ("batteries", "battery", True),
        ("resets", "reset", True),
        ("baterry", "battery", True),
        ("better", "letter", False),
        ("hub", "hubs", False),
        ("4120", "4121", False),
    ],
)
def test_words_match_when_they_are_spelled_much_alike(word, keyword, same):
    assert snippets.matched_words(word, [keyword]) == ([keyword] if same else [])


def test_a_number_does_not_match_inside_a_version():
    assert snippets.marked("4.3 or 3", ["3"]) == [("4.3 or ", False), ("3", True)]


def test_a_snippet_shows_the_stretch_with_most_of_the_keywords():
    text = "kettle " + "filler " * 80 + "the kettle has a leaking lid today " + "filler " * 80
    pieces = snippets.snippet(text, ["kettle", "leaking", "lid"])
    assert [piece for piece, hit in pieces if hit] == ["kettle", "leaking", "lid"]
    assert pieces[0] == ("… ", False)
    assert sum(len(piece) for piece, _ in pieces) <= snippets.WIDTH + 4


@given(st.text(max_size=900), st.lists(st.text(alphabet="abc ", min_size=1, max_size=5), max_size=3))
def test_a_snippet_is_never_much_longer_than_its_width(text, keywords):
    assert sum(len(piece) for piece, _ in snippets.snippet(text, keywords)) <= snippets.WIDTH + 4


def test_overlap_counts_items_by_the_number_of_legs():
    columns = {
        "vector": LegHits("vector", (hit("a#1", "a"), hit("b#1", "b"))),
        "fulltext": LegHits("fulltext", (hit("b#2", "b"),)),
    }
    found = LegResults((), columns)
    assert found.shared() == {1: 1, 2: 1}
    assert found.ranks("b") == {"vector": 2, "fulltext": 1}


def test_a_query_is_judged_by_all_splits_of_its_text():
    labelled = LabelledQueries(
        (Query("1", "same "), Query("2", "same"), Query("3", "other")),
        (Label("1", "a", 1), Label("2", "a", 3, "train"), Label("2", "b", 0), Label("3", "c", 2)),
    )
    assert search.query_labels(labelled, "same").grades == {"a": 3, "b": 0}
    assert search.query_labels(labelled, "unknown").grades == {}


def test_examples_are_labelled_and_take_turns_by_kind():
    queries = (Query("1", "x", "a"), Query("2", "y", "a"), Query("3", "z", "b"), Query("4", "unlabelled", "c"))
    labelled = LabelledQueries(
        queries, (Label("1", "d", 1), Label("2", "d", 1), Label("2", "e", 1), Label("3", "d", 1))
    )
    assert [query.id for query in search.example_queries(labelled)] == ["2", "3", "1"]


def test_pages_and_headings_read_well():
    assert cards.page_of(hit("a", "a", page_first=2, page_last=4)) == "p. 2\u20134"
    assert cards.page_of(hit("a", "a", page_first=2, page_last=2)) == "p. 2"
    assert cards.page_of(hit("a", "a")) == ""
    assert passage_of(hit("a", "a", "## Steps\nGo on.", heading_path=("Steps",))) == "Go on."
    assert passage_of(hit("a", "a", "## Steps", heading_path=("Steps",))) == "## Steps"


def test_an_error_is_escaped_and_its_command_set_as_code():
    assert feedback.as_html("<b> `a <c>`") == "&lt;b&gt; <code>a &lt;c&gt;</code>"


def test_nothing_beside_the_entry_file_hides_an_installed_package():
    """Streamlit puts the entry file's folder first on the import path."""
    ours = {path.stem for path in WORKBENCH.iterdir() if path.suffix == ".py" or path.is_dir()} - {
        "__init__",
        "__pycache__",
    }
    assert not ours & set(metadata.packages_distributions())


def test_the_server_listens_where_it_is_told_and_tells_nobody():
    settings = serve.settings("127.0.0.1", 9000)
    assert (settings["server.address"], settings["server.port"]) == ("127.0.0.1", 9000)
    assert settings["browser.gatherUsageStats"] is False


def test_streamlit_knows_every_setting():
    from streamlit import config

    known = config.get_config_options()
    assert serve.settings("::1", 1).keys() <= known.keys()


def test_a_port_that_was_asked_for_and_is_taken_is_refused():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"Port {port}"):
            serve._choose_port("127.0.0.1", port)


def test_without_a_port_asked_for_the_next_free_one_is_taken(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        monkeypatch.setattr(serve, "FIRST_PORT", taken.getsockname()[1])
        assert serve._choose_port("127.0.0.1", None) > taken.getsockname()[1]


def test_an_address_of_no_machine_is_refused():
    with pytest.raises(InputError, match="not an address"):
        serve._choose_port("no such host.invalid", None)


def test_the_address_to_open_is_one_that_a_browser_takes():
    assert serve.address("0.0.0.0", 1) == "http://127.0.0.1:1"
    assert serve.address("::1", 1) == "http://[::1]:1"


def test_the_wheel_carries_scripts_and_styles():
    """They lie in the package, of which the wheel takes everything."""
    project = tomllib.loads((WORKBENCH.parent / "pyproject.toml").read_text())
    assert "workbench" in project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    assert {path.suffix for path in (WORKBENCH / "components" / "assets").iterdir()} >= {".css", ".js", ".svg"}
