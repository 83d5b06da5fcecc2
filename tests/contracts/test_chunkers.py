"""What every registered chunker keeps to, on any text and with any tokenizer."""

from __future__ import annotations

import json
import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.chunking import Chunker, Tokenizer, chunker_from, chunkers, spec_of, word_tokens
from core.types import Chunk, Item

LINES = [
    *("# Top", "## Below", "### Deep #", "#no heading", "Title", "===", "---", "- - -", "```", "~~~ py"),
    *("| a | b |", "|---|---|", "| 1 | 2 |", "- item one. And more.", "  - nested", "12. twelfth", "1. first"),
    *("> quote", "", "A sentence. Another one, e.g. this! And pi is 3.14.", "これは文です。次の文。", "  indented"),
    *("supercalifragilistic " * 3, "x" * 30, "wait... what? yes.", "\t", "\x0b\x85\u2028", "no stop here"),
    "e\u0301a\u0308\u200d",
]
BREAKS = ["\n", "\n\n", "\r\n", "\r", "\f", "\n\f\n", " "]
markdown = st.lists(st.tuples(st.sampled_from(LINES), st.sampled_from(BREAKS)), max_size=30).map(
    lambda pairs: "".join(line + end for line, end in pairs)
)
scraps = st.lists(st.sampled_from(list("ab .!?\f\r\n|#-*`~。\u0301\u200d\x00\u00a0")), max_size=80).map("".join)
texts = st.one_of(markdown, scraps, st.text(max_size=200))


def _characters(text: str) -> list[tuple[int, int]]:
    return [(index, index + 1) for index in range(len(text))]


def _words_with_space(text: str) -> list[tuple[int, int]]:
    return [match.span() for match in re.finditer(r"\s*\S{1,4}", text)]


def _bytes_with_specials(text: str) -> list[tuple[int, int]]:
    """As byte-level tokenizers do it: several tokens share a character, special tokens are empty."""
    return [(0, 0), *((i, i + 1) for i, char in enumerate(text) for _ in char.encode()), (0, 0)]


def _no_tokens(_text: str) -> list[tuple[int, int]]:
    return []


TOKENIZERS: list[Tokenizer] = [word_tokens, _characters, _words_with_space, _bytes_with_specials, _no_tokens]
EXACT: list[Tokenizer] = [word_tokens, _characters]
every_chunker = pytest.mark.parametrize("kind", list(chunkers))


