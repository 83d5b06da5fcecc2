"""What readers of documents make of a file: its text, its title, and what they say of the rest."""

# mypy: disable-error-code="no-untyped-call"

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, RankbookError
from evals.sources.readers import (
    AsciiDocReader,
    HtmlReader,
    MarkdownReader,
    RestructuredTextReader,
    WordReader,
    read_first,
    readers,
)
from evals.sources.readers.worker import IsolatedReaders
from tests.effort import examples, quickly

PAGES_AT = Path(__file__).parent / "pages"


@dataclass(frozen=True)
class Page:
    """A page in a shape that documentation has on the web: its title, its text, and words of its navigation."""

    title: str
    text: tuple[str, ...]
    navigation: tuple[str, ...]


PAGES: Final = {
    "sphinx": Page(
        "Filters",
        (
            "Filters",
            "A filter removes sediment",
            "The pump",
            "Never run the pump dry",
            "Cleaning",
            "Rinse the mesh every 30 days",
            "from siphon import Filter",
            "Filter(mesh=40).rinse()",
            "Close the valve",
            "Open the lid",
            "Micron",
            "150",
            "rinse(hard=False)",
            "Rinse the mesh with clear water",
        ),
        ("¶", "Installation guide", "Related Topics", "Wiring diagram", "Quick search", "Powered by", "Siphon authors"),
    ),
    "read_the_docs": Page(
        "Valves",
        ("Valves", "A valve shuts the line. Turn it a quarter.", "Types", "Ball and gate.", "valve --close\n  --slow"),
        (
            "Installation guide",
            "Wiring diagram",
            "Home crumb",
            "View page source",
            "Previous page",
            "Copyright",
            "Read the Docs",
            "Siphon top",
        ),
    ),
    "mkdocs_material": Page(
        "Pressure",
        (
            "Pressure",
            "Keep it under 3 bar. It rises when the relief valve sticks.",
            "Units",
            "One bar is 100 kPa.",
            "pressure:\n  max: 3",
            "kPa",
            "200",
            "More on gauges",
            "Tap the gauge twice.",
        ),
        (
            "Skip to content",
            "Pressure header",
            "Installation guide",
            "Toc entry",
            "¶",
            "Previous Valves",
            "Made with Material",
            "Table of contents",
            "Last update",
        ),
    ),
    "mkdocs": Page(
        "Pumps",
        ("Pumps", "The pump lifts water two metres.", "pump start", "Prime it.", "Start it."),
        ("Siphon brand", "Installation guide", "Toc entry", "built with", "Search modal", "From here you can search"),
    ),
    "divisions": Page(
        "Finding leaks",
        (
            "Finding leaks",
            "Pour dye into the tank and wait for ten minutes.",
            "seal under the pump is worn",
            "Tools",
            "dye, a torch and a dry cloth",
            "dye  5 ml\ntorch",
            "Meaning",
            "blue",
        ),
        ("Products list", "Contact us", "Siphon wins award", "New office", "Imprint page", "Latest news"),
    ),
    "bare": Page("Reset", ("Reset", "Hold the button.", "Wait 5 s.", "the manual"), ()),
    "table_layout": Page(
        "FAQ - Siphon",
        (
            "Frequently asked questions",
            "Why does the pump hum?",
            "Open the bleed screw",
            "A filter lasts about two years",
        ),
        ("Products list", "Shop now", "Jobs here"),
    ),
}


# -- HTML --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PAGES)
def test_the_main_part_of_a_page_is_its_text_and_navigation_is_not(name):
    page, read = PAGES[name], HtmlReader().read((PAGES_AT / f"{name}.html").read_bytes())
    assert [text for text in page.text if text not in read.text] == []
    assert [words for words in page.navigation if words in read.text] == []
    assert read.title == page.title


@pytest.mark.parametrize("name", [name for name in PAGES if PAGES[name].navigation])
def test_the_first_reader_keeps_taking_all_of_a_page(name):
    page, read = PAGES[name], read_first("x.html", (PAGES_AT / f"{name}.html").read_bytes())
    assert [words for words in page.navigation if words not in read.text] == []


def test_code_on_a_page_stands_between_fences_and_cells_in_rows():
    code, row = b"<pre># no heading\n<b>x</b></pre>", b"<tr><td><p>a</p></td><td><p>b</p></td></tr>"
    page = b"<main><h1>T</h1>" + code + b"<table>" + row + b"</table></main>"
    assert HtmlReader().read(page).text == "# T\n\n```\n# no heading\nx\n```\n\na | b"


