"""Every error a person can cause, as one tree. A message says what failed, the value, and the way out.

RankbookError
├── InputError            a file, line or field that somebody gave
├── SpecError             options that do not validate or do not fit together
│   └── UnknownName       a name that no registry or catalogue holds; names the nearest
├── EmbeddingError        a model that cannot be loaded, or an endpoint that failed
│   └── DimensionUnknown  an endpoint that has not embedded a text yet
├── LanguageModelError    a language model that did not answer, or not as asked
├── BudgetError           a call that would cost more than is allowed; it was not made
├── RerankError           a reranker that cannot be loaded, or an endpoint that failed
├── ClusterFailed         a Dask cluster that cannot be reached, or went away
├── Cancelled             somebody stopped the work
├── DeadlineExceeded      the work took longer than it was allowed
└── StoreError            the database
    ├── ServerError       the embedded server cannot be started
    ├── ConnectionFailed  nothing answers at the DSN
    ├── Deadlock          other work waited for this, and this for it
    ├── MissingCapability an extension or privilege that the server lacks
    └── NotAllowed        the role of whoever is signed in does not go so far
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from typing import Any, get_args

import pydantic
from pydantic_core import ErrorDetails

LISTED = 40  # names in an error


class RankbookError(Exception):
    """Base of all. `str(error)` is a sentence fit for the person who caused it."""


class InputError(RankbookError):
    """Something in a file. Carries where, so that a list of them can be shown as a table."""

    def __init__(
        self, message: str, *, path: Path | str | None = None, line: int | None = None, field: str | None = None
    ) -> None:
        self.message, self.path, self.line, self.field = message, path, line, field
        where = ", ".join(
            part
            for part in (
                str(path) if path is not None else "",
                f"line {line}" if line is not None else "",
                f"field {field!r}" if field else "",
            )
            if part
        )
        super().__init__(f"{where}: {message}" if where else message)


class SpecError(RankbookError):
    """Options that do not validate, or a combination that cannot work."""

    @classmethod
    def from_pydantic(cls, what: str, error: pydantic.ValidationError) -> SpecError:
        """One line a field: where, what was given, what is wanted."""
        problems = error.errors(include_url=False)
        return cls(f"{what} is not valid. " + "; ".join(_in_words(each, what, error.title) for each in problems))


class UnknownName(SpecError):
    """A name nobody registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, way_out: str = "") -> None:
        self.known = sorted(set(known))
        near = get_close_matches(name, self.known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        # A name with a comma inside is quoted.
        names = ", ".join(repr(each) if "," in each else each for each in self.known[:LISTED])
        more = f" and {len(self.known) - LISTED} more" if len(self.known) > LISTED else ""
        choices = f" There is: {names}{more}." if self.known else " There is none yet."
        super().__init__(f"No {kind} is called {name!r}.{hint}{choices}{' ' + way_out if way_out else ''}")


class EmbeddingError(RankbookError):
    """A model that cannot be loaded, or an endpoint that did not give vectors."""


class DimensionUnknown(EmbeddingError):
    """Nothing but an embedded text tells how long this model's vectors are."""


class LanguageModelError(RankbookError):
    """A chat endpoint that failed, or whose answer is not what was asked for."""


class BudgetError(RankbookError):
    """The estimate is above what is left of the cap. Nothing left this machine."""


class RerankError(RankbookError):
    """A cross-encoder that cannot be loaded, or a rerank endpoint that did not rank."""


class ClusterFailed(RankbookError):
    """No scheduler answers, no worker is left, or the workers are not fit for the work."""


class Cancelled(RankbookError):
    """The request's token was set; its statements on the server were cancelled."""


class DeadlineExceeded(RankbookError):
    """The request's deadline passed; its statements on the server were cancelled."""


class StoreError(RankbookError):
    """The database refused, or holds something else than expected."""


class ServerError(StoreError):
    """The embedded server cannot be started or stopped."""


class ConnectionFailed(StoreError):
    """Nothing answers at the DSN, or it refuses us."""


class Deadlock(StoreError):
    """Other work on the same tables waited for this, and this for it: the server ended this."""


class MissingCapability(StoreError):
    """The server lacks an extension or a privilege; only what needs it is unavailable."""


class NotAllowed(StoreError):
    """Whoever is signed in may not do this. Nothing was changed."""


# What pydantic calls the commonest mistakes, and what is said of them. Everything else keeps the library's words.
_WORDS = {
    "missing": "is missing",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_from_float": "must be a whole number",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "finite_number": "must be a finite number",
    "bool_type": "must be true or false",
    "bool_parsing": "must be true or false",
    "string_type": "must be a text",
    "list_type": "must be a list",
    "tuple_type": "must be a list",
    "dict_type": "must be a table of options",
    "model_type": "must be a table of options",
    "none_required": "must be left out",
    "literal_error": "must be one of {expected}",
    "enum": "must be one of {expected}",
    "greater_than": "must be greater than {gt}",
    "greater_than_equal": "must be {ge} or more",
    "less_than": "must be less than {lt}",
    "less_than_equal": "must be {le} or less",
    "string_too_short": "must have {min_length} characters or more",
    "string_too_long": "must have {max_length} characters or fewer",
    "too_short": "must have {min_length} entries or more",
    "too_long": "must have {max_length} entries or fewer",
    "string_pattern_mismatch": "must have the form {pattern}",
    "value_error": "{error}",
    "assertion_error": "{error}",
}


def _in_words(problem: ErrorDetails, what: str, title: str) -> str:
    """One problem: where, what is wanted, and what was given, where something was."""
    where = ".".join(map(str, problem["loc"])) or what
    if problem["type"] == "extra_forbidden":
        *path, name = problem["loc"]
        known = _fields(title, path)
        near = get_close_matches(str(name), known, n=1)
        hint = f"; did you mean {near[0]!r}?" if near else f"; there is: {', '.join(known)}" if known else ""
        wanted = f"is not known here{hint}"
    elif problem["type"] in _WORDS:
        context = problem.get("ctx", {}).items()
        bounds = {name: f"{value:g}" if isinstance(value, float) else str(value) for name, value in context}
        short = bounds.get("min_length") == "1"
        wanted = "must not be empty" if short else _WORDS[problem["type"]].format(**bounds)
    else:
        wanted = problem["msg"]
    given = "" if problem["type"] == "missing" else f" (given: {problem['input']!r:.80})"
    return f"{where}: {wanted}{given}"


def _fields(title: str, path: list[int | str]) -> list[str]:
    """The fields of the model that was being filled; none where its name, which is all that we have, does not tell."""
    found = {each for each in _descendants(pydantic.BaseModel) if each.__name__ == title}
    for part in path:
        if isinstance(part, str):
            fields = [
                field for each in found for name, field in each.model_fields.items() if part in (name, field.alias)
            ]
            inside = {inner for field in fields for inner in _models(field.annotation)}
            found = inside or {each for each in found if each.__name__.lower() == part}  # or the tag of a union
    if len(found) != 1:
        return []
    return sorted(field.alias or name for name, field in found.pop().model_fields.items())


def _models(annotation: Any) -> set[type[pydantic.BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, pydantic.BaseModel):
        return {annotation}
    return {found for part in get_args(annotation) for found in _models(part)}


def _descendants(model: type[pydantic.BaseModel]) -> set[type[pydantic.BaseModel]]:
    return {found for each in model.__subclasses__() for found in (each, *_descendants(each))}
