"""The notebook page, as Streamlit would draw it."""

from __future__ import annotations

from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from pydantic import Field
from streamlit.testing.v1 import AppTest

from core.store.engine import Store
from evals.presentation.types import Output, Text
from tests.app.corpus import NOTEBOOK
from tests.app.test_desk import ended, locked
from tests.app.test_search_page import visit, written
from workbench.notebooks import session
from workbench.notebooks.cells import CellSpec, PythonExport, kinds
from workbench.notebooks.cells.base import CellContext
from workbench.notebooks.files import FOLDER, own_folder
from workbench.notebooks.session import NotebookSession


def draw() -> None:
    from workbench import session
    from workbench.components import feedback
    from workbench.screens.notebook import page as notebook_page

    with feedback.draw_errors():
        notebook_page.render(session.store())


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where this test's notebooks lie, with one in it."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    (tmp_path / "kettles.md").write_text(NOTEBOOK, encoding="utf-8")
    return tmp_path


@pytest.fixture
def page(store: Store, folder: Path) -> Iterator[AppTest]:
    yield AppTest.from_function(draw, default_timeout=60)
    for name in own_folder().own():
        opened(store, name).stop()


def opened(store: Store, name: str = "kettles") -> NotebookSession:
    return session.session_for(store, own_folder().find(name))


def shown(page: AppTest, **address: str) -> AppTest:
    return visit(page, notebook="kettles", **address)


def press(page: AppTest, key: str) -> AppTest:
    page.button(key=key).click().run()
    assert not page.exception
    return page


def choose(page: AppTest, key: str, option: str) -> AppTest:
    page.menu_button(key=key).click(option).run()
    assert not page.exception
    return page


def ran(page: AppTest, store: Store, key: str = "book.all", name: str = "kettles") -> AppTest:
    press(page, key)
    ended(opened(store, name))
    page.run()
    assert not page.exception
    return page


def states(page: AppTest) -> list[str]:
    """How every cell stands, as it is drawn."""
    from re import findall

    return [each.partition(" ")[0] for each in findall(r'rb-state rb-(\w+)"', written(page))]


def keys(page: AppTest) -> set[str]:
    return {str(each.key) for each in page.button}


def text_of(folder: Path, name: str = "kettles") -> str:
    return (folder / f"{name}.md").read_text(encoding="utf-8")


# -- reading and running -----------------------------------------------------------------------------------------------


def test_prose_and_cells_stand_in_the_notebooks_order(page):
    shown(page)
    html = written(page)
    found = [html.index(each) for each in ("<h1>Kettles", "For all cells", ">words<", "Between the two", ">scale<")]
    assert found == sorted(found)


def test_a_cell_that_never_ran_says_what_running_it_will_show(page):
    shown(page)
    assert states(page) == ["never", "never"]
    assert "<b>Run</b> it to see: one query" in written(page)
    assert page.button(key="book.stale").label == "Run stale (2)"


def test_running_all_shows_outputs_with_their_times(page, store):
    ran(shown(page), store)
    assert states(page) == ["fresh", "fresh"]
    assert page.button(key="book.stale").disabled
    assert "Descale the kettle" in written(page) + "".join(each.proto.json for each in page.get("bidi_component"))


def bar(page: AppTest) -> list[tuple[str, bool]]:
    """The buttons of the bar in their order, and whether each can be pressed."""
    keys = ("book.all", "book.stale", "book.stop", "book.undo", "bar-commands")
    return [(each.key, not each.disabled) for each in page.button if each.key in keys]


def test_what_cannot_be_done_now_is_in_the_bar_in_its_place_and_says_why(page, store):
    shown(page)
    assert bar(page) == [
        ("book.all", True),
        ("book.stale", True),
        ("book.stop", False),
        ("book.undo", False),
        ("bar-commands", True),
    ]
    assert page.button(key="book.stop").help == "Nothing is running."
    assert "Nothing was changed" in page.button(key="book.undo").help
    with locked(store):
        press(page, "book.all")
        assert [able for _, able in bar(page)] == [False, False, True, False, True]
        assert "Cells are running" in page.button(key="book.all").help
        press(page, "book.stop")
        assert [key for key, _ in bar(page)] == ["book.all", "book.stale", "book.stop", "book.undo", "bar-commands"]


def test_one_cell_runs_by_its_own_button_and_becomes_the_one_one_is_at(page, store):
    ran(shown(page), store, "run-words")
    assert states(page) == ["fresh", "never"]
    assert page.query_params == {"notebook": "kettles", "cell": "words"}