def test_a_page_without_head_and_body_has_its_main_part_too():
    page = b"<title>Site</title><nav>All pages</nav><main><h1>Toaster</h1><p>It browns.</p></main>"
    assert HtmlReader().read(page).text == "# Toaster\n\nIt browns."


def test_a_page_of_links_alone_keeps_them():
    page = b"<ul>" + b"".join(b"<li><a href=x>Chapter %d of the manual</a></li>" % each for each in range(9)) + b"</ul>"
    assert "Chapter 8 of the manual" in HtmlReader().read(page).text


@pytest.mark.parametrize(
    "piece",
    [
        "<a ",
        "<a>",
        "<!--",
        "</",
        "<![x",
        "<![if>",
        "<p a='",
        '<p a=">',
        "<script>",
        "<?",
        "&#",
        "<",
        "<div>",
        "<main>",
        "<ul><li>",
        "<table><td>",
        "<div class=nav>",
        "<a href=x>y</a>",
    ],
)
def test_hostile_pages_take_no_longer_than_their_length_asks(piece):
    with quickly(5):
        HtmlReader().read((piece * 10_000).encode())


def test_a_page_nested_deeper_than_the_parser_goes_loses_nothing():
    deep = "<div>" * 5000 + "<p>the end of it</p>"
    assert "the end of it" in HtmlReader().read(deep.encode()).text


# -- titles ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reader", "source", "title"),
    [
        (MarkdownReader, "---\ntitle: Front\n---\n# Heading\n", "Front"),
        (MarkdownReader, "text\n\n# Heading #\n", "Heading"),
        (MarkdownReader, "```\n# no\n```\n## Second\n", None),
        (MarkdownReader, "Under\n=====\n", "Under"),
        (MarkdownReader, '<h1 align="center">The <b>pump</b></h1>\n', "The pump"),
        (MarkdownReader, "---\ntitle:\n---\n# C#\n", "C#"),
        (HtmlReader, "<title>Site</title><h1>Page</h1>", "Page"),
        (HtmlReader, "<title>Site</title><h2>Part</h2>", "Site"),
        (HtmlReader, "---\ntitle: Front\n---\n<h1>Page</h1>", "Front"),
        (RestructuredTextReader, ":title: Field\n\nHeading\n=======\n", "Field"),
        (RestructuredTextReader, "-------\nHeading\n-------\n\nText.\n", "Heading"),
        (RestructuredTextReader, "Text alone.\n", None),
        (AsciiDocReader, "= Document\n\n== Part\n", "Document"),
        (AsciiDocReader, ":doctitle: Attribute\n\ntext\n", "Attribute"),
        (AsciiDocReader, "The guide\n=========\nAnn Author\n\nPart\n----\n", "The guide"),
    ],
)
def test_titles_come_from_front_matter_then_the_first_heading(reader, source, title):
    assert reader().read(source.encode()).title == title


# -- reStructuredText --------------------------------------------------------------------------------------------------

RST = """\
:author: Ann

.. _filters:

Filters
=======

.. toctree::
   :maxdepth: 2

   install

See :ref:`the pump <pump>`, :py:func:`~siphon.rinse` and ``mesh=40``.

.. note:: One bar is *100* kPa.

.. versionadded:: 2.0
   The hard option.

Cleaning
--------

.. code-block:: python
   :linenos:

   # no heading
   rinse()

.. py:function:: siphon.rinse(hard=False)
   :module: siphon

   With clear water.

   :param hard: use pressure

* one
* two

term
   its definition

====  ======
Mesh  Micron
====  ======
40    400
====  ======

.. module:: siphon

.. tab-set::

   .. tab-item:: Linux

      Run the script.

.. image:: x.png
   :alt: A picture of a pump
"""


def test_restructured_text_becomes_text_with_sphinx_s_own_directives_and_roles():
    read = RestructuredTextReader().read(RST.encode())
    assert (read.title, dict(read.metadata), read.notes) == ("Filters", {"author": "Ann"}, ())
    assert read.text == (
        "# Filters\n\nSee the pump, rinse and `mesh=40`.\n\nNote: One bar is 100 kPa.\n\nNew in version 2.0 "
        "The hard option.\n\n## Cleaning\n\n```python\n# no heading\nrinse()\n```\n\nsiphon.rinse(hard=False)\n\n"
        "With clear water.\n\nparam hard: use pressure\n\n- one\n- two\n\nterm\nits definition\n\n"
        "Mesh | Micron\n40 | 400\n\nLinux\n\nRun the script.\n\nA picture of a pump"
    )


