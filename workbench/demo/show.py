"""The demo as one who serves it sets it up: its columns, its questions, and what is asked before it opens."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.context import RequestContext
from core.errors import InputError, MissingCapability
from core.legs import legs
from core.pipeline.cost_estimate import estimate_calls as estimated
from core.store import sanitize
from core.store.collections import CollectionView
from core.store.engine import Store
from core.variant import Variant
from evals.judging import votes
from evals.judging.votes import LONGEST_QUERY, Contest
from evals.labels import query_sets
from evals.variants import resolve_variant
from workbench.demo import role
from workbench.demo.answers import Answers
from workbench.services import jobs
from workbench.services.search import examples

FEWEST_BLIND: Final = 2
MOST: Final = 3
LETTERS: Final = "ABC"


@dataclass(frozen=True, slots=True)
class DemoColumn:
    """A variant, and what its column is called."""

    name: str
    variant: Variant


def entered(names: Sequence[str], variants: Sequence[Variant], *, blind: bool) -> tuple[DemoColumn, ...]:
    """The columns, or a refusal that says what to change."""
    if not 1 <= len(variants) <= MOST:
        raise InputError(f"A demo shows one to {MOST} variants side by side; {len(variants)} were given.")
    if blind and len(variants) < FEWEST_BLIND:
        raise InputError("A blind demo needs two variants to choose between. Give another with --variant.")
    if len(names) != len(variants):
        raise InputError(
            f"There are {len(variants)} variants and {len(names)} names. Give each a --name, in the same order."
        )
    cleaned = [" ".join(name.split()) for name in names]
    if "" in cleaned or len(set(cleaned)) < len(cleaned):
        raise InputError("Each variant needs a name of its own that visitors can tell from the others.")
    return tuple(DemoColumn(name, variant) for name, variant in zip(cleaned, variants, strict=True))


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """A demo as it was asked for. Without variants: words alone beside words and meaning, where there is meaning."""

    variants: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    examples: int = 6
    title: str = ""
    blind: bool = False
    seed: int = 0


def entrants(view: CollectionView, wanted: DemoOptions) -> tuple[DemoColumn, ...]:
    """The columns. Names that were not given are the plainest there are."""
    chosen = [resolve_variant(name, chunks=view.default_chunk_set) for name in wanted.variants] or _usual(view)
    names = wanted.names or tuple(_friendly(each) for each in chosen)
    return entered(names, chosen, blind=wanted.blind)


def _usual(view: CollectionView) -> list[Variant]:
    words = resolve_variant("bm25", chunks=view.default_chunk_set)
    if view.row.attached is None and not view.embedding_set(view.chunk_set(view.default_chunk_set)):
        return [words, resolve_variant("fuzzy", chunks=view.default_chunk_set)]
    both = Variant(name=HYBRID, legs=(legs["bm25"](), legs["vector"]()), chunks=view.default_chunk_set)
    return [words, both]


def _friendly(variant: Variant) -> str:
    """By what it searches, in plain words; by its own name, where there are none for one of its legs."""
    kinds = [legs.name_of(type(leg)) for leg in variant.legs]
    if not set(kinds) <= FRIENDLY.keys():
        return variant.name
    ways = dict.fromkeys(way for kind, way in FRIENDLY.items() if kind in kinds)
    return f"By {' and '.join(ways)}{', with a second look' if variant.rerank else ''}"


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo that is on. `store` is opened as the demo's own role; nothing here reaches further."""

    store: Store
    view: CollectionView
    title: str
    entrants: tuple[DemoColumn, ...]
    examples: tuple[str, ...]
    blind: bool
    seed: int
    answers: Answers
    contest: Contest

    def order(self, visitor: str, query: str) -> tuple[int, ...]:
        """Which entrant stands in which column: as they were given, or blind and shuffled."""
        places = list(range(len(self.entrants)))
        if self.blind:
            content = f"{self.seed}\0{visitor}\0{query}"
            random.Random(hashlib.sha256(content.encode()).digest()).shuffle(places)  # noqa: S311 - no secret
        return tuple(places)


def asked(text: str) -> str:
    """A visitor's query as it is searched and voted on: on one line, storable, and not endless."""
    return " ".join(sanitize.cleaned(text).split())[:LONGEST_QUERY].strip()


# -- the one that is on ----------------------------------------------------------------------------------------------

_on: list[Demo] = []


def set_current(show: Demo) -> None:
    """A process shows one demo."""
    _on[:] = [show]


def take_off() -> None:
    _on.clear()


def current() -> Demo:
    """What the page shows."""
    if not _on:
        raise InputError("There is no demo here. Start one with `rankbook demo`.")
    return _on[0]


ANY_QUESTION: Final = "hello"  # what columns are tried with where there is no example
JOB: Final = ("demo", "examples")
FRIENDLY: Final = {
    "bm25": "words",
    "fulltext": "words",
    "trigram": "spelling",
    "fuzzy": "spelling",
    "vector": "meaning",
}
HYBRID: Final = "words and meaning"


async def opened(owner: Store, view: CollectionView, wanted: DemoOptions) -> Demo:
    """The demo, ready to be put on. Whoever called closes its store in the end."""
    columns = entrants(view, wanted)
    contest = Contest.of(view.name, {each.name: each.variant for each in columns})
    queries = await _examples(owner, view, wanted)
    if wanted.blind:
        await votes.announce(owner, contest)
    store = await role.opened(owner, view)
    answers = Answers(store, view, [each.variant for each in columns])
    title = " ".join(wanted.title.split()) or view.name
    return Demo(store, view, title, columns, queries, wanted.blind, wanted.seed, answers, contest)


async def _examples(owner: Store, view: CollectionView, wanted: DemoOptions) -> tuple[str, ...]:
    given = wanted.queries
    if not given and wanted.examples:
        labelled = await query_sets.load(owner, view.name)
        given = tuple(query.text for query in examples(labelled, wanted.examples))
    return tuple(dict.fromkeys(filter(None, map(asked, given))))


async def tried(show: Demo) -> None:
    """Ask every column once, as a visitor will: what does not work is told to whoever starts the demo."""
    await show.answers.warm()
    answer = await show.answers.answer(next(iter(show.examples), ANY_QUESTION))
    for entrant, column in zip(show.entrants, answer.columns, strict=True):
        if column.problem is not None:
            raise MissingCapability(f"{entrant.name!r} finds nothing here. {column.problem}") from column.problem


def begin_answering(show: Demo) -> jobs.Job[int]:
    """The examples, in the background."""
    jobs.forget(JOB)
    return jobs.start(
        JOB, "Answers to the examples", lambda told, stop: show.answers.prepare(show.examples, told, stop)
    )


def find_answering() -> jobs.Job[int] | None:
    return jobs.find(JOB)


async def planned(show: Demo) -> list[str]:
    """What each visitor's query may cost, where a language model is asked: said before any is asked."""
    context = RequestContext(show.store, show.view)
    query = next(iter(show.examples), ANY_QUESTION)
    return [
        f"{entrant.name}: for each query {said}"
        for entrant in show.entrants
        for said in await estimated(context, query, entrant.variant)
    ]


def told(names: Sequence[DemoColumn]) -> str:
    """The columns in one line."""
    return ", ".join(f"{each.name} ({each.variant.name})" for each in names)