def test_a_failing_cell_says_why_and_the_others_are_drawn(page, store, folder):
    (folder / "kettles.md").write_text(NOTEBOOK.replace('"bm25"', '"bm52"'), encoding="utf-8")
    ran(shown(page), store)
    assert states(page) == ["failed", "fresh"]
    assert "Did you mean 'bm25'?" in unescape(written(page))


def test_without_an_address_the_tour_opens_and_says_that_it_is_not_ones_own(page, folder):
    (folder / "kettles.md").unlink()
    visit(page)
    assert "A tour of Rankbook" in written(page)
    assert "You have no notebook of your own yet" in written(page)


def test_an_unknown_notebook_is_named_with_what_there_is_and_another_can_be_chosen(page):
    visit(page, notebook="../kettles")
    assert "There is: chunking, fusion-weights, kettles" in written(page)
    page.selectbox(key="book.other").select("kettles").run()
    assert page.query_params == {"notebook": "kettles"}
    assert "<h1>Kettles</h1>" in written(page)


def test_a_notebook_without_cells_teaches_which_there_are(page, folder):
    (folder / "kettles.md").write_text("# Nothing yet\n", encoding="utf-8")
    shown(page)
    assert "There are no cells yet" in written(page)


# -- editing -----------------------------------------------------------------------------------------------------------


def test_a_saved_source_is_in_the_file_and_makes_the_output_stale(page, store, folder):
    ran(shown(page), store)
    press(page, "edit-words")
    page.text_area(key="text-kettles-words").input('query = "teapot"\nvariants = ["bm25"]\n').run()
    press(page, "save-words")
    assert 'query = "teapot"' in text_of(folder)
    assert states(page) == ["stale", "fresh"]
    assert "stale: the cell was changed" in written(page)


def test_save_and_run_does_both(page, store, folder):
    press(shown(page), "edit-words")
    page.text_area(key="text-kettles-words").input('query = "teapot"\nvariants = ["bm25"]\n').run()
    ran(page, store, "save-and-run-words")
    assert states(page)[0] == "fresh"
    assert 'query = "teapot"' in text_of(folder)


def test_a_source_that_is_not_valid_stays_open_and_puts_the_output_aside_until_it_is(page, store, folder):
    ran(shown(page), store)
    press(page, "edit-words")
    page.text_area(key="text-kettles-words").input('query = "kettle"\ntop_k = 0\n').run()
    ran(page, store, "save-and-run-words")
    assert "top_k = 0" in text_of(folder)
    assert states(page) == ["failed", "fresh"]
    assert page.text_area(key="text-kettles-words").value == 'query = "kettle"\ntop_k = 0\n'
    assert "put aside until the cell is valid again" in written(page)
    page.text_area(key="text-kettles-words").input('query = "kettle"\ntop_k = 2\n').run()
    ran(page, store, "save-and-run-words")
    assert states(page) == ["fresh", "fresh"]
    assert len(page.text_area) == 0


def test_the_form_edits_the_same_source_and_keeps_the_rest(page, folder):
    press(shown(page), "edit-words")
    page.segmented_control(key="view-words").set_value("Form").run()
    page.number_input(key="form-kettles-words.top_k").set_value(3).run()
    press(page, "save-words")
    assert 'query = "kettle"\nvariants = ["bm25"]\ntop_k = 3\n' in text_of(folder)


def test_text_is_edited_in_its_place(page, store, folder):
    part = next(each.id for each in opened(store).notebook.shown if "Between" in each.text)
    press(shown(page), f"edit-{part}")
    page.text_area(key=f"text-kettles-{part}").input("Something **else**.").run()
    press(page, f"save-{part}")
    assert "<strong>else</strong>" in written(page)
    assert "```\n\nSomething **else**.\n\n```search" in text_of(folder)


def test_what_another_window_saved_meanwhile_is_not_written_over_and_what_was_typed_stays(page, store, folder):
    press(shown(page), "edit-words")
    page.text_area(key="text-kettles-words").input('query = "mine"\n').run()
    other = AppTest.from_function(draw, default_timeout=60)
    press(shown(other), "edit-words")
    other.text_area(key="text-kettles-words").input('query = "theirs"\n').run()
    press(other, "save-words")
    press(page, "save-words")
    assert "Changed in another window" in written(page)
    assert page.text_area(key="text-kettles-words").value == 'query = "mine"\n'
    assert 'query = "theirs"' in page.code[0].value
    assert "theirs" in text_of(folder)
    press(page, "save-mine-over-it-words")
    assert "mine" in text_of(folder)


