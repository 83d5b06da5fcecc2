"""The notebook document: nothing is lost in reading and writing, and a change leaves every other byte alone."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.errors import InputError, UnknownName
from tests.effort import examples
from workbench.notebooks import markdown
from workbench.notebooks.document import Cell, Notebook

PIECES = (
    "```search\n", "```search a\n", "~~~~evaluate\r\n", "```notebook\n", "```python\n", "```", "````", "~~~", "q = 1\n",
    "text", "\n", "\r\n", "\r", " ", "    ", "\t", "- ", "> ", "1. ", "# h\n", "---\n", "<!--", "-->", "<div>\n", "<b>",
    "`", "\\", "\ufeff", "\x00", "\x0c", "\u2028", "| a |\n|---|\n", "[x]: javascript:y\n", "[x](javascript:y)", "&lt;",
)  # fmt: skip
MARKDOWN = st.lists(st.sampled_from(PIECES), max_size=25).map("".join)
TEXTS = st.one_of(st.text(), MARKDOWN)
TOUR = """# Title

Prose.

```search first
query = "a"
```

More prose.

~~~~evaluate
variants = ["bm25"]
~~~~
"""


def cells_of(book: Notebook) -> list[tuple[str, str, str]]:
    return [(cell.kind, cell.name, cell.source) for cell in book.parts if isinstance(cell, Cell)]


# -- reading and writing -----------------------------------------------------------------------------------------------


@given(TEXTS)
@examples(60)
def test_what_was_read_is_written_back_to_the_last_byte(text):
    book = Notebook.parse(text)
    assert book.text == text
    assert len({part.id for part in book.parts}) == len(book.parts)
    assert Notebook.parse(text, like=book) == book


def test_cells_are_the_fenced_blocks_of_known_kinds():
    book = Notebook.parse(TOUR)
    assert cells_of(book) == [("search", "first", 'query = "a"\n'), ("evaluate", "", 'variants = ["bm25"]\n')]
    assert book.title == "Title"
    assert [book.line_of(cell.id) for cell in book.cells] == [5, 11]


@pytest.mark.parametrize(
    "text",
    [
        "````python\n```search\n```\n````\n",
        "- item\n  ```search\n  ```\n",
        "> ```search\n> ```\n",
        "<!--\n```search\n```\n-->\n",
        "    ```search\n    ```\n",
        "```searching\n```\n",
        "```search two words\n```\n",
    ],
)
def test_what_a_reader_would_not_see_as_a_cell_of_its_own_is_none(text):
    assert Notebook.parse(text).cells == ()


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("~~~search\na = 1\n```\n~~~\n", "a = 1\n```\n"),
        ("`````search\n```\n`````\n", "```\n"),
        ("  ```search\n  a = 1\n    b = 2\n  ```\n", "a = 1\n  b = 2\n"),
        ("```search\r\na = 1\r\n```\r\n", "a = 1\n"),
        ("\ufeff```search\na = 1\n```\n", "a = 1\n"),
        ("```search\na = 1", "a = 1"),
        ("```search\n```", ""),
        ("```search", ""),
    ],
)
def test_fences_of_every_form_hold_their_source(text, source):
    book = Notebook.parse(text)
    assert book.cells[0].source == source
    assert book.text == text


def test_an_unclosed_cell_is_known_as_such():
    assert [cell.closed for cell in Notebook.parse("```search\n```\n\n```search\n").cells] == [True, False]


def test_a_misspelt_kind_is_pointed_out_with_its_line():
    (line, said), *others = Notebook.parse("text\n\n```serach\n```\n\n```python\n```\n```text\n```\n").doubts
    assert (line, others) == (3, [])
    assert "'search'" in said


# -- changes -----------------------------------------------------------------------------------------------------------


@given(MARKDOWN, MARKDOWN, st.integers(0, 20))
@examples(60)
def test_a_cell_with_another_source_has_that_source_and_all_else_stays(text, source, at):
    book = Notebook.parse(text)
    cells = [part for part in book.parts if isinstance(part, Cell)]
    if not cells:
        return
    cell = cells[at % len(cells)]
    changed = book.replace(cell.id, source)
    place = book.parts.index(cell)
    assert [part.text for part in changed.parts[:place]] == [part.text for part in book.parts[:place]]
    assert [part.text for part in changed.parts[place + 1 :]] == [part.text for part in book.parts[place + 1 :]]
    wanted = re.sub("\r\n?", "\n", source)
    assert changed[cell.id].source == (wanted if not wanted or wanted.endswith("\n") else f"{wanted}\n")  # type: ignore[union-attr]
    assert cells_of(Notebook.parse(changed.text)) == cells_of(changed)


@given(MARKDOWN, st.integers(0, 20), st.integers(0, 20), st.sampled_from(["move", "last", "delete", "copy", "new"]))
@examples(60)
def test_whatever_is_done_to_parts_the_text_says_the_same_cells(text, one, other, what):
    book = Notebook.parse(text)
    if not book.parts:
        return
    part, before = (book.parts[at % len(book.parts)].id for at in (one, other))
    changes = {
        "move": lambda: book.move(part, before=before),
        "last": lambda: book.move(part),
        "delete": lambda: book.delete(part),
        "copy": lambda: book.duplicate(part)[0],
        "new": lambda: book.insert("search", 'query = "```"', before=before)[0],
    }
    try:
        changed = changes[what]()
    except InputError:  # it would stand in an open comment or fence: see below
        return
    assert cells_of(Notebook.parse(changed.text)) == cells_of(changed)
    gained = {"copy": 1, "new": 1}.get(what, 0)
    if what != "delete" and isinstance(book[part], Cell):
        assert len(cells_of(changed)) == len(cells_of(book)) + gained


def test_a_source_that_holds_a_fence_gets_a_longer_one():
    book = Notebook.parse("```search\n```\n")
    changed = book.replace(book.cells[0].id, "x = '''\n```\n'''\n")
    assert changed.text == "````search\nx = '''\n```\n'''\n````\n"


def test_the_same_source_changes_nothing_at_all():
    book = Notebook.parse("  ```search \r\n  a = 1\r\n  ``` \r\ntext")
    assert book.replace(book.cells[0].id, "a = 1\n") is not None
    assert book.replace(book.cells[0].id, "a = 1").text == book.text


def test_new_cells_stand_between_blank_lines_in_the_files_own_line_ends():
    book = Notebook.parse("One.\r\n```search\r\n```\r\n")
    changed, identity = book.insert("evaluate", "", name="mine", before=book.cells[0].id)
    assert changed.text == "One.\r\n\r\n```evaluate mine\r\n```\r\n\r\n```search\r\n```\r\n"
    assert changed[identity].kind == "evaluate"


def test_something_can_follow_an_unclosed_cell_which_is_closed_for_it():
    changed, _ = Notebook.parse("```search\na = 1").insert("search", "b = 2")
    assert [cell.source for cell in Notebook.parse(changed.text).cells] == ["a = 1\n", "b = 2\n"]


def test_a_cell_behind_an_open_comment_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="leaves a fence or an HTML comment open"):
        Notebook.parse("<!-- open\n").insert("search", "")


def test_prose_may_become_cells_and_the_others_keep_their_identities():
    book = Notebook.parse(TOUR)
    middle = book.parts[2]
    changed = book.replace(middle.id, "\nText.\n\n```compare\n```\n")
    assert [cell.kind for cell in changed.cells] == ["search", "compare", "evaluate"]
    assert (changed.cells[0].id, changed.cells[2].id) == (book.cells[0].id, book.cells[1].id)


# -- identities --------------------------------------------------------------------------------------------------------


def test_identities_are_the_same_wherever_the_same_text_is_read():
    again = Notebook.parse(TOUR)
    assert [part.id for part in again.parts] == [part.id for part in Notebook.parse(TOUR).parts]
    assert again.cells[0].id == "first"


def test_a_cell_keeps_its_identity_while_it_is_changed_and_moved():
    book = Notebook.parse(TOUR)
    second = book.cells[1].id
    changed = book.replace(second, "metrics = []").move(second, before=book.cells[0].id)
    assert [cell.id for cell in changed.cells] == [second, "first"]


def test_a_file_that_somebody_else_changed_gives_its_cells_their_old_identities():
    book = Notebook.parse(TOUR)
    others = TOUR.replace('"bm25"', '"vector"').replace("More prose.", "```context\n```\n\nOther prose.")
    read = Notebook.parse(others, like=book)
    assert [cell.kind for cell in read.cells] == ["search", "context", "evaluate"]
    assert (read.cells[0].id, read.cells[2].id) == (book.cells[0].id, book.cells[1].id)


def test_a_cell_is_found_by_number_and_name_and_a_wrong_one_is_refused_with_the_nearest():
    book = Notebook.parse(TOUR)
    assert book.cell("2").kind == "evaluate"
    assert book.cell("first").kind == "search"
    with pytest.raises(UnknownName, match="Did you mean 'first'"):
        book.cell("frist")
    with pytest.raises(UnknownName):
        book.cell("3")


# -- prose that can do no harm -----------------------------------------------------------------------------------------

HARM = "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)> **b** [x](javascript:alert(1)) ![p](http://x/y.png)"


def test_html_in_prose_is_text_and_pictures_are_words():
    shown = markdown.html(HARM)
    assert "<script" not in shown
    assert "<img" not in shown
    assert "href" not in shown
    assert "<strong>b</strong>" in shown
    assert "&lt;script&gt;" in shown


@given(TEXTS)
@example("\ufeff```\n<!A")  # a fence to readers that pass over a byte order mark, and to no other
@example("\ufeff\ufeff```\n<!A")
@examples(60)
def test_prose_for_readers_that_let_html_through_holds_none(text):
    lax = markdown._trusting()
    tokens = [each for token in lax.parse(markdown.inert(text)) for each in (token, *(token.children or ()))]
    assert not [token for token in tokens if token.type.startswith("html")]
    links = [str(token.attrs.get("href", "")) for token in tokens]
    assert all(markdown.reader().validateLink(link) for link in links)


def test_code_in_such_prose_stays_as_it_is():
    prose = "Use `a < b`, or <b>:\n\n```python\na < b\n```\n"
    assert markdown.inert(prose) == "Use `a < b`, or &lt;b>:\n\n```python\na < b\n```\n"
