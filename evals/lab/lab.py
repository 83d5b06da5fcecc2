"""Rankbook from Python: a collection opened, searched, evaluated, tuned, judged and reported, one method each."""

from __future__ import annotations

import asyncio
import sys
import weakref
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

import pydantic

from core import bridge
from core.context import Resources
from core.errors import InputError, SpecError, StoreError, UnknownName
from core.explain import explain
from core.fusion import Fusion
from core.fusion.base import FUSIONS
from core.legs.base import checked_text
from core.pipeline.retriever import search
from core.progress import Listener
from core.sql_export import export_sql
from core.store.engine import Store
from core.store.passages import read_items
from core.variant import Variant
from evals.collections import load_labels
from evals.collections.load import bring_in
from evals.collections.load_labels import LoadReport
from evals.collections.overview import summary
from evals.display import Displayable, Table, sentences, watched
from evals.evaluation.board import Board
from evals.evaluation.context import EvalContext, default_split, open_eval, tuning_split
from evals.evaluation.evaluate import check_documents, evaluate
from evals.judging import judgements as judging
from evals.judging import merging
from evals.judging import queue as judging_queue
from evals.judging.judgements import Judgement
from evals.judging.queue import QueueSpec
from evals.lab.results import (
    CollectionFacts,
    Compared,
    LabelResult,
    LabHits,
    LabRun,
    LabSweep,
    Pool,
    SideBySide,
    Statement,
    Why,
    changes_frame,
    queries_frame,
    runs_frame,
)
from evals.labels import corrections, label_files
from evals.labels.revisions import Cause, LabelChange
from evals.measures import DEFAULT_METRIC, METRICS
from evals.runs import candidates, run_store
from evals.runs.exchange import ForeignRun, foreign_run
from evals.runs.plan import DEFAULT_RULES, EvalOptions
from evals.runs.types import Run
from evals.schema import schema_chain
from evals.sources import Source
from evals.statistics.verdicts import Rules
from evals.tuning.tuner import TuningProcedure
from evals.tuning.workflow import TuningRequest, reported_split, tune_weights
from evals.types import DEFAULT_QUERY_SET
from evals.variants import Reference, hybrid_of, resolve_variant

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
Entry = Reference | Run | LabRun
PATIENCE = 10.0  # seconds that a store may take to close


