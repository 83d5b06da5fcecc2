"""What a leg is: options as data, and one way to recall candidates from what is searched."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from inspect import getdoc
from itertools import count
from typing import Any, ClassVar, Literal, overload

from pydantic import BaseModel, ConfigDict, Field
from sqlalchemy import BindParameter, SelectBase
from sqlalchemy.ext.asyncio import AsyncConnection

from core.embedding import Vectors, embedder, stored_as
from core.errors import InputError, SpecError
from core.registry import Registry
from core.store.sanitize import cleaned
from core.store.search_target import SearchTarget
from core.types import Candidate

LONGEST_QUERY = 20_000  # characters: a long page


@dataclass(frozen=True, slots=True)
class Candidates(Sequence[Candidate]):
    """What a leg retrieved, best first; and what a reader of the ranking should know of how it came about."""

    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()

    @overload
    def __getitem__(self, index: int) -> Candidate: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Candidate, ...]: ...

    def __getitem__(self, index: int | slice) -> Candidate | tuple[Candidate, ...]:
        return self.candidates[index]

    def __len__(self) -> int:
        return len(self.candidates)


@dataclass(frozen=True, slots=True)
class QueryParameters:
    """The parameters of a statement that stand for a query's text and vector, which are not known yet.

    The connection is for a look at the collection, not for recalling.
    """

    connection: AsyncConnection
    text: BindParameter[str]
    vector: BindParameter[Any]


@dataclass(frozen=True, slots=True)
class LegSql:
    """A leg as one statement of `id` and `score`, with its own ORDER BY and LIMIT.

    `order` is what its rows are ordered by, before the id. `settings` are those of the server that it relies on.
    `least` is the score below which rows are dropped afterwards. `single` says that scores are of single precision,
    which a client reads as their shortest decimal. `indexes` are the ends of the names of the indexes that serve it.
    """

    statement: SelectBase
    order: str = "score DESC"
    settings: Mapping[str, object] = field(default_factory=dict)
    least: float | None = None
    single: bool = False
    indexes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LegOpening:
    """Which of a leg's options keep a match out of its ranking, and the values with which they no longer do."""

    threshold: str | None = None  # the option by which low scores are dropped
    open_at: float | None = None  # the value with which it drops nothing
    shortcuts: Mapping[str, object] = field(default_factory=dict)  # options that may miss a match: with these, none
    wider: Mapping[str, Sequence[Any]] = field(default_factory=dict)  # values that let more match, nearest first

    def wider_than(self, leg: Leg) -> dict[str, list[Any]]:
        """The values that let more match than the leg's own: other ones, and of thresholds the lower ones."""
        own = {name: getattr(leg, name) for name in self.wider}
        return {
            name: [each for each in values if (each < own[name] if isinstance(each, float) else each != own[name])]
            for name, values in self.wider.items()
        }


@dataclass(frozen=True, slots=True)
class LegDescription:
    """What people are told of a leg, wherever one is shown. `describe` fills in what a leg leaves out."""

    label: str = ""
    slot: int | None = None  # which colour of the palette is its own
    finds: str = ""  # what it looks for
    strength: str = ""  # what that is good and bad at
    nothing: str = ""  # why there are no results
    phrase: str = ""  # "Found ..."
    unmatched: str = "it does not match"  # why a document is not found, exactly
    unmatched_plainly: str = ""  # the same in plain words, where they differ
    changes: Mapping[str, str] = field(default_factory=dict)  # what another value of an option means: {} is it
    visitor_word: str = ""  # "By ...", the heading of a demo's column
    visitor_reason: Literal["", "means", "holds", "spelled"] = ""  # why a visitor sees a result
    opening: LegOpening = LegOpening()


class PreparedQuery:
    """A query's text, and its vector, which is made once however many legs want it.

    `original` is the query before words were added to it, for legs that want every word.
    """

    def __init__(
        self,
        text: str,
        embed: Callable[[str, str], Awaitable[Vectors]] | None = None,
        *,
        original: str | None = None,
    ) -> None:
        self.text = checked_text(text)
        self.original = self.text if original is None else checked_text(original)
        self._embed = embed or _embed_query
        self._vectors: dict[str, asyncio.Future[Vectors]] = {}

    async def vector(self, model: str) -> Vectors:
        if model not in self._vectors:
            self._vectors[model] = asyncio.ensure_future(self._embed(model, self.text))
        return await self._vectors[model]


