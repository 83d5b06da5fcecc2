"""The tree of errors: as drawn, and every message a sentence for the person who caused it."""

from __future__ import annotations

import inspect
import pickle
import re

import pydantic
import pytest

from core import errors
from core.errors import InputError, RankbookError, SpecError, UnknownName


def test_the_tree_is_the_one_that_the_docstring_draws() -> None:
    drawn: dict[str, str] = {}
    path: list[str] = []
    lines = (errors.__doc__ or "").splitlines()
    for line in lines[lines.index("RankbookError") :]:
        if found := re.match(r"^([│ ]*)(├── |└── )?([A-Z]\w+)", line):
            depth = (len(found[1]) + 4 * bool(found[2])) // 4
            path[depth:] = [found[3]]
            drawn[found[3]] = path[depth - 1] if depth else "Exception"
    defined = {
        name: each.__base__.__name__
        for name, each in inspect.getmembers(errors, inspect.isclass)
        if each.__module__ == errors.__name__ and each.__base__
    }
    assert drawn == defined
    assert len(drawn) >= 9


def test_an_input_error_says_where() -> None:
    error = InputError("is not a number", path="qrels.tsv", line=3, field="grade")
    assert str(error) == "qrels.tsv, line 3, field 'grade': is not a number"
    assert str(InputError("is empty")) == "is empty"
    assert (error.path, error.line, error.field, error.message) == ("qrels.tsv", 3, "grade", "is not a number")


def test_line_zero_is_a_line() -> None:
    assert str(InputError("odd", line=0)) == "line 0: odd"


def test_a_refused_spec_says_field_value_and_wish_in_one_line() -> None:
    class Options(pydantic.BaseModel):
        k: int
        names: list[str]

    with pytest.raises(pydantic.ValidationError) as caught:
        Options(k="many", names=["a", 2])
    sentence = str(SpecError.from_pydantic("The fusion", caught.value))
    assert sentence.startswith("The fusion is not valid. k: ")
    assert "given: 'many'" in sentence
    assert "names.1: " in sentence
    assert "\n" not in sentence
    assert "https" not in sentence


def test_an_unknown_name_without_a_near_one_guesses_nothing() -> None:
    error = UnknownName("leg", "qqqq", ["vector"], way_out="See `rankbook legs`.")
    assert str(error) == "No leg is called 'qqqq'. There is: vector. See `rankbook legs`."
    assert error.known == ["vector"]


def test_an_unknown_name_lists_each_known_one_once_and_tells_those_with_commas_apart() -> None:
    said = str(UnknownName("run", "x", ["hybrid, k=10", "bm25", "bm25"]))
    assert said == "No run is called 'x'. There is: bm25, 'hybrid, k=10'."
    assert str(UnknownName("run", "x", [f"run {at:03}" for at in range(100)])).endswith("run 039 and 60 more.")


def test_every_error_is_one_of_ours() -> None:
    for _, each in inspect.getmembers(errors, inspect.isclass):
        if each.__module__ == errors.__name__:
            assert issubclass(each, RankbookError)


def test_a_plain_error_survives_a_process_boundary() -> None:
    assert str(pickle.loads(pickle.dumps(errors.ServerError("a sentence")))) == "a sentence"