def _of_size(kind: str, size: int) -> Chunker:
    """A chunker that makes small chunks, as far as it has an option for that."""
    sizes = {"max_tokens": size, "overlap": size // 3, "parent_tokens": 2 * size + 1, "child_tokens": size}
    return chunker_from({"kind": kind} | {key: sizes[key] for key in sizes if key in chunkers[kind].model_fields})


def _limits(chunker: Chunker) -> dict[str, int]:
    options = {"passage": "max_tokens", "parent": "parent_tokens", "child": "child_tokens"}
    return {level: getattr(chunker, name) for level, name in options.items() if name in type(chunker).model_fields}


def _uncovered(text: str, chunks: list[Chunk]) -> list[int]:
    held = {position for chunk in chunks for position in range(chunk.start, chunk.end)}
    return [position for position, char in enumerate(text) if not char.isspace() and position not in held]


@every_chunker
@given(text=texts, size=st.integers(1, 20), tokenize=st.sampled_from(TOKENIZERS))
def test_offsets_are_exact_and_texts_trimmed(kind, text, size, tokenize):
    chunks = _of_size(kind, size).chunk(Item("i", text), tokenize)
    assert [chunk.ordinal for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert chunk.text == text[chunk.start : chunk.end] == chunk.text.strip() != ""


@every_chunker
@given(text=texts, size=st.integers(1, 20), tokenize=st.sampled_from(TOKENIZERS))
def test_every_visible_character_is_in_a_chunk_of_every_level(kind, text, size, tokenize):
    chunks = _of_size(kind, size).chunk(Item("i", text), tokenize)
    for level in {chunk.level for chunk in chunks}:
        assert not _uncovered(text, [chunk for chunk in chunks if chunk.level == level])
    assert chunks or not text.strip()


@every_chunker
@given(text=texts, size=st.integers(1, 20), tokenize=st.sampled_from(TOKENIZERS))
def test_chunks_of_a_level_move_forward_and_none_lies_in_another(kind, text, size, tokenize):
    chunks = _of_size(kind, size).chunk(Item("i", text), tokenize)
    assert [chunk.start for chunk in chunks] == sorted(chunk.start for chunk in chunks)
    for level in {chunk.level for chunk in chunks}:
        spans = [(chunk.start, chunk.end) for chunk in chunks if chunk.level == level]
        assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(spans))


@every_chunker
@given(text=texts, size=st.integers(1, 20), tokenize=st.sampled_from(EXACT))
def test_no_chunk_is_longer_than_allowed(kind, text, size, tokenize):
    chunker = _of_size(kind, size)
    limits = _limits(chunker)
    for chunk in chunker.chunk(Item("i", text), tokenize):
        assert len(tokenize(chunk.text)) <= limits.get(chunk.level, len(text))


@every_chunker
@given(text=texts, size=st.integers(1, 20))
def test_characters_that_cannot_be_parted_are_the_only_excuse_for_length(kind, text, size):
    chunker = _of_size(kind, size)
    limits = _limits(chunker)
    for chunk in chunker.chunk(Item("i", text), _bytes_with_specials):
        too_long = len(chunk.text.encode()) > limits.get(chunk.level, 10**9)
        assert not too_long or len(chunk.text) == 1


@every_chunker
@given(text=texts, size=st.integers(1, 20))
def test_pages_are_told_only_where_there_are_page_breaks(kind, text, size):
    for chunk in _of_size(kind, size).chunk(Item("i", text), word_tokens):
        if "\f" in text:
            assert chunk.page_first == 1 + text[: chunk.start].count("\f")
            assert chunk.page_last == 1 + text[: chunk.end].count("\f")
        else:
            assert (chunk.page_first, chunk.page_last) == (None, None)


@every_chunker
@given(text=texts, size=st.integers(1, 20))
def test_children_lie_in_the_parent_they_name(kind, text, size):
    chunks = _of_size(kind, size).chunk(Item("i", text), word_tokens)
    for chunk in chunks:
        assert (chunk.parent is not None) == (chunk.level == "child")
        if chunk.parent is not None:
            parent = chunks[chunk.parent]
            assert parent.level == "parent"
            assert parent.start <= chunk.start <= chunk.end <= parent.end
            assert parent.heading_path == chunk.heading_path


@every_chunker
@given(text=texts, size=st.integers(1, 20))
def test_ranges_are_told_only_of_rows_and_items(kind, text, size):
    for chunk in _of_size(kind, size).chunk(Item("i", text), word_tokens):
        assert set(chunk.metadata) in ({"rows"}, {"items"}, set())
        for first, last in chunk.metadata.values():
            assert 1 <= first <= last
        if "rows" in chunk.metadata:
            whole_lines = re.split(r"\r\n|[\r\n\f]", chunk.text)[1:-1]
            assert all(line.strip().startswith("|") for line in whole_lines)


@every_chunker
@given(text=texts)
def test_the_same_text_gives_the_same_chunks_and_is_tokenized_at_most_once(kind, text):
    calls: list[str] = []

    def counting(given_text: str) -> list[tuple[int, int]]:
        calls.append(given_text)
        return word_tokens(given_text)

    first = _of_size(kind, 7).chunk(Item("i", text), counting)
    assert calls in ([], [text])
    assert first == _of_size(kind, 7).chunk(Item("i", text), word_tokens)


@every_chunker
@pytest.mark.parametrize("text", ["", " ", "\n\f\r\n\t\u00a0"])
def test_a_blank_text_has_no_chunks(kind, text):
    assert chunkers[kind]().chunk(Item("i", text), word_tokens) == []


@every_chunker
def test_a_short_text_is_one_passage_or_one_parent_with_one_child(kind):
    chunks = chunkers[kind]().chunk(Item("i", "  Just this.\n"), word_tokens)
    assert {chunk.text for chunk in chunks} == {"Just this."}
    assert [chunk.level for chunk in chunks] in (["passage"], ["parent", "child"])


@every_chunker
def test_a_spec_makes_the_round_trip_through_json(kind):
    chunker = _of_size(kind, 9)
    spec = json.loads(json.dumps(spec_of(chunker)))
    assert spec["kind"] == kind
    assert chunker_from(spec) == chunker
    assert spec_of(chunker_from(spec)) == spec_of(chunker)


@every_chunker
def test_class_and_fields_are_described(kind):
    assert chunkers[kind].__doc__
    assert chunkers[kind].__doc__ != Chunker.__doc__
    assert all(field.description for field in chunkers[kind].model_fields.values())
