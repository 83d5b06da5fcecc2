"""From what somebody typed to a demo that is on: variants found, role made, examples chosen, each column tried once.

The owner's store is used up to here and not beyond; what visitors reach is opened as the demo's own role.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from core.errors import MissingCapability
from core.estimating import planned as estimated
from core.legs import legs
from core.retriever import RequestContext
from core.store.collections import View
from core.store.engine import Store
from core.variant import Variant
from evals import query_sets
from evals.judging import votes
from evals.judging.votes import Contest
from evals.references import variant_of
from workbench.behind import jobs
from workbench.behind.search.labelling import examples
from workbench.demo import role
from workbench.demo.answers import Answers
from workbench.demo.show import Entrant, Show, asked, entered

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


@dataclass(frozen=True, slots=True)
class Wanted:
    """A demo as it was asked for. Without variants: words alone beside words and meaning, where there is meaning."""

    variants: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    examples: int = 6
    title: str = ""
    blind: bool = False
    seed: int = 0


def entrants(view: View, wanted: Wanted) -> tuple[Entrant, ...]:
    """The columns. Names that were not given are the plainest there are."""
    chosen = [variant_of(name, chunks=view.finest) for name in wanted.variants] or _usual(view)
    names = wanted.names or tuple(_friendly(each) for each in chosen)
    return entered(names, chosen, blind=wanted.blind)


def _usual(view: View) -> list[Variant]:
    words = variant_of("bm25", chunks=view.finest)
    if view.row.attached is None and not view.embedding_set(view.chunk_set(view.finest)):
        return [words, variant_of("fuzzy", chunks=view.finest)]
    both = Variant(name=HYBRID, legs=(legs["bm25"](), legs["vector"]()), chunks=view.finest)
    return [words, both]


def _friendly(variant: Variant) -> str:
    """By what it searches, in plain words; by its own name, where there are none for one of its legs."""
    kinds = [legs.name_of(type(leg)) for leg in variant.legs]
    if not set(kinds) <= FRIENDLY.keys():
        return variant.name
    ways = dict.fromkeys(way for kind, way in FRIENDLY.items() if kind in kinds)
    return f"By {' and '.join(ways)}{', with a second look' if variant.rerank else ''}"


async def opened(owner: Store, view: View, wanted: Wanted) -> Show:
    """The demo, ready to be put on. Whoever called closes its store in the end."""
    columns = entrants(view, wanted)
    contest = Contest.of(view.name, {each.name: each.variant for each in columns})
    queries = await _examples(owner, view, wanted)
    if wanted.blind:
        await votes.announce(owner, contest)
    store = await role.opened(owner, view)
    answers = Answers(store, view, [each.variant for each in columns])
    title = " ".join(wanted.title.split()) or view.name
    return Show(store, view, title, columns, queries, wanted.blind, wanted.seed, answers, contest)


async def _examples(owner: Store, view: View, wanted: Wanted) -> tuple[str, ...]:
    given = wanted.queries
    if not given and wanted.examples:
        labelled = await query_sets.load(owner, view.name)
        given = tuple(query.text for query in examples(labelled, wanted.examples))
    return tuple(dict.fromkeys(filter(None, map(asked, given))))


async def tried(show: Show) -> None:
    """Ask every column once, as a visitor will: what does not work is told to whoever starts the demo."""
    await show.answers.warm()
    answer = await show.answers.answer(next(iter(show.examples), ANY_QUESTION))
    for entrant, column in zip(show.entrants, answer.columns, strict=True):
        if column.problem is not None:
            raise MissingCapability(f"{entrant.name!r} finds nothing here. {column.problem}") from column.problem


def begin_answering(show: Show) -> jobs.Job[int]:
    """The examples, in the background."""
    jobs.forget(JOB)
    return jobs.begin(
        JOB, "Answers to the examples", lambda told, stop: show.answers.prepare(show.examples, told, stop)
    )


def find_answering() -> jobs.Job[int] | None:
    return jobs.find(JOB)


async def planned(show: Show) -> list[str]:
    """What each visitor's query may cost, where a language model is asked: said before any is asked."""
    context = RequestContext(show.store, show.view)
    query = next(iter(show.examples), ANY_QUESTION)
    return [
        f"{entrant.name}: for each query {said}"
        for entrant in show.entrants
        for said in await estimated(context, query, entrant.variant)
    ]


def told(names: Sequence[Entrant]) -> str:
    """The columns in one line."""
    return ", ".join(f"{each.name} ({each.variant.name})" for each in names)
