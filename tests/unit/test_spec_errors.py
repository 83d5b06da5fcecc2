"""What pydantic refuses, in plain words."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from core.errors import SpecError


class Inside(BaseModel):
    model_config = ConfigDict(extra="forbid")

    overlap: int = 0


class OptionsOfThisTest(BaseModel):
    model_config = ConfigDict(extra="forbid")

    needed: str
    depth: int = Field(10, ge=1, lt=100)
    share: float = Field(0.5, gt=0, le=1)
    quick: bool = False
    method: Literal["rrf", "linear"] = "rrf"
    names: list[str] = Field([], max_length=2)
    label: str = Field("x", min_length=1)
    inside: Inside | None = None
    even: int = 2

    @field_validator("even")
    @classmethod
    def _is_even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


def said(**options: Any) -> str:
    with pytest.raises(ValidationError) as caught:
        OptionsOfThisTest(**{"needed": "here", **options})
    return str(SpecError.from_pydantic("The spec", caught.value)).removeprefix("The spec is not valid. ")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"depth": "many"}, "depth: must be a whole number (given: 'many')"),
        ({"depth": 1.5}, "depth: must be a whole number (given: 1.5)"),
        ({"depth": 0}, "depth: must be 1 or more (given: 0)"),
        ({"depth": 100}, "depth: must be less than 100 (given: 100)"),
        ({"share": "half"}, "share: must be a number (given: 'half')"),
        ({"share": 0}, "share: must be greater than 0 (given: 0)"),
        ({"share": 2}, "share: must be 1 or less (given: 2)"),
        ({"quick": "perhaps"}, "quick: must be true or false (given: 'perhaps')"),
        ({"method": "rfr"}, "method: must be one of 'rrf' or 'linear' (given: 'rfr')"),
        ({"names": "a"}, "names: must be a list (given: 'a')"),
        ({"names": ["a", 2]}, "names.1: must be a text (given: 2)"),
        ({"names": ["a", "b", "c"]}, "names: must have 2 entries or fewer (given: ['a', 'b', 'c'])"),
        ({"label": ""}, "label: must not be empty (given: '')"),
        ({"even": 3}, "even: must be even (given: 3)"),
        ({"dept": 3}, "dept: is not known here; did you mean 'depth'? (given: 3)"),
        ({"inside": {"overlaps": 3}}, "inside.overlaps: is not known here; did you mean 'overlap'? (given: 3)"),
        ({"inside": {"qqq": 3}}, "inside.qqq: is not known here; there is: overlap (given: 3)"),
    ],
)
def test_the_commonest_mistakes_are_told_in_plain_words(options: dict[str, Any], sentence: str) -> None:
    assert said(**options) == sentence


def test_a_field_that_is_missing_is_told_without_repeating_the_rest() -> None:
    with pytest.raises(ValidationError) as caught:
        OptionsOfThisTest.model_validate({"depth": 3})
    assert str(SpecError.from_pydantic("The spec", caught.value)) == "The spec is not valid. needed: is missing"


def test_a_mistake_of_another_kind_keeps_the_librarys_words() -> None:
    class WithBytes(BaseModel):
        raw: bytes

    with pytest.raises(ValidationError) as caught:
        WithBytes.model_validate({"raw": 1})
    assert "raw: Input should be" in str(SpecError.from_pydantic("It", caught.value))