class Lab(Displayable):
    """A collection, opened. Give it back with `close` or `with`; one that is forgotten gives itself back."""

    def __init__(
        self,
        collection: str = "handbook",
        source: Source | Path | str | None = None,
        *,
        query_set: str = DEFAULT_QUERY_SET,
        dsn: str | None = None,
        store: Store | None = None,
        resources: Resources | None = None,
        progress: bool = True,
        **plan: Any,
    ) -> None:
        """Open the store that `dsn` or RANKBOOK_DSN names, else the embedded one, or take an open one.

        With a source, a path or the name of a public collection, what is new in it is brought in, and `notes` say what
        of it was left out, repaired or read in another form; `plan` are options of `evals.collections.load.LoadPlan`.
        Without one, a collection that ships with Rankbook is loaded where it is not there yet.
        """
        self.collection, self.query_set, self.progress = collection, query_set, progress
        self.resources = resources
        self.notes: tuple[str, ...] = ()
        self._store = store or bridge.run(
            Store.open(dsn, chains=[schema_chain], progress=sentences(quiet=not progress))
        )
        self._given_back = weakref.finalize(self, give_back, self._store) if store is None else None
        try:
            self.notes = self._long(
                lambda listener: bring_in(self.store, collection, source, plan, resources, listener)
            )
            self._open()
        except BaseException:
            self.close()
            raise

    @property
    def store(self) -> Store:
        """The open store; a closed one would open connections again that are never given back."""
        if self.closed:
            raise StoreError(f"This lab is closed. Open {self.collection!r} anew.")
        return self._store

    @property
    def closed(self) -> bool:
        return self._given_back is not None and not self._given_back.alive

    def close(self) -> None:
        """Give the store back, where it is this lab's own. Safe to call twice."""
        if self._given_back is not None:
            self._given_back()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- asking ------------------------------------------------------------------------------------------------------

    def variant(self, reference: Reference) -> Variant:
        """The variant of a name, a path or a dictionary; a bare leg searches the first chunk set."""
        return resolve_variant(reference, chunks=self._open().view.default_chunk_set)

    @overload
    def search(self, query: str, variant: list[Reference], *, top_k: int | None = None) -> SideBySide: ...

    @overload
    def search(self, query: str, variant: Reference = "vector", *, top_k: int | None = None) -> LabHits: ...

    def search(
        self, query: str, variant: Reference | list[Reference] = "vector", *, top_k: int | None = None
    ) -> LabHits | SideBySide:
        """The hits of a variant; of several in a list, side by side."""
        if isinstance(variant, list):
            return SideBySide(tuple(self.search(query, each, top_k=top_k) for each in variant))
        ctx = self._open()
        wanted = resolve_variant(variant, chunks=ctx.view.default_chunk_set)
        return LabHits(bridge.run(search(ctx.context, query, wanted.but(top_k=top_k) if top_k else wanted)))

    def why(self, query: str, variant: Reference, document: str, *, costly: bool = False) -> Why:
        """Why a document or chunk is among the results or not, and what would bring it in."""
        ctx = self._open()
        explained = resolve_variant(variant, chunks=ctx.view.default_chunk_set)
        return Why(self._long(lambda _: explain(ctx.context, query, explained, document, costly=costly)))

    def sql(self, variant: Reference, query: str | None = None) -> Statement:
        """The variant as one SQL statement with parameters; with a query, ready for psql."""
        ctx = self._open()
        exported = resolve_variant(variant, chunks=ctx.view.default_chunk_set)
        made = bridge.run(export_sql(self.store, ctx.view, exported, query=query))
        if query is None:
            return Statement(made.script)
        if not made.needs_vector or made.model is None:
            return Statement(made.filled(query))
        vectors = bridge.run(ctx.context.embedder(made.model).embed([checked_text(query)], "query"))
        return Statement(made.filled(query, vectors[0]))

    # -- scoring -----------------------------------------------------------------------------------------------------

    def evaluate(
        self,
        variants: Entry | Sequence[Entry],
        *,
        split: str | None = None,
        metrics: str | Sequence[str] = METRICS,
        baseline: str | None = None,
        as_shipped: bool = True,
        again: bool = False,
        time_live: int = 0,
        rules: Rules = DEFAULT_RULES,
    ) -> Board:
        """Variants and runs over the labelled queries of a split, scored side by side; what is kept is not run again.

        Without a split it is test, or what there is. The others are compared with the baseline: one of them, a kept
        run, or else the first.
        """
        ctx = self._open()
        options = EvalOptions(
            (metrics,) if isinstance(metrics, str) else tuple(metrics), baseline, as_shipped, again, time_live, rules
        )
        one = isinstance(variants, str) or not isinstance(variants, Sequence)
        given: list[Entry] = [variants] if one else list(variants)  # type: ignore[list-item, arg-type]
        entries: list[Variant | Run] = []
        for each in given:
            run = each.run if isinstance(each, LabRun) else each
            entries.append(run if isinstance(run, Run) else resolve_variant(run, chunks=ctx.view.default_chunk_set))
        part = ctx.split(split or default_split(ctx.labelled))
        return self._long(lambda listener: evaluate(ctx, entries, part, options, progress=listener)).board

    def compare(self, one: Entry, other: Entry, metric: str = DEFAULT_METRIC, *, split: str | None = None) -> Compared:
        """Two of them in every detail: the verdict, the queries that decide, the kinds of query."""
        board = self.evaluate([other, one], split=split, metrics=metric)
        baseline, system = board.names
        return Compared(board, board.compare(system, baseline, board.metrics[0]), board.metrics[0])

    def sweep(  # noqa: PLR0913 - an option each
        self,
        legs: Reference | Sequence[Reference],
        *,
        split: str | None = None,
        reported: str = "test",
        metric: str = DEFAULT_METRIC,
        fusions: Sequence[Fusion | Mapping[str, Any] | str] = ("rrf", "linear"),
        steps: int = 20,
        per_kind: bool = False,
        procedure: TuningProcedure | None = None,
        depth: int | None = None,
    ) -> LabSweep:
        """All weights of two to four legs, or of a variant's own, scored over a split; and which to take.

        Without a split it is train, or what there is. Queries that the `reported` split has too are left out: they must
        not choose the weights they are scored with. `depth` is how many candidates each leg fetches, by default as the
        variant has it; the variant that comes of the sweep has it too.
        """
        ctx = self._open()
        chunks = ctx.view.default_chunk_set
        several = isinstance(legs, Sequence) and not isinstance(legs, str)
        base = hybrid_of(legs, chunks) if several else resolve_variant(legs, chunks=chunks)  # type: ignore[arg-type]
        base = base if depth is None else base.at_depth(depth)
        among = tuple(FUSIONS.read({"method": each} if isinstance(each, str) else each) for each in fusions)
        part = ctx.split(split or tuning_split(ctx.labelled))
        other = reported_split(ctx, reported, part.name)
        how = procedure or TuningProcedure()
        request = TuningRequest(base, part, metric, steps, among, per_kind, how, other)
        tuned = self._long(lambda listener: tune_weights(ctx, request, listener))
        return LabSweep(base, tuned.result, tuned.notes)

    def add_run(
        self, name: str, rankings: Path | str | Mapping[str, Mapping[str, float]] | Any, *, split: str | None = None
    ) -> LabRun:
        """A run of another engine, kept, to be evaluated as an equal.

        A file (TREC, CSV, Parquet ...), {query: {document: score}}, a frame of query, item and score, or ranx's `Run`.
        """
        ctx = self._open()
        part = ctx.any_split(split or default_split(ctx.labelled))

        async def work() -> LabRun:
            subject = await ctx.subject(part)
            read = await asyncio.to_thread(foreign_run, subject, part, name, rankings)
            found = await check_documents(ctx, read)
            return LabRun(await run_store.save(ctx.store, found.run), tuple(_foreign_notes(found)))

        return bridge.run(work())

    def run(self, reference: str) -> LabRun:
        """A kept run, by its name, a pin or the beginning of its id."""
        return LabRun(bridge.run(run_store.load(self.store, reference, collection=self.collection)))

    def set_aside(self, run: str | Run | LabRun, *, back: bool = False) -> None:
        """Take the run's set-up out of the candidates among which verdicts must hold, or `back` among them."""
        found = self.run(run).run if isinstance(run, str) else run.run if isinstance(run, LabRun) else run
        bridge.run(candidates.set_aside(self.store, found, back=back))

    def runs(self) -> pd.DataFrame:
        """The kept runs of this collection, newest first, with the means that were worked out."""
        return runs_frame(bridge.run(run_store.listed(self.store, collection=self.collection)))

    def queries(self, split: str | None = None) -> pd.DataFrame:
        """The labelled queries of a split, by default all there are."""
        return queries_frame(self._open().any_split(split or "all"))

    # -- judging -----------------------------------------------------------------------------------------------------

    def pool(self, runs: Board | Sequence[Run | LabRun], *, judge: str = "", **options: Any) -> Pool:
        """What to judge next: of two runs what settles them soonest, of several their top by depth.

        `options` are those of `evals.judging.queue.QueueSpec`: order, metric, depth, limit, seed, again.
        """
        for name in options:
            if name not in QueueSpec.model_fields:
                raise UnknownName("option", name, QueueSpec.model_fields)
        try:
            spec = QueueSpec(**options)
        except pydantic.ValidationError as error:
            raise SpecError.from_pydantic("This", error) from error
        pooled = [
            each.run if isinstance(each, LabRun) else each for each in (runs.runs if isinstance(runs, Board) else runs)
        ]
        return Pool(bridge.run(judging_queue.build_queue(self.store, self._open().view, pooled, spec, judge)))

    def judge(self, judge: str, grades: Mapping[tuple[str, str], int]) -> int:
        """Keep a person's grades of (query, document) pairs, on the texts as they are now; how many there were."""
        view = self._open().view
        items = bridge.run(read_items(self.store, view, {item for _, item in grades}))
        if gone := [item for _, item in grades if item not in items]:
            raise InputError(f"The document {gone[0]!r:.80} is not in {view.name!r}, so it cannot be judged.")
        made = [Judgement(query, item, judge, grade, items[item].version) for (query, item), grade in grades.items()]
        bridge.run(judging.save_judgements(self.store, view.name, made))
        return len(made)

    def merge_judgements(
        self,
        into: str = "judged",
        *,
        split: str = "test",
        models: bool | None = None,
        overrule: bool | None = None,
        overwrite: bool = False,
    ) -> Lab:
        """This lab over a query set that has the judgements among its labels; what came with the collection stays."""
        how: dict[str, Any] = {"models": models, "overrule": overrule, "overwrite": overwrite}
        view, name = self._open().view, self.query_set
        bridge.run(merging.merge_judgements(self.store, view, into, name=name, split=split, **how))
        shared: dict[str, Any] = {"store": self.store, "resources": self.resources, "progress": self.progress}
        return Lab(self.collection, query_set=into, **shared)

    # -- labels ------------------------------------------------------------------------------------------------------

    def label(
        self,
        origin: Path | str,
        *,
        queries: Path | str | None = None,
        even_so: bool = False,
        all_grades: bool = False,
        author: str = "",
    ) -> LabelResult:
        """Replace the query set's labels, and its queries where there are some, with those from files.

        Refused where fewer would be left, unless `even_so`, and where grades go beyond 0 to 3, unless `all_grades`.
        """
        announce = print_change if self.progress else load_labels.no_announcement
        how: dict[str, Any] = {"even_so": even_so, "all_grades": all_grades, "announce": announce, "author": author}
        queries_file = None if queries is None else Path(queries)
        view = self._open().view

        async def work() -> LoadReport:
            source = await asyncio.to_thread(label_files.labels_at, str(origin), queries=queries_file)
            return await load_labels.load_labels(self.store, view, source, query_set=self.query_set, **how)

        added = bridge.run(work())
        sentence = f"{self.query_set}: {added.queries:,} queries, {added.labels:,} labels."
        return LabelResult(sentence, added, tuple(added.flaws))

    def relabel(
        self,
        query: str,
        document: str,
        grade: int | None,
        *,
        split: str | None = None,
        all_grades: bool = False,
        author: str = "",
        why: str = "",
    ) -> LabelResult:
        """Give a document the grade that it should have for a query, both by their ids; None takes the label away."""
        made = bridge.run(
            corrections.relabel(
                self.store,
                self._open().view,
                query,
                document,
                grade,
                query_set=self.query_set,
                split=split,
                all_grades=all_grades,
                cause=Cause(author, why),
            )
        )
        return LabelResult(made.sentence, made)

    def undo_labels(self, *, author: str = "") -> LabelResult:
        """Take back the last change of the query set, whoever made it; again, the one before it."""
        done = bridge.run(corrections.undo(self.store, self._open().view.name, name=self.query_set, author=author))
        return LabelResult(done.sentence, done)

    def redo_labels(self, *, author: str = "") -> LabelResult:
        """Make again the change that was undone last."""
        done = bridge.run(corrections.redo(self.store, self._open().view.name, name=self.query_set, author=author))
        return LabelResult(done.sentence, done)

    def label_changes(self) -> pd.DataFrame:
        """The last changes of the query set, latest first: when, who, what, why, and whether they hold."""
        found = bridge.run(corrections.changes(self.store, self._open().view.name, name=self.query_set))
        return changes_frame(found)

    # -- itself ------------------------------------------------------------------------------------------------------

    def tables(self) -> tuple[Table, ...]:
        if self.closed:
            return (Table.of(f"{self.collection} (closed)"),)
        ctx = self._open()
        facts_of = bridge.run(summary(self.store, ctx.view))
        facts = {
            "documents": f"{facts_of.items:,}",
            "chunk sets": facts_of.chunk_sets,
            "models": facts_of.models,
            "queries": f"{len(ctx.labelled.queries):,} in the query set {self.query_set}",
            "labelled": ", ".join(f"{split} {count:,}" for split, count in ctx.labelled.splits.items()) or "none",
        }
        return CollectionFacts(
            facts_of.name, facts | ({"read in": " ".join(self.notes)} if self.notes else {})
        ).tables()

    def _open(self) -> EvalContext:
        """Read anew for each method: documents or labels may have been added since."""
        return bridge.run(open_eval(self.store, self.collection, self.query_set, resources=self.resources))

    def _long(self, work: Callable[[Listener], Coroutine[Any, Any, T]]) -> T:
        """Watched on stderr. Interrupting it, by Ctrl-C or Jupyter's button, cancels what runs on the server."""
        with watched(quiet=not self.progress) as listener:
            return bridge.run(work(listener))


def give_back(store: Store) -> None:
    """Close it. Waits for that, unless it is called in the loop's own thread, as a collected object's finaliser may."""
    closing = asyncio.run_coroutine_threadsafe(store.close(), bridge.loop())
    if not bridge.is_inside():
        with suppress(TookTooLong):
            closing.result(PATIENCE)


def print_change(change: LabelChange) -> None:
    """On stderr, where progress goes too."""
    sys.stderr.write(f"{change.sentence}\n")


def _foreign_notes(found: ForeignRun) -> Iterable[str]:
    """How the run meets the queries, and what was wrong with its lines."""
    missing, unasked, flaws = found.missing, found.unasked, found.flaws
    if missing:
        yield f"It has nothing for {len(missing)} of the queries, {missing[0]!r} among them; they score 0."
    if unasked:
        yield f"It has {len(unasked)} queries that are not asked here, {unasked[0]!r} among them; they do not count."
    yield from (flaw.message for flaw in flaws if flaw.outcome == "noted")
    if wrong := [flaw for flaw in flaws if flaw.outcome != "noted"]:
        yield f"{len(wrong)} of its lines were cleaned or left out; the first, {wrong[0].place}: {wrong[0].message}"