def test_restructured_text_includes_nothing_and_says_so(tmp_path):
    (tmp_path / "secret").write_text("the secret")
    at = tmp_path / "secret"
    source = f".. include:: {at}\n\n.. csv-table::\n   :file: {at}\n\n.. raw:: html\n   :file: {at}\n\nText."
    read = RestructuredTextReader().read(source.encode())
    assert "the secret" not in read.text
    assert read.text.endswith("Text.")
    assert "include" in read.notes[0]
    assert "raw html" in read.notes[0]


def test_what_is_malformed_in_restructured_text_stays_as_it_was_written():
    source = "A\n=\n\n===  ===\na b c d e\n===  ===\n\nB\n~\n\nC\n+\n\nunbalanced *emphasis\n"
    text = RestructuredTextReader().read(source.encode()).text
    assert "a b c d e" in text
    assert "unbalanced *emphasis" in text


# -- AsciiDoc ----------------------------------------------------------------------------------------------------------

ADOC = """\
= Siphon Guide
Ann Author <ann@example.org>
v1.0, 2024-01-01
:product: Siphon

== Filters

A filter for *{product}* removes _sediment_.
See <<pump,the pump>> and https://example.org/x[the docs], or link:a.html[this].

// a remark
[source,python]
----
# no heading
rinse()  // stays
----

mesh:: holes per inch

Pump
~~~~

.Steps
* Close the valve
** Wait
. First

|===
|Mesh |Micron
|===

include::other.adoc[]

////
= hidden
////

====
An example
====

ifdef::pro[]
Only here.
endif::[]

[[pump]]
=== The pump
"""


def test_asciidoc_becomes_text_and_follows_no_include():
    read = AsciiDocReader().read(ADOC.encode())
    assert read.title == "Siphon Guide"
    assert "other.adoc" in read.notes[0]
    assert read.text == (
        "# Siphon Guide\n\n## Filters\n\nA filter for Siphon removes sediment.\nSee the pump and the docs, or this.\n\n"
        "```python\n# no heading\nrinse()  // stays\n```\n\nmesh: holes per inch\n\n"
        "### Pump\n\nSteps\n- Close the valve\n  - Wait\n1. First\n\n"
        "Mesh | Micron\n\nAn example\n\nOnly here.\n\n### The pump"
    )


def test_a_link_without_a_text_is_the_name_of_what_it_points_at():
    source = "Relocated to xref:html:docinfo.adoc[]. Write to mailto:a@b.org[], see link:guide.pdf[] kbd:[]now."
    text = AsciiDocReader().read(source.encode()).text
    assert text == "Relocated to html:docinfo.adoc. Write to a@b.org, see guide.pdf now."


@pytest.mark.parametrize(
    "piece", ["*a ", "_a", "#a ", "https://", "link:", "<<", "[[", "[", "{a}", "|", "----\n", "== "]
)
def test_hostile_asciidoc_takes_no_longer_than_its_length_asks(piece):
    with quickly(5):
        AsciiDocReader().read((piece * 10_000).encode())


# -- Word, PDF, notebooks ----------------------------------------------------------------------------------------------

TYPES = "http://schemas.openxmlformats.org/package/2006"
WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


def word(*paragraphs: tuple[str, str]) -> bytes:
    body = "".join(
        f'<w:p><w:pPr><w:pStyle w:val="{style}"/></w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>'
        for style, text in paragraphs
    )
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{TYPES}/content-types"><Default Extension="xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{TYPES}/relationships"><Relationship Id="r1" Type="{office}" '
        'Target="word/document.xml"/></Relationships>',
        "word/document.xml": f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>',
    }
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return made.getvalue()


def pdf(*pages: str) -> bytes:
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(len(pages)))
    objects = ["<</Type/Catalog/Pages 2 0 R>>", f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>"]
    objects.append("<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>")
    for at, text in enumerate(pages):
        drawn = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET"
        box = "/MediaBox[0 0 595 842]/Resources<</Font<</F1 3 0 R>>>>"
        objects.append(f"<</Type/Page/Parent 2 0 R{box}/Contents {5 + 2 * at} 0 R>>")
        objects.append(f"<</Length {len(drawn)}>>\nstream\n{drawn}\nendstream")
    made, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(made))
        made += f"{number} 0 obj\n{each}\nendobj\n".encode()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    end = f"xref\n0 {len(places) + 1}\n0000000000 65535 f \n{table}trailer<</Size {len(places) + 1}/Root 1 0 R>>\n"
    return made + f"{end}startxref\n{len(made)}\n%%EOF".encode()


def notebook(*cells: tuple[str, str]) -> bytes:
    made = [{"cell_type": kind, "source": [source], "outputs": [{"text": "an output"}]} for kind, source in cells]
    return json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": made}).encode()


