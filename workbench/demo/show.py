"""The demo that a process serves: its columns and example questions, tried before visitors come."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass
from typing import Final

from core.context import RequestContext
from core.errors import InputError, MissingCapability
from core.legs import legs
from core.pipeline.cost_estimate import estimate_calls
from core.store import demo_role, sanitize
from core.store.collections import CollectionView
from core.store.engine import Store
from core.variant import Variant
from evals.judging import votes
from evals.judging.votes import LONGEST_QUERY, Contest
from evals.labels import query_sets
from evals.variants import resolve_variant
from workbench.demo.answers import Answers
from workbench.services import jobs
from workbench.services.search import example_queries

FEWEST_BLIND: Final = 2
MOST: Final = 3
LETTERS: Final = "ABC"
RIGHTS: Final = demo_role.DemoRights(
    reads=("collections", "contests", "revision_catalog", "votes"), writes="votes", updates=("choice", "voted_at")
)


@dataclass(frozen=True, slots=True)
class DemoColumn:
    """A variant, and what its column is called."""

    name: str
    variant: Variant


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """What `rankbook demo` was given. Without variants it shows words alone beside words and meaning."""

    variants: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    examples: int = 6
    title: str = ""
    blind: bool = False
    seed: int = 0


def columns_of(view: CollectionView, options: DemoOptions) -> tuple[DemoColumn, ...]:
    """The columns, or a refusal that says what to change. Where no names were given, they are in plain words."""
    variants = [resolve_variant(name, chunks=view.default_chunk_set) for name in options.variants] or _usual(view)
    if len(variants) > MOST:
        raise InputError(f"A demo shows one to {MOST} variants side by side; {len(variants)} were given.")
    if options.blind and len(variants) < FEWEST_BLIND:
        raise InputError("A blind demo needs two variants to choose between. Give another with --variant.")
    names = [" ".join(name.split()) for name in options.names or map(_friendly, variants)]
    if len(names) != len(variants):
        raise InputError(
            f"There are {len(variants)} variants and {len(names)} names. Give each a --name, in the same order."
        )
    if "" in names or len(set(names)) < len(names):
        raise InputError("Each variant needs a name of its own that visitors can tell from the others.")
    return tuple(DemoColumn(name, variant) for name, variant in zip(names, variants, strict=True))


def _usual(view: CollectionView) -> list[Variant]:
    words = resolve_variant("bm25", chunks=view.default_chunk_set)
    if view.row.attached is None and not view.embedding_set(view.chunk_set(view.default_chunk_set)):
        return [words, resolve_variant("fuzzy", chunks=view.default_chunk_set)]
    both = Variant(name=HYBRID, legs=(legs["bm25"](), legs["vector"]()), chunks=view.default_chunk_set)
    return [words, both]


def _friendly(variant: Variant) -> str:
    """By what it searches, in plain words; by its own name, where there are none for one of its legs."""
    kinds = [legs.name_of(type(leg)) for leg in variant.legs]
    words = dict.fromkeys(legs[kind].about.visitor_word for kind in legs if kind in kinds)
    if "" in words:
        return variant.name
    return f"By {' and '.join(words)}{', with a second look' if variant.rerank else ''}"


@dataclass(frozen=True, slots=True)
class Demo:
    """A demo that is open to visitors. `store` is opened as the demo's own role; nothing here reaches further."""

    store: Store
    view: CollectionView
    title: str
    columns: tuple[DemoColumn, ...]
    examples: tuple[str, ...]
    blind: bool
    seed: int
    answers: Answers
    contest: Contest

    def order(self, visitor: str, query: str) -> tuple[int, ...]:
        """The places of the columns from left to right: as they were given, or shuffled where it is blind."""
        places = list(range(len(self.columns)))
        if self.blind:
            content = f"{self.seed}\0{visitor}\0{query}"
            random.Random(hashlib.sha256(content.encode()).digest()).shuffle(places)  # noqa: S311 - no secret
        return tuple(places)


def clean_query(text: str) -> str:
    """A visitor's query as it is searched and voted on: one line, cleaned, at most as long as a vote can hold."""
    return " ".join(sanitize.cleaned(text).split())[:LONGEST_QUERY].strip()


# -- the demo of this process ------------------------------------------------------------------------------------------

_current: list[Demo] = []


def set_current(demo: Demo) -> None:
    """A process shows one demo."""
    _current[:] = [demo]


def clear_current() -> None:
    _current.clear()


def current() -> Demo:
    """What the page shows."""
    if not _current:
        raise InputError("There is no demo here. Start one with `rankbook demo`.")
    return _current[0]


ANY_QUESTION: Final = "hello"  # what columns are tried with where there is no example
JOB: Final = ("demo", "examples")
HYBRID: Final = "words and meaning"


async def open_demo(owner: Store, view: CollectionView, options: DemoOptions) -> Demo:
    """The demo, ready to be served. The caller closes its store in the end."""
    columns = columns_of(view, options)
    contest = Contest.of(view.name, {each.name: each.variant for each in columns})
    queries = options.queries
    if not queries and options.examples:
        labelled = await query_sets.load(owner, view.name)
        queries = tuple(query.text for query in example_queries(labelled, options.examples))
    queries = tuple(dict.fromkeys(filter(None, map(clean_query, queries))))
    if options.blind:
        await votes.announce(owner, contest)
    store = await demo_role.open_demo(owner, view, RIGHTS)
    answers = Answers(store, view, [each.variant for each in columns])
    title = " ".join(options.title.split()) or view.name
    return Demo(store, view, title, columns, queries, options.blind, options.seed, answers, contest)


async def try_columns(demo: Demo) -> None:
    """Ask every column once, as a visitor will. What does not work is refused before the demo is served."""
    await demo.answers.warm()
    answer = await demo.answers.answer(next(iter(demo.examples), ANY_QUESTION))
    for column, answered in zip(demo.columns, answer.columns, strict=True):
        if answered.problem is not None:
            raise MissingCapability(f"{column.name!r} finds nothing here. {answered.problem}") from answered.problem


def begin_answering(demo: Demo) -> jobs.Job[int]:
    """Answer the examples in the background."""
    jobs.forget(JOB)
    return jobs.start(
        JOB, "Answers to the examples", lambda told, stop: demo.answers.prepare(demo.examples, told, stop)
    )


def find_answering() -> jobs.Job[int] | None:
    return jobs.find(JOB)


async def cost_notices(demo: Demo) -> list[str]:
    """What each visitor's query may cost where a variant asks a language model. Asks none."""
    context = RequestContext(demo.store, demo.view)
    query = next(iter(demo.examples), ANY_QUESTION)
    return [
        f"{column.name}: for each query {sentence}"
        for column in demo.columns
        for sentence in await estimate_calls(context, query, column.variant)
    ]
