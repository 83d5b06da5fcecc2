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
from pydantic import BaseModel

from core import bridge
from core.context import Resources
from core.errors import InputError, SpecError, StoreError, UnknownName
from core.explain import explain
from core.fusion import Fusion
from core.legs.base import checked_text
from core.pipeline.retriever import search
from core.progress import Listener
from core.sql_export import export
from core.store import collections
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.passages import read_items
from core.variant import Variant
from evals.collections import load
from evals.collections.load import LoadReport, brought_in
from evals.collections.overview import summary
from evals.display import Displayable, Table, sentences, watched
from evals.evaluation.board import DEFAULT_RULES, METRICS, Board
from evals.evaluation.context import EvalContext, EvalOptions, default_split, open_eval, tuning_split
from evals.evaluation.evaluate import check_documents, evaluate_entries
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
from evals.measures import DEFAULT_METRIC
from evals.runs import candidates, run_store
from evals.runs.exchange import ForeignRun, foreign_run
from evals.runs.types import Run
from evals.schema import schema_chain
from evals.sources import Source
from evals.statistics.verdicts import Rules
from evals.tuning import workflow
from evals.tuning.tuner import TuningProcedure
from evals.tuning.workflow import TuningRequest, exclude_reported, looked
from evals.types import DEFAULT_QUERY_SET, QuerySplit
from evals.variants import Reference, hybrid_of, resolve_variant

if TYPE_CHECKING:
    import pandas as pd

