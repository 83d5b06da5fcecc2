"""Folders of documents, and the bundled collections that are read through them."""

# mypy: disable-error-code="union-attr, no-untyped-call, attr-defined"
# In a test a Flaw where a Row was expected fails by itself.

from __future__ import annotations

import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError, RankbookError, SpecError, UnknownName
from core.types import Flaw, Row
from evals.sources import BundledSource, FolderSource, bundled_names, bundled_path, guess
from evals.sources.files import matches
from evals.sources.guess import source_of
from evals.sources.readers import NEWEST, PdfReader
from evals.sources.readers.base import split_front_matter
from evals.sources.readers.html import html_to_text
from tests.effort import examples, quickly

FRONT = "---\ntitle: Alarms\ndate: 2024-06-11\ntags: [a, b]\n---\n\n# Heading\n\nBody.\n"


def folder(root, files):
    for name, content in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return root


def read(source):
    rows = list(source.items())
    return [row.value for row in rows if isinstance(row, Row)], [row for row in rows if isinstance(row, Flaw)]


def test_front_matter_becomes_metadata_and_leaves_the_text(tmp_path):
    items, flaws = read(FolderSource(path=folder(tmp_path, {"area/a.md": FRONT})))
    assert flaws == []
    assert (items[0].id, items[0].title, items[0].text) == ("area/a", "Alarms", "# Heading\n\nBody.\n")
    assert items[0].metadata == {"date": "2024-06-11", "tags": ["a", "b"], "folder": "area"}


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.md", "---\ntitle: Front\n---\n# Heading\n", "Front"),
        ("b.md", "```\n# no\n```\n## Part\n# About C# ##\n", "About C#"),
        ("c-d_e.txt", "## Part\nplain", "c d e"),
        ("f.html", "<title> A  title</title><h1>H</h1>", "H"),
        ("g.htm", "<h2>Only <b>one</b></h2>", "g"),
        ("the_pump.adoc", "text", "the pump"),
    ],
)
def test_titles_come_from_front_matter_then_the_first_heading_then_the_files_name(tmp_path, name, text, title):
    assert read(FolderSource(path=folder(tmp_path, {name: text})))[0][0].title == title


@pytest.mark.slow
def test_restructured_text_is_read_by_itself(tmp_path):
    files = {"guide/a.rst": "Heading\n=======\n\nSee :ref:`b`.\n\n.. include:: b.rst\n", "b.rst": ".. x"}
    items, flaws = read(FolderSource(path=folder(tmp_path, files)))
    assert [(item.id, item.title, item.text) for item in items] == [
        ("b", "b", ""),
        ("guide/a", "Heading", "# Heading\n\nSee b."),
    ]
    assert [(flaw.subject, flaw.outcome) for flaw in flaws] == [("guide/a", "cleaned")]
    assert "include b.rst" in flaws[0].message


@pytest.mark.parametrize(
    ("name", "text", "title"),
    [
        ("a.md", "```\n# no\n```\n## Yes ##\n", "Yes"),
        ("b.md", "# About C#\n", "About C#"),
        ("c-d_e.txt", "plain", "c d e"),
        ("d.md", "---\ntitle: ''\n---\n# H", ""),
        ("f.html", "<title> A  title</title><h1>H</h1>", "A title"),
        ("g.htm", "<h2>Only <b>one</b></h2>", "Only one"),
    ],
)
def test_the_first_reader_keeps_its_own_titles(tmp_path, name, text, title):
    assert read(FolderSource(path=folder(tmp_path, {name: text}), reader=1))[0][0].title == title


# -- what is read, and what is said of the rest ------------------------------------------------------------------------

MIXED = {
    "guide/a.md": "# A",
    "guide/b.adoc": "= B",
    "c.adoc": "= C",
    "d.html": "<main><h1>D</h1></main>",
    "x.png": "x",
    "y/z.PNG": "x",
    "app.py": "x",
    "Makefile": "x",
    "_sources/a.md.txt": "# A",
    "_static/theme.html": "x",
    "search.html": "x",
    "genindex-A.html": "x",
    "drafts/e.md": "# E",
    "guide/f.tmp.md": "# F",
}


def messages_of(flaws):
    return " ".join(flaw.message for flaw in flaws if flaw.outcome == "noted")


def test_every_ending_that_was_not_read_is_listed_with_its_count(tmp_path):
    items, flaws = read(FolderSource(path=folder(tmp_path, MIXED)))
    assert [item.id for item in items] == ["c", "d", "drafts/e", "guide/a", "guide/b", "guide/f.tmp"]
    assert {flaw.place.file for flaw in flaws} == {str(tmp_path)}
    assert "Not read: 2 .png, 1 .py, 1 without an ending." in messages_of(flaws)
    assert "_sources (1), _static (1), genindex-A.html (1), search.html (1)" in messages_of(flaws)
    first = next(FolderSource(path=tmp_path).items())
    assert isinstance(first, Flaw), "a look at the first rows shows it"


