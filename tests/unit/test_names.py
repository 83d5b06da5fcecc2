"""Names: what is refused, and why the rest is safe."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SpecError
from core.store import names
from core.store.schema import CATALOG


@given(st.text(max_size=80))
def test_a_name_is_refused_in_a_sentence_or_gives_a_schema_of_its_own_that_postgres_keeps_whole(name: str) -> None:
    try:
        schema = names.schema_of(name)
    except SpecError as error:
        assert str(error)  # noqa: PT017
        return
    assert schema.startswith(names.SCHEMA_PREFIX)
    assert 2 < len(schema.encode()) <= names.LONGEST_IDENTIFIER
    assert not any(unicodedata.category(letter)[0] == "C" for letter in schema)
    assert schema != CATALOG


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_different_names_have_different_schemas(one: str, other: str) -> None:
    try:
        schemas = names.schema_of(one), names.schema_of(other)
    except SpecError:
        return
    same = names.composed(one).translate(names.BRACKETS) == names.composed(other).translate(names.BRACKETS)
    assert (schemas[0] == schemas[1]) is same


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "is empty"),
        (" x", "begins or ends with a blank"),
        ("x\u00a0", "begins or ends with a blank"),
        ("a\x00b", "control character"),
        ("a\u200bb", "control character"),
        ("a\ud800", "control character"),
        ("é" * 32, "takes 64 bytes; PostgreSQL leaves room for 63"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_with_which_name(name: str, reason: str) -> None:
    with pytest.raises(SpecError, match=reason) as caught:
        names.checked(name, what="The chunk set's name")
    assert str(caught.value).startswith("The chunk set's name ")
    assert repr(unicodedata.normalize("NFC", name)) in str(caught.value)


def test_exactly_as_many_bytes_as_there_is_room_for_are_allowed() -> None:
    assert names.checked("é" * 31 + "x", what="It") == "é" * 31 + "x"
    with pytest.raises(SpecError):
        names.checked("é" * 32, what="It")
    assert names.checked("e\u0301", what="It") == "é"