def checked_text(text: str) -> str:
    """The text as PostgreSQL takes it, without NULs and halves of surrogate pairs; a longer one is refused."""
    if len(text) > LONGEST_QUERY:
        raise InputError(f"The query has {len(text):,} characters, and at most {LONGEST_QUERY:,} are read. Shorten it.")
    return cleaned(text)


async def _embed_query(model: str, text: str) -> Vectors:
    """With the model of our own vectors. For an attached table's, the request's context knows the model."""
    vectors = await embedder(stored_as(model)).embed([text], "query")
    first: Vectors = vectors[0]
    return first


class Leg(BaseModel, ABC):
    """One way to recall candidates."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: str | None = Field(None, min_length=1, description="Its name, where a variant has two legs of one kind.")
    weight: float = Field(1.0, ge=0, description="This leg's share in the fusion.")
    depth: int | None = Field(
        None, ge=1, le=10_000, description="How many candidates to recall; by default top_k x overfetch."
    )

    about: ClassVar[LegDescription] = LegDescription()
    uses_model: ClassVar[bool] = True  # whether what it finds may depend on the embedding model
    reads_words: ClassVar[bool] = False  # whether it reads lexemes or postings, which may be behind an attached table

    @property
    def bounds(self) -> tuple[float, float] | None:
        """The least and the greatest score that it can give, where that is known from its options."""
        return None

    @property
    def deepens(self) -> bool:
        """Whether a deeper ranking only adds at the end, so that it serves every smaller depth."""
        return True

    async def prepare(self, target: SearchTarget, query: PreparedQuery) -> None:
        """What takes long and needs no connection, such as embedding: done before one is taken from the pool."""

    @abstractmethod
    async def recall(
        self, connection: AsyncConnection, target: SearchTarget, query: PreparedQuery, depth: int
    ) -> Candidates:
        """At most `depth` candidates, best first, ties by id. A filtered target gives no others."""

    async def as_sql(self, target: SearchTarget, parameters: QueryParameters, depth: int) -> LegSql:  # noqa: ARG002 - for those that can
        """The same ranking as one statement over parameters."""
        name, able = legs.name_of(type(self)), [each for each in legs if legs[each].as_sql is not Leg.as_sql]
        raise SpecError(f"The leg {name!r} cannot be exported as SQL. What can: {', '.join(sorted(able))}.")


legs: Registry[type[Leg]] = Registry("leg")


def describe(kind: str) -> LegDescription:
    """A leg's description, completed: its sentences by its docstring, its name by its kind, its colour by what is free.

    A colour that is left out is the next one that no leg has claimed, in the order in which legs were registered. A leg
    that is not registered, as results of another installation may name one, is described by its name alone.
    """
    if kind not in legs:
        return LegDescription(label=kind, phrase=f"by {kind}")
    about = legs[kind].about
    claimed = {each.about.slot for each in (legs[name] for name in legs)}
    free = (slot for slot in count() if slot not in claimed)
    unclaimed = {name: next(free) for name in legs if legs[name].about.slot is None}
    first, _, rest = " ".join((getdoc(legs[kind]) or "").split()).partition(". ")
    return replace(
        about,
        label=about.label or kind.replace("_", " ").capitalize(),
        slot=unclaimed.get(kind, about.slot),
        finds=about.finds or (f"{first}." if rest else first),
        strength=about.strength or rest,
        nothing=about.nothing or "Nothing is found this way.",
        phrase=about.phrase or f"by {kind}",
        unmatched_plainly=about.unmatched_plainly or about.unmatched,
    )


def leg_descriptions() -> dict[str, LegDescription]:
    """Every registered leg's, in the order of their colours."""
    return dict(sorted(((kind, describe(kind)) for kind in legs), key=lambda pair: pair[1].slot or 0))


def recalled(rows: Iterable[Any], *notes: str) -> Candidates:
    """Rows that begin with `id` and `score`, as what a leg returns."""
    return Candidates(tuple(Candidate(row[0], float(row[1])) for row in rows), notes)