def test_files_that_differ_in_their_ending_alone_are_said_with_the_way_out(tmp_path):
    for name in ("guide/pump.html", "guide/pump.md", "guide/valve.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("water")
    flaw = next(row for row in FolderSource(path=tmp_path).items() if isinstance(row, Flaw))
    assert "guide/pump.md (1 in all)" in flaw.message
    assert "-o id_from=file" in flaw.message
    rows = list(FolderSource(path=tmp_path, id_from="file").items())
    ids = [row.value.id for row in rows if isinstance(row, Row)]
    assert ids == ["guide/pump.html", "guide/pump.md", "guide/valve.md"]
    assert len(rows) == 3


def test_a_reader_that_is_not_installed_is_named_with_the_command_that_installs_it(tmp_path, monkeypatch):
    monkeypatch.setattr(PdfReader, "needs", ("no_such_package",))
    path = folder(tmp_path, {"a.md": "x", "b.pdf": "x", "c/d.PDF": "x"})
    assert "Not read: 2 .pdf. They are read with an extra: pip install 'rankbook[documents]'." in messages_of(
        read(FolderSource(path=path))[1]
    )
    with pytest.raises(InputError, match=r"\.pdf are read with an extra: pip install 'rankbook\[documents\]'"):
        next(FolderSource(path=path, suffixes=(".pdf",)).items())
    with pytest.raises(InputError, match=r"2 \.pdf.*rankbook\[documents\]"):
        next(FolderSource(path=path, exclude=("a.md",)).items())


def test_theme_files_are_documents_where_somebody_says_so(tmp_path):
    items, flaws = read(FolderSource(path=folder(tmp_path, MIXED), theme_files=True))
    assert {"_sources/a.md", "search", "genindex-A"} <= {item.id for item in items}
    assert "theme" not in messages_of(flaws)


@pytest.mark.parametrize(
    ("include", "exclude", "ids"),
    [
        ((), ("drafts", "*.tmp.md"), ["c", "d", "guide/a", "guide/b"]),
        (("guide/**",), (), ["guide/a", "guide/b", "guide/f.tmp"]),
        (("*.md",), ("guide",), ["drafts/e"]),
        (("**/a.*", "/c.adoc"), (), ["c", "guide/a"]),
        ((), ("**/*.md", "d.html"), ["c", "guide/b"]),
    ],
)
def test_globs_say_what_is_read(tmp_path, include, exclude, ids):
    items, flaws = read(FolderSource(path=folder(tmp_path, MIXED), include=include, exclude=exclude))
    assert [item.id for item in items] == ids
    assert "Left out by include and exclude:" in messages_of(flaws)


@pytest.mark.parametrize(
    ("parts", "glob", "found"),
    [
        (("a", "b", "c.md"), "b", True),
        (("a", "b", "c.md"), "a/b", True),
        (("a", "b", "c.md"), "b/c.md", False),
        (("a", "b", "c.md"), "**/c.md", True),
        (("c.md",), "**/c.md", True),
        (("a", "b", "c.md"), "a/**/c.md", True),
        (("a", "c.md"), "a/**/c.md", True),
        (("a", "b", "c.md"), "a/*.md", False),
        (("a", "b"), "/b", False),
        (("b",), "/b", True),
        (("a",) * 60, "/".join(["**", "b"] * 30), False),
        (("a",), "", False),
    ],
)
def test_a_glob_is_about_a_name_or_about_the_path_from_the_top(parts, glob, found):
    assert matches(parts, glob) is found


def test_options_of_several_texts_are_typed_with_commas(tmp_path):
    path = folder(tmp_path, {"a.log": "x", "b.md": "x", "c.text": "x", "drafts/d.log": "x"})
    source = source_of(str(path), None, ["suffixes=log, .TEXT", "exclude=drafts"])
    assert [item.id for item in read(source)[0]] == ["a", "c"]
    assert source_of(str(path), "folder", ["suffixes=.log"]).spec()["suffixes"] == [".log"]
    columns = source_of(str(path), "tabular", ["columns.metadata=a,b"]).spec()["columns"]
    assert columns["metadata"] == ["a", "b"]
    with pytest.raises(SpecError, match="ending"):
        source_of(str(path), "folder", ["suffixes="])
    with pytest.raises(InputError, match=r"1 \.bin"):
        guess(folder(tmp_path / "none", {"a.bin": "x"}))


def test_a_folder_with_nothing_to_read_says_what_is_there(tmp_path):
    with pytest.raises(InputError, match=r"no file that ends in \.md.*Not read: 1 \.png"):
        next(FolderSource(path=folder(tmp_path, {"a.png": "x"})).items())


# -- the reader is kept ------------------------------------------------------------------------------------------------


def test_the_reader_is_part_of_the_spec_and_a_spec_without_one_is_of_the_first(tmp_path):
    source = FolderSource(path=tmp_path)
    assert source.spec()["reader"] == NEWEST
    assert source.as_loaded(source.spec()) == source
    assert source.as_loaded({"kind": "folder", "path": str(tmp_path)}).reader == 1
    with pytest.raises(SpecError, match="data reload NAME --reader"):
        FolderSource(path=tmp_path, reader=2).as_loaded({"kind": "folder", "path": str(tmp_path)})


def test_the_first_reader_reads_what_it_read(tmp_path):
    items, flaws = read(FolderSource(path=folder(tmp_path, MIXED), reader=1))
    assert [item.id for item in items] == [
        "_sources/a.md",
        "_static/theme",
        "d",
        "drafts/e",
        "genindex-A",
        "guide/a",
        "guide/f.tmp",
        "search",
    ]
    assert "2 .adoc. The collection keeps the reader that it was loaded by" in messages_of(flaws)


def test_documents_are_sorted_by_path_and_ids_can_be_chosen(tmp_path):
    path = folder(
        tmp_path, {"b.md": "x", "a/z.md": "x", "a-b/y.txt": "x", ".git/hidden.md": "x", "n.png": "x", "a/q.v2.md": "x"}
    )
    assert [item.id for item in read(FolderSource(path=path))[0]] == ["a-b/y", "a/q.v2", "a/z", "b"]
    assert [item.id for item in read(FolderSource(path=path, id_from="stem"))[0]] == ["y", "q.v2", "z", "b"]
    assert read(FolderSource(path=path, id_from="file", suffixes=(".txt",)))[0][0].id == "a-b/y.txt"
    assert all("folder" not in item.metadata for item in read(FolderSource(path=path, folder_field=None))[0])


def test_undecodable_bytes_are_replaced_and_told(tmp_path):
    items, flaws = read(FolderSource(path=folder(tmp_path, {"a.md": b"one\ntwo \xff three"})))
    assert items[0].text == "one\ntwo \ufffd three"
    assert (flaws[0].outcome, flaws[0].subject, flaws[0].place.file) == ("cleaned", "a", str(tmp_path / "a.md"))
    assert "line 2" in flaws[0].message


def test_links_that_leave_the_folder_are_not_followed(tmp_path):
    folder(tmp_path, {"out/secret.md": "secret", "in/a.md": "x", "in/sub/b.md": "y"})
    (tmp_path / "in" / "secret.md").symlink_to(tmp_path / "out" / "secret.md")
    (tmp_path / "in" / "away").symlink_to(tmp_path / "out")
    (tmp_path / "in" / "loop").symlink_to(tmp_path / "in")
    (tmp_path / "in" / "near.md").symlink_to(tmp_path / "in" / "a.md")
    items, flaws = read(FolderSource(path=tmp_path / "in"))
    assert [item.id for item in items] == ["a", "near", "sub/b"]
    assert len(flaws) == 3


def test_a_name_that_is_not_utf8_is_one_flaw(tmp_path):
    folder(tmp_path, {"a.md": "x"})
    try:
        (tmp_path / os.fsdecode(b"\xff.md")).write_text("x")
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    items, flaws = read(FolderSource(path=tmp_path))
    assert ([item.id for item in items], len(flaws)) == (["a"], 1)
    assert flaws[0].place.file.encode()


def test_queries_and_labels_beside_the_documents(tmp_path):
    files = {"d/a.md": "x", "q.jsonl": '{"_id": 1, "text": "t"}', "r/train.tsv": "1\ta\t2", "r/exclude.tsv": "1\ta"}
    folder(tmp_path, files)
    source = FolderSource(path=tmp_path / "d", queries_path=tmp_path / "q.jsonl", labels_path=tmp_path / "r")
    assert [row.value.text for row in source.queries()] == ["t"]
    assert [(row.value.split, row.value.grade) for row in source.labels()] == [("train", 2)]
    assert [row.value.item_id for row in source.exclusions()] == ["a"]


def test_missing_folders_and_empty_ones_are_told(tmp_path):
    for path, message in ((tmp_path / "none", "There is nothing here"), (tmp_path, r"no file that ends in \.md")):
        with pytest.raises(InputError, match=message):
            next(FolderSource(path=path).items())


def test_html_becomes_text_that_the_headings_chunker_takes():
    source = (
        "<html><head><title>T &amp; U</title><style>x{}</style></head><body><h1>One</h1><p>a <b>b</b>\n c&eacute;</p>"
        "<script>alert('<p>')</script><ul><li>x<li>y</ul><h2>Two</h2><table><tr><th>k</th><td>v</td></tr></table>"
        "<pre>  keep\n    this</pre>1 &lt; 2<br>end</body></html>"
    )
    title, text, problem = html_to_text(source)
    assert (title, problem) == ("T & U", "")
    assert text == "# One\n\na b cé\n\n- x\n- y\n\n## Two\n\nk | v\n\n  keep\n    this\n\n1 < 2\nend"


@pytest.mark.parametrize(
    ("text", "fields", "body", "bad"),
    [
        ("---\n\nA rule first.\n---\n", {}, "---\n\nA rule first.\n---\n", False),
        ("---\na: [\n---\nx", {}, "x", True),
        ("---\n---\nx", {}, "x", False),
        ("---\na: &x 1\nb: *x\n---\nx", {}, "x", True),
        ("---\r\na: .nan\r\n---\r\nx", {"a": None}, "x", False),
        ("---\na: 1\nno end", {}, "---\na: 1\nno end", False),
        ("---\na: !!python/object:os.system {}\n---\nx", {}, "x", True),
    ],
)
def test_front_matter_is_read_safely(text, fields, body, bad):
    found, rest, problem = split_front_matter(text)
    assert (found, rest, bool(problem)) == (fields, body, bad)


@pytest.mark.parametrize(
    "fields",
    [
        'a: !!python/object/apply:os.mkdir ["{made}"]',
        'a: !!python/object/new:os.mkdir {{args: ["{made}"]}}',
        '? !!python/object/apply:os.mkdir ["{made}"]\n: b',
        '!!python/object/apply:os.mkdir ["{made}"]',
        "a: !!python/name:os.mkdir",
        "a: !!python/module:os",
        "a: !!python/tuple [1, 2]",
    ],
)
def test_front_matter_makes_nothing_of_pythons_own(tmp_path, fields):
    made = tmp_path / "made"
    found, _, problem = split_front_matter(f"---\n{fields.format(made=made)}\n---\nx")
    assert not made.exists(), "its text was run"
    assert (found, "could not determine a constructor" in problem) == ({}, True)


FUZZ = st.lists(
    st.sampled_from(
        [
            "---\n",
            "a: ",
            "!!timestamp ",
            "!!int ''\n",
            "!!bool x\n",
            "<![x",
            "<!--",
            "</",
            "<script",
            "&#",
            "<p ",
            "*a",
            "&a",
            "[",
            "{",
            "# ",
            "\n",
        ]
    )
    | st.text(max_size=8),
    max_size=12,
).map("".join)


@pytest.mark.slow
@examples(60)
@given(
    head=st.sampled_from(["", "---\n"]), text=FUZZ, tail=st.sampled_from(["", "\n---\n"]), raw=st.binary(max_size=20)
)
def test_arbitrary_files_raise_nothing_but_our_own_errors(tmp_path, head, text, tail, raw):
    content = (head + text + tail).encode("utf-8", "replace") + raw
    items, _ = read(FolderSource(path=folder(tmp_path, {"a.md": content, "b.html": content})))
    assert [item.id for item in items] == ["a", "b"]
    for item in items:
        item.text.encode()


def test_the_handbook_ships_and_reads_without_a_flaw():
    assert "handbook" in bundled_names()
    assert bundled_path("handbook").is_dir()
    items, flaws = read(BundledSource(name="handbook"))
    assert flaws == []
    assert len({item.id for item in items}) == len(items)
    for item in items:
        assert item.title
        assert {"type", "date", "area"} <= set(item.metadata)
        assert "/" not in item.id


def test_an_unknown_bundled_collection_names_the_nearest():
    with pytest.raises(UnknownName, match="handbook"):
        next(BundledSource(name="handbok").items())
    with pytest.raises(RankbookError):
        bundled_path("../handbook")


@pytest.mark.parametrize(
    "piece", ["<a ", "<a>", "<!--", "</", "<![x", "<![if>", "<p a='", '<p a=">', "<script>", "<?", "&#", "<"]
)
def test_hostile_html_takes_no_longer_than_its_length_asks(piece):
    with quickly(5):
        html_to_text(piece * 100_000)


def test_attributes_comments_and_stray_brackets():
    source = """<!-- <p>no</p> --><p title="a > b" data-x='y'>one</p><!DOCTYPE html>3 < 4 <5> <p title=it's>two</p>"""
    assert html_to_text(source)[1].split() == ["one", "3", "<", "4", "<5>", "two"]
