"""Synonyms: which of them a query calls for, and what is said of a file that is not right."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import bridge
from core.context import RequestContext
from core.errors import InputError
from core.expansion import ExpandedQuery, SynonymExpansion
from core.expansion.synonyms import LARGEST_FILE
from core.legs.base import LONGEST_QUERY
from tests.effort import examples

NOWHERE: Any = None  # synonyms look at nothing but the query and their file


def expanded(query: str, *lines: str, **options: Any) -> ExpandedQuery:
    context = RequestContext(NOWHERE, NOWHERE, NOWHERE)
    return bridge.run(SynonymExpansion(lines=lines, **options).expand(context, NOWHERE, query))


def test_two_way_synonyms_call_for_each_other():
    assert expanded("wifi down", "wifi, wlan").words == "wifi down wlan"
    assert expanded("wlan down", "wifi, wlan").added == ("wifi",)


def test_one_way_synonyms_do_not():
    assert expanded("fridge", "fridge, freezer => cold unit").added == ("cold unit",)
    assert expanded("cold unit", "fridge, freezer => cold unit") == ExpandedQuery.unchanged("cold unit")


def test_whole_words_match_in_capitals_or_not():
    rule = "hub, gateway"
    assert expanded("My HUB is dead", rule).added == ("gateway",)
    for other in ("hubs", "github", "hub2"):
        assert expanded(other, rule).added == ()


@pytest.mark.parametrize("query", ["wi-fi is down", "Wi Fi is down", "the WI-FI"])
def test_phrases_match_word_by_word(query):
    assert expanded(query, "wi-fi, wireless network").added == ("wireless network",)


def test_a_phrase_matches_only_side_by_side_and_in_order():
    rule = "cold room, walk-in"
    assert expanded("cold storage room", rule).added == ()
    assert expanded("room cold", rule).added == ()
    assert expanded("a cold room.", rule).added == ("walk-in",)


def test_a_longer_phrase_does_not_hide_a_shorter_one_inside_it():
    assert expanded("hub mini", "hub mini, HM", "hub, gateway").added == ("HM", "gateway")


def test_words_with_marks_are_words_of_their_own():
    assert expanded("learn c", "c++, cpp", "c, clang").added == ("clang",)
    assert expanded("learn C++", "c++, cpp", "c, clang").added == ("cpp",)


def test_what_the_query_says_already_is_not_added():
    assert expanded("wifi and wlan", "wifi, wlan, wireless").added == ("wireless",)
    assert expanded("wifi wifi", "wifi, wlan").words == "wifi wifi wlan"


def test_remarks_empty_lines_and_commas_in_words_are_read():
    lines = ("# all of them", "", "a\\,b, other # and more", "c# , csharp")
    assert expanded("a,b", *lines).added == ("other",)
    assert expanded("c#", *lines).added == ("csharp",)


def test_at_most_so_many_are_added_and_a_note_tells_of_the_others():
    line = "a, " + ", ".join(f"b{number}" for number in range(30))
    assert len(expanded("a", line).added) == 20
    found = expanded("a", line, most=2)
    assert found.added == ("b0", "b1")
    assert found.notes == ("28 more synonyms were left out.",)


def test_synonyms_are_embedded_only_where_that_is_asked_for():
    assert expanded("wifi", "wifi, wlan").meaning == "wifi"
    assert expanded("wifi", "wifi, wlan", embed=True).meaning == "wifi wlan"


def test_a_synonym_is_no_operator_of_full_text_search():
    assert expanded("cat", 'cat, -dog, "big cat"').words == "cat dog big cat"


def test_what_does_not_fit_a_query_any_more_is_left_out_with_a_note():
    long = ", ".join(f"{number}" + "x" * 900 for number in range(40))
    found = expanded("a", f"a, {long}", most=40)
    assert len(found.words) <= LONGEST_QUERY
    assert "left out: the query grew too long" in found.notes[-1]
    embedded = expanded("a", f"a, {long}", most=40, embed=True)
    assert embedded.meaning == "a"


# -- files -------------------------------------------------------------------------------------------------------------


def test_a_file_of_lines_and_lines_of_the_spec_are_read_together(tmp_path):
    file = tmp_path / "synonyms.txt"
    file.write_text("\ufeffwifi, wlan\r\nfridge => cold unit\r\n", encoding="utf-8")
    assert expanded("wifi fridge", "wifi, air", path=str(file)).added == ("air", "wlan", "cold unit")


def test_a_toml_file_says_the_same(tmp_path):
    file = tmp_path / "synonyms.toml"
    file.write_text('two_way = [["wifi", "wlan"]]\none_way = [{ from = ["fridge"], to = ["cold unit"] }]\n')
    assert expanded("wlan fridge", path=str(file)).added == ("wifi", "cold unit")
    assert expanded("cold unit", path=str(file)).added == ()


def test_a_file_is_read_again_once_it_changed(tmp_path):
    file = tmp_path / "synonyms.txt"
    file.write_text("a, b")
    assert expanded("a", path=str(file)).added == ("b",)
    file.write_text("a, c, d")
    assert expanded("a", path=str(file)).added == ("c", "d")


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("alone", "a word alone has no synonym"),
        ("a, , b", "nothing between two of its commas"),
        ("a =>", "on one side"),
        ("=> b", "on one side"),
        ("a => b => c", "more than one =>"),
        ("a, ???", "nothing between"),
        ("a, " + "long " * 11, "a phrase in it has 11 words, and at most 10"),
        (", ".join(f"w{number}" for number in range(101)), "101 words beside each other, and at most 100"),
    ],
)
def test_an_error_names_file_and_line(tmp_path, line, problem):
    file = tmp_path / "synonyms.txt"
    file.write_text(f"good, fine\n\n{line}\n")
    with pytest.raises(InputError, match=problem) as caught:
        expanded("a", path=str(file))
    assert (caught.value.path, caught.value.line) == (str(file), 3)
    with pytest.raises(InputError, match="the option lines, line 1"):
        expanded("a", line)


@pytest.mark.parametrize(
    ("text", "line", "field"),
    [
        ('two_way = [["a", "b"]]\none_way = = 3', 2, None),
        ('two_way = [\n["a",\n', 2, None),
        ('two_way = [["a", 3]]', None, "two_way[0][1]"),
        ('two_ways = [["a", "b"]]', None, "two_ways"),
        ('one_way = [{ from = ["a"] }]', None, "one_way[0].to"),
        ('two_way = [["a", "b"], ["c", "?"]]', None, "two_way[1]"),
        ("two_way = " + "[" * 5_000, 1, None),
    ],
)
def test_an_error_in_toml_names_file_and_line_or_entry(tmp_path, text, line, field):
    file = tmp_path / "synonyms.toml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        expanded("a", path=str(file))
    assert (caught.value.path, caught.value.line, caught.value.field) == (str(file), line, field)


def test_a_file_that_is_not_utf8_is_refused_with_its_line(tmp_path):
    file = tmp_path / "synonyms.txt"
    file.write_bytes(b"a, b\ncaf\xe9, bar\n")
    with pytest.raises(InputError, match="not UTF-8") as caught:
        expanded("a", path=str(file))
    assert caught.value.line == 2


@pytest.mark.parametrize("path", ["/no/such/file", "/dev/zero", "/tmp", "nul\x00", "x" * 5_000])
def test_what_is_no_file_is_refused(path):
    with pytest.raises(InputError, match=r"no such file|cannot be read"):
        expanded("a", path=path)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    file = tmp_path / "synonyms.txt"
    with file.open("wb") as opened:
        opened.truncate(LARGEST_FILE + 1)
    with pytest.raises(InputError, match="at most 5,000,000 are read"):
        expanded("a", path=str(file))


def test_an_error_does_not_repeat_what_the_file_says(tmp_path):
    file = tmp_path / "secrets"
    file.write_text("password-of-the-house\n")
    with pytest.raises(InputError) as caught:
        expanded("a", path=str(file))
    assert "password" not in str(caught.value)


@examples(60)
@given(lines=st.lists(st.text(max_size=40), min_size=1, max_size=5), query=st.text(max_size=40))
def test_any_lines_give_synonyms_or_an_error_with_its_place(lines, query):
    try:
        found = expanded(query, *lines)
    except InputError as error:
        place = error.line
    else:
        place = 1 if found.words == query or found.words.startswith(query + " ") else None
    assert place is not None
