"""Snippets: where they are cut, what is marked in them, and that no script or length breaks them."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as some
from pydantic import ValidationError

from core.snippets import Snippet, Snippets, folded, snippet, snippet_of
from core.types import Hit

FILLER = "Nothing here is of any interest to anybody at all. "


def marked(found: Snippet) -> list[str]:
    return [found.text[start:end] for start, end in found.highlights]


def hit(text, *, id="d#0001", item_id="d"):  # noqa: A002
    return Hit(id=id, item_id=item_id, score=1.0, rank=1, title="", text=text)


def test_a_short_text_is_its_own_snippet_without_the_white_space_around_it():
    assert snippet("  The battery is empty.\n", ["battery"]) == Snippet("The battery is empty.", 2, ((4, 11),))


def test_the_snippet_stands_around_the_densest_matches():
    text = f"The battery. {FILLER * 20}Hold the battery button to reset the battery. {FILLER * 20}"
    found = snippet(text, ["reset", "battery", "button"], 120)
    assert "Hold the battery button to reset the battery." in found.text
    assert marked(found) == ["battery", "button", "reset", "battery"]


def test_different_words_say_more_than_one_word_many_times():
    text = f"dog dog dog dog dog. {FILLER * 10} dog meets cat. {FILLER * 10}"
    assert "meets" in snippet(text, ["dog", "cat"], 80).text


def test_of_equal_places_the_first_is_shown():
    text = f"{FILLER * 10}alpha one. {FILLER * 10}alpha two. {FILLER * 10}"
    assert "alpha one" in snippet(text, ["alpha"], 60).text


def test_without_a_match_the_beginning_is_shown():
    found = snippet(FILLER * 20, ["zebra"], 100)
    assert (FILLER * 20).startswith(found.text)
    assert found.highlights == ()
    assert 80 < len(found.text) <= 100
    assert snippet(FILLER * 20, [], 100) == found


@pytest.mark.parametrize("max_chars", [20, 60, 120, 360])
def test_its_length_is_bounded_and_words_at_its_ends_are_whole(max_chars):
    text = FILLER * 10 + "the needle is here, " + FILLER * 10
    found = snippet(text, ["needle"], max_chars)
    assert max_chars / 3 < len(found.text) <= max_chars
    assert marked(found) == ["needle"]
    assert set(found.text.replace(",", "").split()) <= set(text.replace(",", "").split())


@pytest.mark.parametrize(
    ("keyword", "word"),
    [
        ("cancel", "cancelled"),
        ("cancelled", "cancel"),
        ("retrieval", "retrieve"),
        ("study", "studies"),
        ("BATTERY", "Batteries"),
        ("cafe", "Café"),
        ("café", "cafe\u0301"),
        ("strasse", "Straße"),
        ("istanbul", "İstanbul"),
        ("résumé", "RESUME"),
        ("हिन्दी", "हिन्दी"),
        ("e-mail", "mail"),
    ],
)
def test_a_word_is_marked_in_its_other_forms(keyword, word):
    assert marked(snippet(f"so {word} is it", [keyword])) == [word]


@pytest.mark.parametrize(
    ("keyword", "word"),
    [
        ("run", "runs"),
        ("12345", "12346"),
        ("ab1234", "ab1235"),
        ("inter", "international"),
        ("cat", "concat"),
        ("दिन", "दान"),
    ],
)
def test_another_word_is_not_marked(keyword, word):
    assert marked(snippet(f"so {word} is it", [keyword])) == []


def test_marks_stay_on_their_word_behind_letters_that_grow_when_folded():
    text = "ß ŉ İ ﬃ ΐ " * 5 + "needle"
    assert marked(snippet(text, ["needle"])) == ["needle"]


def test_a_word_longer_than_the_snippet_is_cut_through():
    found = snippet("a " + "x" * 500 + " b", ["x" * 500], 40)
    assert found == Snippet("x" * 40, 2, ((0, 40),))


def test_a_text_without_spaces_fills_the_snippet():
    assert len(snippet("漢字かな" * 500, ["zebra"], 100).text) == 100
    assert len(snippet("Hi " + "漢字かな" * 500, ["zebra"], 100).text) == 100


def test_a_letter_keeps_its_marks_where_a_word_must_be_cut_through():
    found = snippet("e\u0301" * 400, [], 101)
    assert len(found.text) == 100


@pytest.mark.parametrize("text", ["", "   \n\f ", "."])
def test_a_text_of_nothing_makes_a_snippet_of_nothing(text):
    assert snippet(text, ["word"]).text == text.strip()


def test_the_chunk_is_preferred_and_the_document_can_be():
    document = "A title. The battery is in the box. The end."
    of_chunk = snippet_of(hit("The battery"), ["battery"], Snippets(), document)
    of_document = snippet_of(hit("The battery"), ["battery"], Snippets(prefer_chunk_snippet=False), document)
    assert (of_chunk.source, of_chunk.text, of_chunk.at) == ("chunk", "The battery", 0)
    assert (of_document.source, of_document.text) == ("doc", document)
    assert marked(of_chunk) == marked(of_document) == ["battery"]


def test_what_is_preferred_but_missing_is_made_up_for():
    assert snippet_of(hit(" "), ["b"], Snippets(), "a b").source == "doc"
    assert snippet_of(hit("a b"), ["b"], Snippets(prefer_chunk_snippet=False)).source == "chunk"
    assert snippet_of(hit("a b", id="d"), ["b"]).source == "doc"
    assert snippet_of(hit(""), ["b"]) == Snippet("", source="unknown")


def test_its_greatest_length_is_an_option():
    long = hit(FILLER * 30)
    assert 300 < len(snippet_of(long, []).text) <= 360
    assert len(snippet_of(long, [], Snippets(max_chars=50)).text) <= 50


def test_options_are_frozen_described_and_checked():
    assert all(field.description for field in Snippets.model_fields.values())
    assert Snippets().max_chars == 360
    assert Snippets().prefer_chunk_snippet
    for bad in ({"max_chars": 0}, {"max_char": 10}):
        with pytest.raises(ValidationError):
            Snippets(**bad)


# Letters that grow or shrink when folded, marks, joiners, scripts without spaces, and much that repeats.
LETTERS = some.sampled_from("aAbcé\u0301ßİŉﬃΣς \n\f._-1२漢字กำ\u200d👩🏽\U0001f680한्ह")
TEXTS = some.text(LETTERS, max_size=300)


@given(text=TEXTS, words=some.lists(some.text(LETTERS, max_size=8), max_size=5), room=some.integers(1, 60))
def test_any_snippet_is_a_bounded_piece_of_the_text_with_marks_inside_and_in_order(text, words, room):
    found = snippet(text, words, room)
    assert len(found.text) <= room
    assert text[found.at : found.at + len(found.text)] == found.text
    assert found.text == found.text.strip()
    assert bool(found.text) == bool(text.strip())
    ends = [0]
    for start, end in found.highlights:
        assert ends[-1] <= start < end <= len(found.text)
        ends.append(end)


@given(before=TEXTS, behind=TEXTS, word=some.text("abcdefgh", min_size=1, max_size=10))
def test_a_word_that_is_there_is_shown_and_marked_wherever_it_stands(before, behind, word):
    found = snippet(f"{before} {word} {behind}", [word], 40)
    assert folded(word) in map(folded, marked(found))


@given(word=TEXTS)
def test_folding_twice_changes_no_more_than_folding_once(word):
    assert folded(folded(word)) == folded(word)


def spent(work):
    times = []
    for _ in range(3):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


@pytest.mark.slow
@pytest.mark.parametrize("piece", ["word another ", "word", "e\u0301", "漢字", " ", "\u0301"])
def test_its_time_grows_with_the_text_and_no_faster(piece):
    short, long = piece * 5_000, piece * 40_000
    words = [f"word{number}" for number in range(500)] + ["another", "word"]
    ratio = spent(lambda: snippet(long, words)) / max(spent(lambda: snippet(short, words)), 2e-3)
    assert ratio < 24
