"""Checks as JUnit XML: counted as CI servers count, readable by any parser, whatever names hold."""

from __future__ import annotations

from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from evals.suites.gate import Check, broken, junit, write

GOOD = Check("docs", "hybrid", "mrr at least", "0.7", "0.6", "passed", "+0.1")
BAD = Check("docs", "bm25", "mrr at least", "0.5", "0.6", "failed", "-0.1")
LOST = Check("books", "bm25", "p95, ms", "-", "100", "error", "Nobody timed it.")


def read(text: str) -> ElementTree.Element:
    return ElementTree.fromstring(text.encode())


def test_a_suite_for_each_collection_and_a_case_for_each_check():
    root = read(junit("demo", [GOOD, BAD, LOST]))
    assert root.tag == "testsuites"
    assert [root.get(each) for each in ("name", "tests", "failures", "errors")] == ["demo", "3", "1", "1"]
    docs, books = root
    assert [docs.get(each) for each in ("name", "tests", "failures", "errors")] == ["demo: docs", "2", "1", "0"]
    assert [(case.get("classname"), case.get("name")) for case in docs] == [
        ("docs.hybrid", "mrr at least"),
        ("docs.bm25", "mrr at least"),
    ]
    assert [books.get(each) for each in ("tests", "failures", "errors")] == ["1", "0", "1"]


def test_what_failed_says_why():
    good, bad = read(junit("demo", [GOOD, BAD]))[0]
    assert good.find("failure") is None
    failure = bad.find("failure")
    assert failure is not None
    assert failure.get("message") == "found 0.5, wanted 0.6"
    assert "bm25" in (failure.text or "")
    error = read(junit("demo", [LOST]))[0][0].find("error")
    assert error is not None
    assert "Nobody timed it." in (error.text or "")


def test_a_suite_that_could_not_be_run_is_an_error_with_its_sentence():
    root = read(broken("demo", "No collection is called 'x'."))
    assert root.get("errors") == "1"
    assert "No collection is called 'x'." in "".join(root.itertext())


@given(st.text(st.characters(), max_size=40), st.text(st.characters(), max_size=40))
def test_any_name_and_sentence_gives_xml_that_parses(name, says):
    root = read(junit(name, [Check(name, name, says, says, says, "failed", says)]))
    assert root.get("tests") == "1"


def test_control_characters_are_shown_and_markup_is_text():
    text = junit("demo", [Check("a\x1b[2J", "<b>&\"'", "x\x00\ufffe", "", "", "error", "]]>")])
    case = read(text)[0][0]
    assert case.get("classname") == "a\ufffd[2J.<b>&\"'"
    assert case.get("name") == "x\ufffd\ufffd"
    assert not set("\x1b\x00\ufffe") & set(text)


def test_the_file_is_written_into_folders_that_are_not_there(tmp_path):
    write(tmp_path / "new" / "report.xml", junit("demo", [GOOD]))
    assert (tmp_path / "new" / "report.xml").read_text().startswith('<?xml version="1.0" encoding="UTF-8"?>')
