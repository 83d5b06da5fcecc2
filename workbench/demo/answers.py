"""Answers that visitors of the demo see, with one plain reason each."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent import futures
from dataclasses import dataclass
from typing import Final

from core import bridge
from core.context import RequestContext
from core.errors import Cancelled, DeadlineExceeded
from core.explain.explanation import ordinal
from core.legs.query_terms import keywords_of
from core.pipeline.retriever import RetrievalResult, search
from core.progress import Listener, Step
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.resolve_target import search_target
from core.tasks import side_by_side
from core.types import Hit, LegScore, Stage
from core.variant import Variant
from workbench.services.search import preload_model
from workbench.services.snippets import WORD, matched_words

WORDS_NAMED: Final = 4
READ: Final = 20_000  # characters of a text in which words are looked for


def reason_words(reason: str, words: Sequence[str]) -> str:
    """The end of "Found because it ...", of a leg that finds by meaning, by words or by spelling."""
    named = ", ".join(f"“{word}”" for word in words[:WORDS_NAMED])
    if reason == "holds":
        return f"holds the word{'s' * (len(words) > 1)} {named}" if words else "holds words of the question"
    if reason == "spelled":
        return f"is spelled like {named}" if words else "is spelled like the question"
    return "means something similar"


def why(bundle: RetrievalResult, hit: Hit, keywords: Sequence[str]) -> str:
    """The sentence of one hit."""
    words = named_words(hit, keywords)
    told = [_with_place(hit, each, reason_words(reason, words)) for each, reason in _reasons(bundle.variant, hit)]
    found = f"Found because it {_joined(told)}." if told else "Found because it matches the question."
    return f"{found} {_second_look(bundle, hit)}".strip()


def named_words(hit: Hit, keywords: Sequence[str]) -> list[str]:
    """The words of the query that stand in the hit, in the query's order."""
    return matched_words(f"{hit.title}\n{hit.text[:READ]}", keywords)


def _reasons(variant: Variant, hit: Hit) -> list[tuple[LegScore, str]]:
    """Those that had a say, in the order of the variant's legs; two of one kind are said once, by the better."""
    reasons = {name: leg.about.visitor_reason for name, leg in zip(variant.leg_names, variant.legs, strict=True)}
    heard = [each for each in hit.legs if each.contribution] or list(hit.legs)
    best: dict[str, LegScore] = {}
    for each in sorted(heard, key=lambda score: score.rank):
        if reason := reasons.get(each.leg, ""):
            best.setdefault(reason, each)
    order = list(reasons)
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
class AnswerHit:
    """A document by its best passage, and one sentence why it is there."""

    hit: Hit
    why: str


@dataclass(frozen=True, slots=True)
class AnswerColumn:
    """What one variant found, or the error that it met, which visitors are not shown."""

    hits: tuple[AnswerHit, ...] = ()
    problem: Exception | None = None


@dataclass(frozen=True, slots=True)
class DemoAnswer:
    """All columns of a query, in the order of the variants. `keywords` are its words without function words."""

    query: str
    columns: tuple[AnswerColumn, ...]
    keywords: tuple[str, ...] = ()

    @property
    def whole(self) -> bool:
        return all(column.problem is None for column in self.columns)


class Answers:
    """Answers each query once, however many visitors wait for it."""

    def __init__(
        self, store: Store, view: CollectionView, variants: Sequence[Variant], *, patience: float = PATIENCE
    ) -> None:
        self.store, self.view, self.patience = store, view, patience
        # Nothing is made here that no visitor sees: a packed context, and late chunks, which are kept by writing.
        self.variants = tuple(variant.but(late=None, pack=None) for variant in variants)
        self._turns = asyncio.Semaphore(AT_ONCE)
        self._lock = threading.Lock()
        self._answers: OrderedDict[str, futures.Future[DemoAnswer]] = OrderedDict()
        self._examples: dict[str, DemoAnswer] = {}

    def ask(self, query: str) -> futures.Future[DemoAnswer]:
        """The answer, under way or there. A query that failed is asked again."""
        with self._lock:
            if query in self._examples:
                done: futures.Future[DemoAnswer] = futures.Future()
                done.set_result(self._examples[query])
                return done
            known = self._answers.get(query)
            if known is not None and known.done():
                failed = known.cancelled() or known.exception() is not None or not known.result().whole
                known = None if failed else known
            if known is None:
                known = asyncio.run_coroutine_threadsafe(self.answer(query), bridge.loop())
                self._answers[query] = known
            self._answers.move_to_end(query)
            surplus = max(0, len(self._answers) - KEPT)
            for old in [each for each, future in self._answers.items() if future.done()][:surplus]:
                del self._answers[old]
            return known

    async def prepare(self, queries: Sequence[str], listener: Listener, stop: asyncio.Event) -> int:
        """Load the models, then answer the examples. Those that fail are asked again when a visitor wants them."""
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
            await asyncio.shield(asyncio.wrap_future(preload_model(model)))

    async def answer(self, query: str) -> DemoAnswer:
        """All columns, within the time that a visitor is made to wait."""
        try:
            async with asyncio.timeout(self.patience), self._turns:
                async with self.store.begin(read_only=True) as connection:
                    words = await connection.scalar(keywords_of(self.view.row.language, query)) or ""
                keywords = tuple(dict.fromkeys(WORD.findall(words)))
                columns = await side_by_side(*(self._column(query, each, keywords) for each in self.variants))
        except TimeoutError:
            raise DeadlineExceeded(f"No answer within {self.patience:g} s.") from None
        return DemoAnswer(query, tuple(columns), keywords)

    async def _column(self, query: str, variant: Variant, keywords: Sequence[str]) -> AnswerColumn:
        """The first few documents, each by its best passage."""
        try:
            bundle = await search(RequestContext(self.store, self.view), query, variant)
        except Exception as error:
            _log.warning("the demo's variant %r failed: %s", variant.name, error, exc_info=error)
            return AnswerColumn(problem=error)
        best: dict[str, Hit] = {}
        for hit in bundle.hits:
            best.setdefault(hit.item_id, hit)
        return AnswerColumn(tuple(AnswerHit(hit, why(bundle, hit, keywords)) for hit in list(best.values())[:SHOWN]))
