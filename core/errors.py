"""Every error a person can cause, as one tree. A message says what failed, the value, and the way out.

RankbookError
├── InputError            a file, line or field that somebody gave
├── SpecError             options that do not validate or do not fit together
│   └── UnknownName       a name that no registry or catalogue holds; names the nearest
├── EmbeddingError        a model that cannot be loaded, or an endpoint that failed
├── LanguageModelError    a language model that did not answer, or not as asked
├── BudgetError           a call that would cost more than is allowed; it was not made
├── RerankError           a reranker that cannot be loaded, or an endpoint that failed
├── Cancelled             somebody stopped the work
├── DeadlineExceeded      the work took longer than it was allowed
└── StoreError            the database
    ├── ServerError       the embedded server cannot be started
    ├── ConnectionFailed  nothing answers at the DSN
    └── MissingCapability an extension or privilege that the server lacks
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

import pydantic


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
        lines = [
            f"{'.'.join(map(str, problem['loc'])) or what}: {problem['msg']} (given: {problem['input']!r:.80})"
            for problem in error.errors(include_url=False)
        ]
        return cls(f"{what} is not valid. " + "; ".join(lines))


class UnknownName(SpecError):
    """A name nobody registered."""

    def __init__(self, kind: str, name: str, known: Iterable[str], *, way_out: str = "") -> None:
        self.known = sorted(known)
        near = get_close_matches(name, self.known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        choices = f" There is: {', '.join(self.known)}." if self.known else " There is none yet."
        super().__init__(f"No {kind} is called {name!r}.{hint}{choices}{' ' + way_out if way_out else ''}")


class EmbeddingError(RankbookError):
    """A model that cannot be loaded, or an endpoint that did not give vectors."""


class LanguageModelError(RankbookError):
    """A chat endpoint that failed, or whose answer is not what was asked for."""


class BudgetError(RankbookError):
    """The estimate is above what is left of the cap. Nothing left this machine."""


class RerankError(RankbookError):
    """A cross-encoder that cannot be loaded, or a rerank endpoint that did not rank."""


class Cancelled(RankbookError):
    """The request's token was set; its statements on the server were cancelled."""


class DeadlineExceeded(RankbookError):
    """The request's deadline passed; its statements on the server were cancelled."""


class StoreError(RankbookError):
    """The database said no, or holds something else than asked for."""


class ServerError(StoreError):
    """The embedded server cannot be started or stopped."""


class ConnectionFailed(StoreError):
    """Nothing answers at the DSN, or it refuses us."""


class MissingCapability(StoreError):
    """The server lacks an extension or a privilege; only what needs it is unavailable."""
