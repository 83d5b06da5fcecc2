"""Answers that visitors of the demo see, with one plain reason each."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Final

from core import bridge
from core.context import RequestContext
from core.errors import Cancelled, DeadlineExceeded
from core.explain.explanation import ordinal
from core.legs import legs
from core.legs.query_terms import keywords_of
from core.pipeline.retriever import RetrievalResult, search
from core.progress import Listener, Step
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.resolve_target import search_target
from core.tasks import side_by_side
from core.types import Hit, LegScore, Stage
from core.variant import Variant
from workbench.behind.search.finding import warm
from workbench.behind.search.marking import WORD, matched_words

WORDS_NAMED: Final = 4
READ: Final = 20_000  # characters of a text in which words are looked for
Reason = Callable[[Sequence[str]], str]


def _means(_: Sequence[str]) -> str:
    return "means something similar"


def _holds(words: Sequence[str]) -> str:
    named = ", ".join(f"“{word}”" for word in words[:WORDS_NAMED])
    return f"holds the word{'s' * (len(words) > 1)} {named}" if words else "holds words of the question"


def _spelled(words: Sequence[str]) -> str:
    named = ", ".join(f"“{word}”" for word in words[:WORDS_NAMED])
    return f"is spelled like {named}" if words else "is spelled like the question"


REASONS: Final[Mapping[str, Reason]] = {
    "vector": _means,
    "fulltext": _holds,
    "bm25": _holds,
    "trigram": _spelled,
    "fuzzy": _spelled,
}


def why(bundle: RetrievalResult, hit: Hit, keywords: Sequence[str]) -> str:
    """The sentence of one hit."""
    words = named_words(hit, keywords)
    told = [_with_place(hit, each, reason(words)) for each, reason in _reasons(bundle.variant, hit)]
    found = f"Found because it {_joined(told)}." if told else "Found because it matches the question."
    return f"{found} {_second_look(bundle, hit)}".strip()


def named_words(hit: Hit, keywords: Sequence[str]) -> list[str]:
    """The words of the query that stand in the hit, in the query's order."""
    return matched_words(f"{hit.title}\n{hit.text[:READ]}", keywords)


def _reasons(variant: Variant, hit: Hit) -> list[tuple[LegScore, Reason]]:
    """Those that had a say, in the order of the variant's legs; two of one kind are said once, by the better."""
    kinds = {name: legs.name_of(type(leg)) for name, leg in zip(variant.leg_names, variant.legs, strict=True)}
    heard = [each for each in hit.legs if each.contribution] or list(hit.legs)
    best: dict[Reason, LegScore] = {}
    for each in sorted(heard, key=lambda score: score.rank):
        if reason := REASONS.get(kinds.get(each.leg, "")):
            best.setdefault(reason, each)
    order = list(kinds)
    return sorted(((each, reason) for reason, each in best.items()), key=lambda pair: order.index(pair[0].leg))


def _with_place(hit: Hit, score: LegScore, reason: str) -> str:
    """The place by that reason alone, where there is another."""
    return f"{reason} ({ordinal(score.rank)})" if len(hit.legs) > 1 else reason


def _joined(told: Sequence[str]) -> str:
    return told[0] if len(told) == 1 else f"{', '.join(told[:-1])} and {told[-1]}"


def _second_look(bundle: RetrievalResult, hit: Hit) -> str:
    """What the reranking did to it, told by its place before."""
    stages = bundle.trace.stages
    at = next((at for at, stage in enumerate(stages) if stage.name == "rerank"), None)
    if at is None or hit.rerank_score is None:
        return ""
    before = _place(stages[:at], hit)
    if before is None or before == hit.rank:
        return "A second, closer look agreed."
    return f"A second, closer look moved it {'up' if before > hit.rank else 'down'} from the {ordinal(before)} place."


def _place(stages: Sequence[Stage], hit: Hit) -> int | None:
    """Where the last stage before had it; a parent that took its child's place is not found there."""
    ranking = next((stage.ranking for stage in reversed(stages) if stage.ranking), ())
    return next((at for at, (unit, _) in enumerate(ranking, start=1) if unit == hit.id), None)


SHOWN: Final = 5
AT_ONCE: Final = 4  # queries; each takes a connection a leg
PATIENCE: Final = 15.0  # seconds for a query, its turn included
KEPT: Final = 300

_log = logging.getLogger("rankbook")


