"""What a worker answers with: a plain value, or a refusal in a sentence. Errors themselves are not sent.

An error is raised where it is told; sent, it would drag along what it was raised from, a statement's values say.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

from core import errors
from core.errors import RankbookError

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Refused:
    """A sentence of our own, and the name of its kind."""

    kind: str
    sentence: str

    def error(self) -> RankbookError:
        """To be raised here. Kinds that are made of more than a sentence come as the plainest one."""
        kind = getattr(errors, self.kind, RankbookError)
        plain = isinstance(kind, type) and issubclass(kind, RankbookError) and kind.__init__ is Exception.__init__
        made: RankbookError = kind(self.sentence) if plain else RankbookError(self.sentence)
        return made


def answering(function: Callable[P, T]) -> Callable[P, T | Refused]:
    """A function that a worker runs: its own errors come back as values."""

    @functools.wraps(function)
    def answered(*given: P.args, **named: P.kwargs) -> T | Refused:
        try:
            return function(*given, **named)
        except RankbookError as error:
            return Refused(type(error).__name__, str(error))

    return answered
