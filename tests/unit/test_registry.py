"""Registries: explicit, without doubles, and helpful about what they do not hold."""

from __future__ import annotations

import pytest

from core.errors import UnknownName
from core.registry import Registry


@pytest.fixture
def fruits() -> Registry[type]:
    made: Registry[type] = Registry("fruit")
    made.register("apple")(int)
    made.register("pear")(str)
    return made


def test_what_was_registered_is_found_by_name_and_its_name_by_it(fruits: Registry[type]) -> None:
    assert fruits["apple"] is int
    assert fruits.name_of(str) == "pear"
    assert "apple" in fruits
    assert "plum" not in fruits
    assert list(fruits) == ["apple", "pear"]
    assert len(fruits) == 2


def test_registering_gives_the_class_back_unchanged(fruits: Registry[type]) -> None:
    @fruits.register("plum")
    class Plum:
        pass

    assert fruits["plum"] is Plum


def test_a_name_registered_twice_raises_and_names_both(fruits: Registry[type]) -> None:
    with pytest.raises(ValueError, match=r"'apple' is registered twice: .*int.*float"):
        fruits.register("apple")(float)
    assert fruits["apple"] is int


def test_an_unknown_name_names_the_nearest_and_all_there_are(fruits: Registry[type]) -> None:
    with pytest.raises(UnknownName, match=r"No fruit is called 'aple'. Did you mean 'apple'. There is: apple, pear."):
        fruits["aple"]
    with pytest.raises(UnknownName, match="There is none yet"):
        Registry("fruit")["apple"]