@dataclass(frozen=True, slots=True)
class Found:
    """A document by its best passage, and why it is there."""

    hit: Hit
    why: str


@dataclass(frozen=True, slots=True)
class Column:
    """What one variant found; or what it met, which is for the terminal and not for a visitor."""

    found: tuple[Found, ...] = ()
    problem: Exception | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """All columns of a query, in the order of the variants. `keywords` are its words without those of no meaning."""

    query: str
    columns: tuple[Column, ...]
    keywords: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        return all(column.problem is None for column in self.columns)


class Answers:
    """Asks once, however many wait for the same query."""

    def __init__(
        self, store: Store, view: CollectionView, variants: Sequence[Variant], *, patience: float = PATIENCE
    ) -> None:
        self.store, self.view, self.patience = store, view, patience
        # What would be thrown away here is not made: it changes no ranking, and late chunks are kept by writing.
        self.variants = tuple(variant.but(late=None, pack=None) for variant in variants)
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._asked: OrderedDict[str, futures.Future[Answer]] = OrderedDict()
        self._examples: dict[str, Answer] = {}

    def ask(self, query: str) -> futures.Future[Answer]:
        """The answer, under way or there. One that failed is worth another try."""
        with self._lock:
            if query in self._examples:
                return _done(self._examples[query])
            known = self._asked.get(query)
            if known is None or _failed(known):
                known = asyncio.run_coroutine_threadsafe(self.answer(query), bridge.loop())
                self._asked[query] = known
            self._asked.move_to_end(query)
            for old in [each for each, future in self._asked.items() if future.done()][: max(0, self._surplus)]:
                del self._asked[old]
            return known

    @property
    def _surplus(self) -> int:
        return len(self._asked) - KEPT

    async def prepare(self, queries: Sequence[str], listener: Listener, stop: asyncio.Event) -> int:
        """Load the models, then answer the examples. Those that fail are asked when somebody wants them."""
        await self.warm()
        for done, query in enumerate(queries):
            listener(Step("Answered ahead", done, len(queries), "examples"))
            if stop.is_set():
                raise Cancelled("The demo was stopped.")
            answer = await self.answer(query)
            if answer.whole:
                self._examples[query] = answer
        listener(Step("Answered ahead", len(queries), len(queries), "examples"))
        return len(self._examples)

    async def warm(self) -> None:
        """Have every embedding model in memory."""
        models = {search_target(self.store, self.view, each.chunks, each.model).model for each in self.variants}
        for model in sorted(filter(None, models)):
            await asyncio.shield(asyncio.wrap_future(warm(model)))

    async def answer(self, query: str) -> Answer:
        """All columns, within the time that a visitor is made to wait."""
        try:
            async with asyncio.timeout(self.patience), self._turns:
                keywords = await self._keywords(query)
                columns = await side_by_side(*(self._column(query, each, keywords) for each in self.variants))
        except TimeoutError:
            raise DeadlineExceeded(f"No answer within {self.patience:g} s.") from None
        return Answer(query, tuple(columns), keywords)

    async def _column(self, query: str, variant: Variant, keywords: Sequence[str]) -> Column:
        try:
            bundle = await search(RequestContext(self.store, self.view), query, variant)
        except Exception as error:
            _log.warning("the demo's variant %r failed: %s", variant.name, error, exc_info=error)
            return Column(problem=error)
        return Column(tuple(_distinct(bundle, keywords)))

    async def _keywords(self, query: str) -> tuple[str, ...]:
        async with self.store.begin(read_only=True) as connection:
            words = await connection.scalar(keywords_of(self.view.row.language, query)) or ""
        return tuple(dict.fromkeys(WORD.findall(words)))


def _distinct(bundle: RetrievalResult, keywords: Sequence[str]) -> list[Found]:
    """The first few documents, each by its best passage."""
    best: dict[str, Hit] = {}
    for hit in bundle.hits:
        best.setdefault(hit.item_id, hit)
    return [Found(hit, why(bundle, hit, keywords)) for hit in list(best.values())[:SHOWN]]


def _done(answer: Answer) -> futures.Future[Answer]:
    made: futures.Future[Answer] = futures.Future()
    made.set_result(answer)
    return made


def _failed(future: futures.Future[Answer]) -> bool:
    return future.done() and (future.cancelled() or future.exception() is not None or not future.result().whole)
