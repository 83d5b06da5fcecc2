"""Concrete expectations of each chunker, of its options and of the specs that name it."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pydantic
import pytest

from core.chunking import FixedChunker, chunker_from, chunkers, spec_of, word_tokens
from core.errors import SpecError, UnknownName
from core.types import Chunk, Item
from tests.effort import quickly


def cut(text: str, kind: str, **options: Any) -> list[Chunk]:
    return chunker_from({"kind": kind, **options}).chunk(Item("i", text), word_tokens)


def cut_texts(text: str, kind: str, **options: Any) -> list[str]:
    return [chunk.text for chunk in cut(text, kind, **options)]


def _pieces(text: str) -> list[tuple[int, int]]:
    """Tokens of at most three characters, as sub-word tokenizers make them."""
    return [(i, min(i + 3, end)) for start, end in word_tokens(text) for i in range(start, end, 3)]


GUIDE = """Before any heading.

# Guide

## Install

Run the installer. Wait for it. Then restart.

## Use

Open it.
"""


class TestFixed:
    def test_windows_overlap_by_whole_words(self):
        assert cut_texts("a b c d e f g h", "fixed", max_tokens=4, overlap=1) == ["a b c d", "d e f g", "g h"]

    def test_words_are_not_cut_where_one_begins_nearby(self):
        chunks = FixedChunker(max_tokens=6, overlap=0).chunk(Item("i", "seven letter wordings follow"), _pieces)
        assert [chunk.text for chunk in chunks] == ["seven letter", "wordings follow"]

    def test_punctuation_that_the_tokenizer_skips_stays_with_its_word(self):
        def bare_words(text: str) -> list[tuple[int, int]]:
            return [span for span in word_tokens(text) if text[span[0]].isalnum()]

        chunks = FixedChunker(max_tokens=2, overlap=0).chunk(Item("i", '"One" (two) [three] four.'), bare_words)
        assert [chunk.text for chunk in chunks] == ['"One" (two)', "[three] four."]

    def test_a_word_longer_than_a_chunk_is_cut_between_letters_and_not_before_a_mark(self):
        def letters(text: str) -> list[tuple[int, int]]:
            return [(i, i + 1) for i in range(len(text))]

        chunks = FixedChunker(max_tokens=3, overlap=0).chunk(Item("i", "abe\u0301cd"), letters)
        assert [chunk.text for chunk in chunks] == ["ab", "e\u0301c", "d"]

    @pytest.mark.parametrize("options", [{"max_tokens": 5, "overlap": 1}, {"max_tokens": 4, "overlap": 2}])
    def test_each_option_changes_the_result(self, options):
        text = "a b c d e f g h"
        assert cut_texts(text, "fixed", **options) != cut_texts(text, "fixed", max_tokens=4, overlap=1)

    def test_defaults(self):
        assert spec_of(FixedChunker()) == {"kind": "fixed", "max_tokens": 200, "overlap": 40}


class TestSentences:
    def test_whole_sentences_are_packed(self):
        text = "One two. Three four five. Six."
        assert cut_texts(text, "sentences", max_tokens=7) == ["One two. Three four five.", "Six."]
        assert cut_texts(text, "sentences", max_tokens=4) == ["One two.", "Three four five.", "Six."]

    def test_a_sentence_too_long_is_cut_at_words_and_its_rest_packed_on(self):
        text = "a b c d e ff. G hh. I."
        assert cut_texts(text, "sentences", max_tokens=4) == ["a b c d", "e ff.", "G hh.", "I."]
        assert cut_texts(text, "sentences", max_tokens=5) == ["a b c d e", "ff. G hh.", "I."]

    def test_a_block_too_long_is_parted_at_its_lines_first(self):
        text = "```\none two three\nfour five\n```"
        assert cut_texts(text, "sentences", max_tokens=6) == ["```\none two three", "four five\n```"]

    def test_a_heading_does_not_end_a_chunk(self):
        assert cut_texts("One two three.\n# Head\nFour five.", "sentences", max_tokens=7) == [
            "One two three.",
            "# Head\nFour five.",
        ]

    def test_headings_and_fences_stay_whole(self):
        text = "Intro here\n```\nA. B. C.\n```\nAfter it."
        assert cut_texts(text, "sentences", max_tokens=12) == ["Intro here", "```\nA. B. C.\n```", "After it."]


class TestHeadings:
    def test_sections_keep_their_path_and_heading_line(self):
        assert [(chunk.heading_path, chunk.text) for chunk in cut(GUIDE, "headings")] == [
            ((), "Before any heading."),
            (("Guide", "Install"), "# Guide\n\n## Install\n\nRun the installer. Wait for it. Then restart."),
            (("Guide", "Use"), "## Use\n\nOpen it."),
        ]

    def test_a_long_section_is_packed_by_sentences_under_one_path(self):
        chunks = cut("# T\nOne two. Three four. Five six.", "headings", max_tokens=8)
        assert [chunk.text for chunk in chunks] == ["# T\nOne two. Three four.", "Five six."]
        assert {chunk.heading_path for chunk in chunks} == {("T",)}

    def test_underlined_headings(self):
        chunks = cut("Top\n===\ntext\n\nSub\n---\nmore\n\nTop two\n=\nend", "headings")
        assert [chunk.heading_path for chunk in chunks] == [("Top",), ("Top", "Sub"), ("Top two",)]
        assert chunks[1].text == "Sub\n---\nmore"

    @pytest.mark.parametrize(
        "text",
        [
            "```\n# in a fence\n```\nx",
            "~~~~\n~~~\n# still in the fence\n~~~~\nx",
            "```\n# never closed",
            "    # indented code",
            "#hashtag first",
            "####### seven",
            "text\n\n---\n\ntext",
            "- item\n---\ntext",
            "a paragraph of\ntwo lines\n---\ntext",
        ],
    )
    def test_what_is_no_heading(self, text):
        assert {chunk.heading_path for chunk in cut(text, "headings")} == {()}

    @pytest.mark.parametrize(
        ("line", "title"),
        [("# A #", "A"), ("# A#", "A#"), ("  ## C# and F# ##  ", "C# and F#"), ("#\tTab", "Tab"), ("# *B*", "*B*")],
    )
    def test_titles(self, line, title):
        assert cut(f"{line}\nx", "headings")[0].heading_path == (title,)

    def test_a_deeper_heading_may_come_first_and_levels_may_be_skipped(self):
        chunks = cut("### C\nx\n# A\nx\n### D\nx\n## B\nx", "headings")
        assert [chunk.heading_path for chunk in chunks] == [("C",), ("A",), ("A", "D"), ("A", "B")]

    def test_carriage_returns_end_lines_too(self):
        chunks = cut("# A\r\none\r\n## B\r\ntwo\r# C\rthree", "headings")
        assert [chunk.heading_path for chunk in chunks] == [("A",), ("A", "B"), ("C",)]

    def test_an_empty_section_keeps_its_chunk(self):
        assert cut_texts("# A\n\n# B\nx", "headings") == ["# A", "# B\nx"]

    @pytest.mark.parametrize("options", [{"max_level": 1}, {"max_tokens": 8}])
    def test_each_option_changes_the_result(self, options):
        assert cut_texts(GUIDE, "headings", **options) != cut_texts(GUIDE, "headings")


class TestPages:
    def test_a_chunk_a_page_and_empty_pages_count(self):
        chunks = cut("One.\f\fThree.\fFour. Five.", "pages")
        assert [(chunk.text, chunk.page_first, chunk.page_last) for chunk in chunks] == [
            ("One.", 1, 1),
            ("Three.", 3, 3),
            ("Four. Five.", 4, 4),
        ]

    def test_a_long_page_is_packed(self):
        assert cut_texts("One two. Three.\fFour.", "pages", max_tokens=3) == ["One two.", "Three.", "Four."]

    def test_other_chunkers_tell_where_a_chunk_begins_and_ends(self):
        (chunk,) = cut("One.\fTwo.", "fixed")
        assert (chunk.page_first, chunk.page_last) == (1, 2)


class TestParentChild:
    def test_children_follow_their_parent(self):
        chunks = cut("# A\nOne two. Three four.\n# B\nFive.", "parent_child", parent_tokens=20, child_tokens=5)
        assert [(chunk.level, chunk.parent, chunk.heading_path, chunk.text) for chunk in chunks] == [
            ("parent", None, ("A",), "# A\nOne two. Three four."),
            ("child", 0, ("A",), "# A\nOne two."),
            ("child", 0, ("A",), "Three four."),
            ("parent", None, ("B",), "# B\nFive."),
            ("child", 3, ("B",), "# B\nFive."),
        ]

    @pytest.mark.parametrize(
        ("parents", "expected"),
        [
            ("sections", ["# A\nOne.\fTwo.", "# B\nThree."]),
            ("pages", ["# A\nOne.", "Two.\n# B\nThree."]),
            ("tokens", ["# A\nOne.\fTwo.\n# B\nThree."]),
        ],
    )
    def test_parents_are_what_was_asked_for(self, parents, expected):
        chunks = cut("# A\nOne.\fTwo.\n# B\nThree.", "parent_child", parents=parents)
        assert [chunk.text for chunk in chunks if chunk.level == "parent"] == expected

    @pytest.mark.parametrize("options", [{"parents": "tokens"}, {"parent_tokens": 9}, {"child_tokens": 7}])
    def test_each_option_changes_the_result(self, options):
        default = {"parents": "sections", "parent_tokens": 40, "child_tokens": 5}
        assert cut(GUIDE, "parent_child", **default | options) != cut(GUIDE, "parent_child", **default)


def test_none_is_the_whole_text():
    assert cut_texts(f"  {'word ' * 5000}\f end ", "none") == [f"{'word ' * 5000}\f end"]


class TestRanges:
    TABLE = "| id | name |\n|---|---|\n" + "".join(f"| {n} | row |\n" for n in range(1, 7))

    def test_rows_are_counted_below_the_header(self):
        chunks = cut(self.TABLE, "sentences", max_tokens=24)
        assert [chunk.metadata for chunk in chunks] == [{"rows": [1, 2]}, {"rows": [3, 6]}]

    def test_a_header_alone_is_no_range_of_rows(self):
        assert cut(self.TABLE, "sentences", max_tokens=14)[0].metadata == {}

    def test_rows_beside_prose_are_no_range(self):
        chunks = cut(f"Intro.\n\n{self.TABLE}", "sentences", max_tokens=26)
        assert [chunk.metadata for chunk in chunks] == [{}, {"rows": [3, 6]}]

    def test_a_table_without_a_header_counts_from_its_first_row(self):
        assert cut("| a |\n| b |", "none")[0].metadata == {"rows": [1, 2]}

    def test_items_are_counted_within_their_list_with_nested_ones_and_fences_in_them(self):
        text = (
            "- one\n  wrapped\n- two\n  - nested\n\n  ```\n  code\n  ```\n\n- three\n\nProse.\n\n1. first\n2. second\n"
        )
        chunks = cut(text, "sentences", max_tokens=3)
        assert [chunk.metadata.get("items") for chunk in chunks if "three" in chunk.text] == [[3, 3]]
        assert [chunk.metadata.get("items") for chunk in chunks if "nested" in chunk.text] == [[2, 2]]
        assert [chunk.metadata.get("items") for chunk in chunks if "second" in chunk.text] == [[2, 2]]
        assert [chunk.metadata for chunk in chunks if "Prose" in chunk.text] == [{}]

    def test_a_mixed_chunk_has_no_range(self):
        assert cut("Text.\n\n- one\n- two", "none")[0].metadata == {}
        assert cut("- one\n- two\n\n| a |", "none")[0].metadata == {}

    def test_a_wrapped_line_that_begins_with_a_year_is_no_item(self):
        assert cut("It was\n1999. Then came more.", "none")[0].metadata == {}
        assert cut_texts("It was\n1999. Then.", "sentences", max_tokens=4) == ["It was\n1999.", "Then."]


class TestSpecs:
    def test_options_are_taken(self):
        assert chunker_from({"kind": "fixed", "max_tokens": 120}) == FixedChunker(max_tokens=120)

    def test_equal_chunkers_give_equal_specs_whatever_the_order(self):
        left = chunker_from({"overlap": 3, "kind": "fixed", "max_tokens": 9})
        right = chunker_from({"kind": "fixed", "max_tokens": 9, "overlap": 3})
        assert list(spec_of(left).items()) == list(spec_of(right).items())

    def test_an_unknown_kind_names_the_nearest(self):
        with pytest.raises(UnknownName, match=r"Did you mean 'sentences'"):
            chunker_from({"kind": "sentence"})

    def test_an_unknown_option_names_the_nearest(self):
        with pytest.raises(UnknownName, match=r"'max_token'.*Did you mean 'max_tokens'.*overlap"):
            chunker_from({"kind": "fixed", "max_token": 10})

    @pytest.mark.parametrize("spec", [{}, {"kind": 3}, {"kind": None, "max_tokens": 3}])
    def test_a_spec_without_a_kind_lists_the_kinds(self, spec):
        with pytest.raises(SpecError, match=r"needs a kind.*fixed.*sentences"):
            chunker_from(spec)

    @pytest.mark.parametrize(
        ("spec", "message"),
        [
            ({"kind": "fixed", "max_tokens": 0}, "max_tokens: .*given: 0"),
            ({"kind": "fixed", "max_tokens": "many"}, "max_tokens"),
            ({"kind": "fixed", "max_tokens": 20, "overlap": 20}, "at most 19"),
            ({"kind": "fixed", "max_tokens": 20}, "overlap of 40 tokens leaves no room"),
            ({"kind": "parent_child", "parents": "chapters"}, "'sections', 'pages' or 'tokens'"),
            ({"kind": "parent_child", "child_tokens": 900}, "no smaller than parents"),
        ],
    )
    def test_bad_values_are_named(self, spec, message):
        with pytest.raises(SpecError, match=message):
            chunker_from(spec)

    def test_chunkers_are_frozen(self):
        with pytest.raises(pydantic.ValidationError):
            setattr(FixedChunker(), "max_tokens", 3)  # noqa: B010 - mypy would refuse the plain form


HOSTILE = {
    "one word": "x" * 200_000,
    "stops": "." * 200_000,
    "closed stops": ".) " * 60_000,
    "quotes": '."' * 100_000,
    "blank lines": "\n" * 200_000 + "x",
    "spaces": "x" + " " * 200_000 + "x",
    "hashes": "# " * 100_000,
    "dashes": "- " * 100_000,
    "pipes": "|x|\n" + "|-" * 100_000 + "x|",
    "marks": "e" + "\u0301" * 100_000,
    "one open fence": "```\n" + "code\n" * 12_000,
    "headings": "# h\n" * 12_000,
    "page breaks": "a\f" * 12_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", list(chunkers))
@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_take_linear_time(kind, text):
    with quickly(15):
        chunkers[kind]().chunk(Item("i", text), word_tokens)


def test_importing_it_loads_nothing_heavy():
    heavy = "{'torch', 'pandas', 'numpy', 'sqlalchemy', 'streamlit', 'tokenizers', 'transformers'}"
    script = f"import sys, core.chunking; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