def test_a_deleted_cell_comes_back_by_undo(page, store, folder):
    ran(shown(page), store)
    choose(page, "menu-words", "Delete")
    assert "```search words" not in text_of(folder)
    assert page.button(key="book.undo").help == "Takes back: deletion of search cell words"
    press(page, "book.undo")
    assert text_of(folder) == NOTEBOOK
    assert states(page) == ["fresh", "fresh"]


def test_a_cell_moves_and_is_copied_and_renamed(page, store, folder):
    choose(shown(page), "menu-scale", "Move up")
    assert text_of(folder).index("search scale") < text_of(folder).index("Between")
    choose(page, "menu-scale", "Duplicate")
    assert text_of(folder).count('query = "scale"') == 2
    choose(page, "menu-words", "Rename")
    page.text_input(key="name-words").input("first").run()
    assert "```search first\n" in text_of(folder)
    assert page.query_params["cell"] == "first"


def test_an_output_folds_away_and_comes_back(page, store):
    ran(shown(page), store)
    choose(page, "menu-words", "Hide output")
    assert "folded away" in written(page)
    choose(page, "menu-words", "Show output")
    assert "folded away" not in written(page)


def test_a_new_cell_stands_where_it_was_asked_for_opened_and_about_the_notebooks_collection(page, store, folder):
    choose(shown(page), "add-scale", "search")
    made = opened(store).notebook.cells[1]
    assert 'query = "remove scale from the kettle"' in made.source
    assert page.query_params["cell"] == made.id
    assert page.text_area(key=f"text-kettles-{made.id}").value == made.source


def test_every_kind_can_be_added_and_is_valid(page, store, folder):
    for kind in (*kinds, "note"):
        choose(shown(page), "add-end", kind)
    assert [cell.kind for cell in opened(store).notebook.cells[2:]] == list(kinds)
    assert not opened(store).parsed.problems


def test_a_new_kind_of_cell_is_offered_in_its_place_run_and_drawn_without_a_view_of_its_own(
    page, store, folder, monkeypatch
):
    """One file and one import: menu, icon, form and example follow from the class."""
    monkeypatch.setattr(kinds, "_entries", dict(kinds._entries))

    @kinds.register("greeting")
    class GreetingCell(CellSpec):
        """A greeting from the collection."""

        icon = ":material/waving_hand:"
        place = kinds["search"].place + 1
        example = 'name = "Ada"\n'

        name: str = Field("you", description="Who is greeted.")

        async def run(self, context: CellContext) -> Output:
            opened = await context.open(self)
            return Output(blocks=(Text(text=f"Hello {self.name}, from {opened.view.name}"),))

        def python(self, export: PythonExport) -> str:
            return f"print('Hello {self.name}')"

    offered = shown(page).menu_button(key="add-end").options
    assert ":material/waving_hand: greeting" in offered
    assert [each.split()[1] for each in offered][:2] == ["search", "greeting"]
    choose(page, "add-end", "greeting")
    assert opened(store).notebook.cells[2].source == 'name = "Ada"\n'
    ran(page, store)
    assert states(page) == ["fresh", "fresh", "fresh"]
    assert "Hello Ada, from kettles" in written(page)


def test_another_collection_is_written_into_the_header(page, folder):
    shown(page)
    page.selectbox(key="book.collection").select("no vectors").run()
    assert not page.exception
    assert 'collection = "no vectors"\n' in text_of(folder)


def test_a_change_of_what_ships_makes_a_copy_to_which_the_address_moves(page, folder):
    visit(page, notebook="tour", cell="answer")
    choose(page, "menu-answer", "Delete")
    assert page.query_params["notebook"] == "my-tour"
    assert "stays as it is. Your change is in a copy of your own: my-tour." in written(page)
    assert "```context answer" not in text_of(folder, "my-tour")
    visit(page, notebook="tour")
    assert "<code>answer</code>" in written(page)


def test_a_new_notebook_is_begun_by_its_name(page, folder):
    shown(page)
    page.text_input(key="book.new.name").input("which-kettle").run()
    press(page, "book.new")
    assert page.query_params == {"notebook": "which-kettle"}
    assert text_of(folder, "which-kettle").startswith("# Which kettle\n")
    assert 'collection = "kettles"' in text_of(folder, "which-kettle")