T = TypeVar("T")
Entry = Reference | Run | LabRun


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
                lambda listener: brought_in(self.store, collection, source, plan, resources, listener)
            )
            self._ground()
        except BaseException:
            self.close()
            raise

    @property
    def store(self) -> Store:
        """The open store; a closed one would open connections again that nobody gives back."""
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
        """What a name, a path or a dictionary stands for here: a bare leg searches the first chunk set."""
        return resolve_variant(reference, chunks=self._view().default_chunk_set)

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
        asked = self.variant(variant)
        return LabHits(bridge.run(search(self._ground().context, query, asked.but(top_k=top_k) if top_k else asked)))

    def why(self, query: str, variant: Reference, document: str, *, costly: bool = False) -> Why:
        """Why a document or chunk is among the results or not, and what would bring it in."""
        asked, context = self.variant(variant), self._ground().context
        return Why(self._long(lambda _: explain(context, query, asked, document, costly=costly)))

    def sql(self, variant: Reference, query: str | None = None) -> Statement:
        """The variant as one SQL statement with parameters; with a query, ready for psql."""
        context = self._ground().context
        made = bridge.run(export(self.store, context.view, self.variant(variant), query=query))
        if query is None:
            return Statement(made.script)
        if not made.needs_vector or made.model is None:
            return Statement(made.filled(query))
        vectors = bridge.run(context.embedder(made.model).embed([checked_text(query)], "query"))
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
        wanted = EvalOptions(_several(metrics), baseline, as_shipped, again, time_live, rules)
        entries = [each.run if isinstance(each, LabRun) else self._entry(each) for each in _list(variants)]
        ground = self._ground()
        part = ground.split(split or default_split(ground.labelled))
        return self._long(lambda listener: evaluate_entries(ground, entries, part, wanted, listener))

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
        base, ground = self._base(legs), self._ground()
        base = base if depth is None else base.at_depth(depth)
        asked = looked(base, metric, steps, fusions, procedure or TuningProcedure(), per_kind=per_kind)
        return self._long(
            lambda listener: swept(ground, asked, split or tuning_split(ground.labelled), reported, listener)
        )

    def add_run(
        self, name: str, rankings: Path | str | Mapping[str, Mapping[str, float]] | Any, *, split: str | None = None
    ) -> LabRun:
        """A run of another engine, kept, to be evaluated as an equal.

        A file (TREC, CSV, Parquet ...), {query: {document: score}}, a frame of query, item and score, or ranx's `Run`.
        """
        ground = self._ground()
        part = ground.any_split(split or default_split(ground.labelled))
        return bridge.run(joined(ground, part, name, rankings))

    def run(self, reference: str) -> LabRun:
        """A kept run, by its name, a pin or the beginning of its id."""
        return LabRun(bridge.run(run_store.load(self.store, reference, collection=self.collection)))

    def set_aside(self, run: str | Run | LabRun, *, back: bool = False) -> None:
        """Take the run's set-up out of what verdicts over its queries are made with in view, or `back` into it."""
        found = self.run(run).run if isinstance(run, str) else run.run if isinstance(run, LabRun) else run
        bridge.run(candidates.set_aside(self.store, found, back=back))

    def runs(self) -> pd.DataFrame:
        """The kept runs of this collection, newest first, with the means that were worked out."""
        return runs_frame(bridge.run(run_store.listed(self.store, collection=self.collection)))

    def queries(self, split: str | None = None) -> pd.DataFrame:
        """The labelled queries of a split, by default all there are."""
        return queries_frame(self._ground().any_split(split or "all"))

    # -- judging -----------------------------------------------------------------------------------------------------

    def pool(self, runs: Board | Sequence[Run | LabRun], *, judge: str = "", **options: Any) -> Pool:
        """What to judge next: of two runs what settles them soonest, of several their top by depth.

        `options` are those of `evals.judging.queue.QueueSpec`: order, metric, depth, limit, seed, again.
        """
        given = (
            runs.runs if isinstance(runs, Board) else [each.run if isinstance(each, LabRun) else each for each in runs]
        )
        spec = checked(QueueSpec, options)
        return Pool(bridge.run(judging_queue.build_queue(self.store, self._view(), given, spec, judge)))

    def judge(self, judge: str, grades: Mapping[tuple[str, str], int]) -> int:
        """Keep a person's grades of (query, document) pairs, on the texts as they are now; how many there were."""
        made = bridge.run(judgements(self.store, self._view(), judge, grades))
        bridge.run(judging.save_judgements(self.store, self._view().name, made))
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
        view, name = self._view(), self.query_set
        bridge.run(merging.merge_judgements(self.store, view, into, name=name, split=split, **how))
        return self._with(into)

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
        announce = print_change if self.progress else load.unannounced
        how = {"even_so": even_so, "all_grades": all_grades, "announce": announce, "author": author}
        asked = None if queries is None else Path(queries)
        work = labelled(self.store, self._view(), str(origin), asked, self.query_set, **how)
        return label_result(bridge.run(work), self.query_set)

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
                self._view(),
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
        done = bridge.run(corrections.undo(self.store, self._view().name, name=self.query_set, author=author))
        return LabelResult(done.sentence, done)

    def redo_labels(self, *, author: str = "") -> LabelResult:
        """Make again the change that was undone last."""
        done = bridge.run(corrections.redo(self.store, self._view().name, name=self.query_set, author=author))
        return LabelResult(done.sentence, done)

    def label_changes(self) -> pd.DataFrame:
        """The last changes of the query set, latest first: when, who, what, why, and whether they hold."""
        found = bridge.run(corrections.changes(self.store, self._view().name, name=self.query_set))
        return changes_frame(found)

    # -- itself ------------------------------------------------------------------------------------------------------

    def tables(self) -> tuple[Table, ...]:
        if self.closed:
            return (Table.of(f"{self.collection} (closed)"),)
        ground = self._ground()
        told = bridge.run(summary(self.store, ground.view))
        facts = {
            "documents": f"{told.items:,}",
            "chunk sets": told.chunk_sets,
            "models": told.models,
            "queries": f"{len(ground.labelled.queries):,} in the query set {self.query_set}",
            "labelled": ", ".join(f"{split} {count:,}" for split, count in ground.labelled.splits.items()) or "none",
        }
        return CollectionFacts(told.name, facts | ({"read in": " ".join(self.notes)} if self.notes else {})).tables()

    def _with(self, query_set: str) -> Lab:
        return Lab(
            self.collection, query_set=query_set, store=self.store, resources=self.resources, progress=self.progress
        )

    def _view(self) -> collections.CollectionView:
        return self._ground().view

    def _ground(self) -> EvalContext:
        """As it stands now: somebody may have added documents or labels meanwhile."""
        return bridge.run(open_eval(self.store, self.collection, self.query_set, resources=self.resources))

    def _entry(self, given: Reference | Run) -> Variant | Run:
        return given if isinstance(given, Run) else self.variant(given)

    def _base(self, legs: Reference | Sequence[Reference]) -> Variant:
        if isinstance(legs, Sequence) and not isinstance(legs, str):
            return hybrid_of(legs, self._view().default_chunk_set)
        return self.variant(legs)

    def _long(self, work: Callable[[Listener], Coroutine[Any, Any, T]]) -> T:
        """Watched on stderr. Interrupting it, by Ctrl-C or Jupyter's button, cancels what runs on the server."""
        with watched(quiet=not self.progress) as listener:
            return bridge.run(work(listener))