@pytest.fixture(scope="module")
def isolated() -> Iterator[IsolatedReaders]:
    """One process for several tests: it takes a moment to begin."""
    with IsolatedReaders() as begun:
        yield begun


needs_markitdown = pytest.mark.skipif(not WordReader.available(), reason="the extra `documents` is not installed")


@needs_markitdown
@pytest.mark.slow
def test_word_pdf_and_notebooks_are_read(isolated):
    read = isolated.read("word", word(("Heading1", "The pump"), ("Normal", "It lifts water.")))
    assert (read.title, read.text) == ("The pump", "# The pump\n\nIt lifts water.")
    read = isolated.read("pdf", pdf("Water rises.", "A second page."))
    assert [page.strip() for page in read.text.split("\f")] == ["Water rises.", "A second page."]
    read = isolated.read("notebook", notebook(("markdown", "# Tour"), ("code", "x = 1")))
    assert (read.title, read.text) == ("Tour", "# Tour\n\n```python\nx = 1\n```")
    assert "text recognition" in isolated.read("pdf", pdf("")).notes[0]


@needs_markitdown
@pytest.mark.slow
@pytest.mark.parametrize(
    ("reader", "raw", "message"),
    [
        ("pdf", b"no pdf", "not a PDF"),
        ("pdf", b"%PDF-1.7 rubbish", "not a readable PDF"),
        ("word", b"PK no zip", "not a Word document"),
        ("word", notebook(), "not a Word document"),
        ("notebook", b"[1", "not a readable notebook"),
        ("notebook", b"[" * 100_000, "notebook|nested"),
    ],
)
def test_what_is_no_such_document_is_refused_in_a_sentence(isolated, reader, raw, message):
    with pytest.raises(InputError, match=message):
        isolated.read(reader, raw)


@pytest.mark.slow
@needs_markitdown
def test_a_word_document_that_unpacks_to_far_more_than_it_is_is_refused():
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b"<x>" + b" " * 2**26)
    with pytest.raises(InputError, match="more came out"):
        WordReader().read(made.getvalue())


# -- the process -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_file_that_takes_too_long_is_refused_and_the_next_one_is_read():
    with IsolatedReaders() as isolated:
        assert isolated.read("restructuredtext", b"A\n=\n").title == "A"
        isolated.seconds = 0.5
        with pytest.raises(InputError, match=r"took longer than 0\.5 seconds"):
            isolated.read("restructuredtext", b"*a " * 2_000_000)
        isolated.seconds = 60
        assert isolated.read("restructuredtext", b"B\n=\n").title == "B"


@pytest.mark.slow
def test_a_file_that_takes_too_much_memory_is_kept_as_it_was_written():
    raw = b"- a\n\n" * 2_000_000
    with IsolatedReaders(memory=2**29) as isolated:
        read = isolated.read("restructuredtext", raw)
        assert read.text == raw.decode()
        assert "MemoryError" in read.notes[0]


@pytest.mark.slow
def test_the_process_of_readers_opens_no_connection_and_starts_no_program():
    import subprocess
    import sys

    program = (
        "import socket, subprocess\n"
        "from evals.sources.readers.worker import restrict_process\n"
        "restrict_process(2**32)\n"
        "for work in (lambda: socket.create_connection(('127.0.0.1', 9)), lambda: subprocess.run(['true'])):\n"
        "    try:\n"
        "        work()\n"
        "    except PermissionError:\n"
        "        print('refused')\n"
    )
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["refused", "refused"]


# -- anything ----------------------------------------------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        "\n",
        "  ",
        "= ",
        "== ",
        "----\n",
        "|===\n",
        "|",
        "* ",
        "[",
        "]",
        "::",
        ".. ",
        ".. note::",
        ":ref:`",
        "`",
        "**",
        "<<",
        "include::",
        "{",
        "}",
        "+---+\n",
        "====\n",
        "<p>",
        "<main>",
        "<h1>",
        "</",
        "<td>",
        "<pre>",
        "---\n",
        "a: ",
        "_",
        "#",
    ]
)


@examples(20)
@given(
    name=st.sampled_from(["markdown", "html", "restructuredtext", "asciidoc"]),
    text=st.lists(PIECES | st.text(max_size=8), max_size=20).map("".join),
    raw=st.binary(max_size=10),
)
def test_arbitrary_bytes_give_a_document_or_a_sentence(name, text, raw):
    try:
        read = readers[name]().read(text.encode("utf-8", "replace") + raw)
    except RankbookError as error:
        assert str(error)  # noqa: PT017
    else:
        assert isinstance(read.text, str)
        json.dumps(dict(read.metadata))