def test_a_name_that_no_file_can_have_is_refused_in_a_sentence(page, folder):
    shown(page)
    page.text_input(key="book.new.name").input("../outside").run()
    press(page, "book.new")
    assert "cannot be a notebook's name" in unescape(written(page))
    assert not (folder.parent / "outside.md").exists()


def test_a_file_that_another_program_changed_is_not_written_over(page, store, folder):
    choose(shown(page), "menu-words", "Delete")
    theirs = NOTEBOOK.replace('"scale"', '"lime"')
    (folder / "kettles.md").write_text(theirs, encoding="utf-8")
    page.run()
    assert "was changed on disk" in written(page)
    choose(page, "menu-scale", "Delete")
    assert "written over" in written(page)
    assert text_of(folder) == theirs
    press(page, "book.again")
    assert "lime" in opened(store).notebook.text
    assert "was changed on disk" not in written(page)


def test_what_is_here_can_be_saved_over_what_another_program_wrote(page, store, folder):
    choose(shown(page), "menu-words", "Delete")
    (folder / "kettles.md").write_text("# Theirs\n", encoding="utf-8")
    page.run()
    assert "-# Theirs" in "".join(each.value for each in page.code)
    press(page, "book.over")
    assert "```search scale" in text_of(folder)
    assert "was changed on disk" not in written(page)


def test_what_is_here_can_be_saved_under_another_name(page, store, folder):
    choose(shown(page), "menu-words", "Delete")
    (folder / "kettles.md").write_text("# Theirs\n", encoding="utf-8")
    page.run()
    press(page, "book.save")
    name = page.query_params["notebook"]
    assert name.startswith("kettles-")
    assert "```search scale" in text_of(folder, name)
    assert text_of(folder) == "# Theirs\n"


# -- strangers' texts --------------------------------------------------------------------------------------------------


def test_prose_runs_nothing_and_fetches_nothing(page, folder):
    trap = (
        "<script>window.harmed = 1</script> <img src=x onerror=alert(1)>\n\n![spy](https://example.org/x.png)\n\n"
        "[link](javascript:alert(1)) [fine](https://example.org)\n"
    )
    (folder / "kettles.md").write_text(trap, encoding="utf-8")
    shown(page)
    html = written(page)
    assert "<script" not in html
    assert "<img" not in html
    assert 'href="javascript' not in html
    assert '<a href="https://example.org" target="_blank" rel="noopener noreferrer">fine</a>' in html


def test_titles_and_mistakes_are_text(page, folder):
    bad = NOTEBOOK.replace('query = "kettle"', 'title = "<script>x</script>"\nquery = "kettle"').replace(
        '"fulltext"', '"<b>nothing</b>"'
    )
    (folder / "kettles.md").write_text(bad, encoding="utf-8")
    shown(page)
    assert "<script>" not in written(page)
    assert "&lt;script&gt;x&lt;/script&gt;" in written(page)
    assert "<b>nothing</b>" not in written(page)


# -- commands ----------------------------------------------------------------------------------------------------------


def test_keys_go_from_part_to_part_and_stay_at_the_ends(page):
    shown(page, cell="words")
    press(page, "key-next")
    between = page.query_params["cell"]
    assert between not in ("words", "scale")
    press(page, "key-next")
    assert page.query_params["cell"] == "scale"
    press(page, "key-next")
    assert page.query_params["cell"] == "scale"


def test_the_list_of_commands_names_every_key(page):
    from workbench.screens.notebook.keyboard import COMMANDS

    press(shown(page), "key-commands")
    labels = {each.label for each in page.button if str(each.key).startswith("command-")}
    assert labels == {each.label for each in COMMANDS}
    press(page, "command-all")
    assert not any(key.startswith("command-") for key in keys(page))


def test_the_run_key_saves_what_is_typed_into_the_cell_one_is_at(page, store, folder):
    press(shown(page), "edit-words")
    page.text_area(key="text-kettles-words").input('query = "teapot"\nvariants = ["bm25"]\n').run()
    ran(page, store, "key-run")
    assert "teapot" in text_of(folder)
    assert states(page)[0] == "fresh"


def handed_cell(page: AppTest) -> Any:
    """What the scrolling script is told."""
    import json

    for element in page.get("bidi_component"):
        if element.key == "book.scroll":
            return json.loads(element.proto.json)["cell"]
    return None


def test_a_link_names_the_cell_to_be_scrolled_to(page):
    shown(page, cell="scale")
    assert handed_cell(page) == "scale"