def _list(given: Entry | Sequence[Entry]) -> list[Entry]:
    one = isinstance(given, str) or not isinstance(given, Sequence)
    return [given] if one else list(given)  # type: ignore[list-item, arg-type]


def _several(given: str | Sequence[str]) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


M = TypeVar("M", bound=BaseModel)
PATIENCE = 10.0  # seconds that a store may take to close


# -- the store and the collection --------------------------------------------------------------------------------------


def give_back(store: Store) -> None:
    """Close it. Waits for that, unless it is called in the loop's own thread, as a collected object's finaliser may."""
    closing = asyncio.run_coroutine_threadsafe(store.close(), bridge.loop())
    if not bridge.is_inside():
        with suppress(TookTooLong):
            closing.result(PATIENCE)


# -- labels ------------------------------------------------------------------------------------------------------------


async def labelled(
    store: Store, view: CollectionView, origin: str, queries: Path | None, query_set: str, **how: Any
) -> LoadReport:
    source = await asyncio.to_thread(label_files.labels_at, origin, queries=queries)
    return await load.label(store, view, source, query_set=query_set, **how)


def label_result(added: LoadReport, query_set: str) -> LabelResult:
    sentence = f"{query_set}: {added.queries:,} queries, {added.labels:,} labels."
    return LabelResult(sentence, added, tuple(added.flaws))


def print_change(change: LabelChange) -> None:
    """On stderr, where progress goes too."""
    sys.stderr.write(f"{change.sentence}\n")


async def joined(ground: EvalContext, split: QuerySplit, name: str, rankings: Any) -> LabRun:
    """A run from elsewhere, kept; and what to know of it."""
    subject = await ground.subject(split)
    found = await check_documents(ground, await asyncio.to_thread(foreign_run, subject, split, name, rankings))
    return LabRun(await run_store.save(ground.store, found.run), tuple(_told(found)))


def _told(found: ForeignRun) -> Iterable[str]:
    missing, unasked, flaws = found.missing, found.unasked, found.flaws
    if missing:
        yield f"It has nothing for {len(missing)} of the queries, {missing[0]!r} among them; they score 0."
    if unasked:
        yield f"It has {len(unasked)} queries that are not asked here, {unasked[0]!r} among them; they do not count."
    yield from (flaw.message for flaw in flaws if flaw.outcome == "noted")
    if wrong := [flaw for flaw in flaws if flaw.outcome != "noted"]:
        yield f"{len(wrong)} of its lines were cleaned or left out; the first, {wrong[0].place}: {wrong[0].message}"


async def swept(ground: EvalContext, asked: TuningRequest, split: str, reported: str, listener: Listener) -> LabSweep:
    """Weights looked for over one split, without the queries that another reports."""
    part = ground.split(split)
    notes: tuple[str, ...] = ()
    if split == reported:
        notes = (f"The weights were chosen by the queries of {split!r}: a score over these says nothing of others.",)
    elif reported in ground.labelled.splits:
        part, notes = exclude_reported(ground, part, ground.any_split(reported))
    tuned, legs = await workflow.tune_weights(ground, part, asked, listener)
    return LabSweep(asked.base, tuned, (*notes, *legs.notes))


async def judgements(
    store: Store, view: CollectionView, judge: str, grades: Mapping[tuple[str, str], int]
) -> list[Judgement]:
    """Grades as judgements on the texts as they are."""
    items = await read_items(store, view, {item for _, item in grades})
    gone = [item for _, item in grades if item not in items]
    if gone:
        raise InputError(f"The document {gone[0]!r:.80} is not in {view.name!r}, so it cannot be judged.")
    return [Judgement(query, item, judge, grade, items[item].version) for (query, item), grade in grades.items()]


def checked(spec: type[M], options: Mapping[str, Any]) -> M:
    """Options as their spec, refused in a sentence that names the nearest valid one."""
    for name in options:
        if name not in spec.model_fields:
            raise UnknownName("option", name, spec.model_fields)
    try:
        return spec(**options)
    except pydantic.ValidationError as error:
        raise SpecError.from_pydantic("This", error) from error
