"""The steps behind a lab's methods: a collection brought in, runs joined, weights looked for, frames made.

Asynchronous where the server is asked; what a person sees of the results is `evals.lab.results`'s.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as TookTooLong
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic
from pydantic import BaseModel

from core import bridge
from core.errors import InputError, SpecError, UnknownName
from core.fusion import Fusion
from core.fusion.spec import FUSIONS
from core.resources import Resources
from core.store import collections
from core.store.collections import View
from core.store.engine import Store
from core.store.progress import Listener
from core.types import Flaw
from core.variant import Variant
from evals import exchange, labelling, library
from evals.board import Board
from evals.evaluation import Opened, Wanted, check_documents, made, made_deep, scored, with_baseline
from evals.exchange import Foreign
from evals.judging import judgements as judging
from evals.judging.judgements import Judgement
from evals.lab.results import LabelResult, LabRun, LabSweep
from evals.label_revisions import LabelChange, Revision
from evals.library import Added
from evals.rankings import Rankings
from evals.references import Reference, leg_of
from evals.running import run_store
from evals.running.run_store import Summary
from evals.runs import Run, Subject
from evals.sources import BundledSource, Source, bundled_names, guess
from evals.splits import Split
from evals.suites import suite_tuning
from evals.suites.suite_tuning import Looked, apart
from evals.weights.tuned import Procedure

if TYPE_CHECKING:
    import pandas as pd

M = TypeVar("M", bound=BaseModel)
PATIENCE = 10.0  # seconds that a store may take to close

# -- the store and the collection --------------------------------------------------------------------------------------


def give_back(store: Store) -> None:
    """Close it. Waits for that, unless it is called in the loop's own thread, as a collected object's finaliser may."""
    closing = asyncio.run_coroutine_threadsafe(store.close(), bridge.loop())
    if not bridge.is_inside():
        with suppress(TookTooLong):
            closing.result(PATIENCE)


async def brought_in(
    store: Store,
    name: str,
    source: Source | Path | str | None,
    given: Mapping[str, Any],
    resources: Resources | None,
    listener: Listener,
) -> tuple[str, ...]:
    """What the source has and the collection lacks; without a source, a bundled collection that is not there whole.

    Gives what there is to say about the source, as `rankbook data add` says it: on the source as a whole in full, of
    its rows how many and the first.
    """
    if source is None and not await _lacks_bundled(store, name):
        if given:
            options = ", ".join(given)
            raise SpecError(f"{name!r} is there, and {options} say how one is made. Name the source too, or drop it.")
        return ()
    found = source if isinstance(source, Source) else await asyncio.to_thread(guess, source or name)
    plan = library.plan_for(found, **given)
    embedders = {model: resources.embedder(model) for model in plan.models} if resources else {}
    added = await library.add(store, name, found, plan, embedders=embedders, listener=listener)
    return (*filter(None, (added.stay_reason,)), *_of_source(added.flaws))


def _of_source(flaws: Sequence[Flaw]) -> Iterable[str]:
    whole = [flaw for flaw in flaws if flaw.outcome == "noted" and not flaw.subject]
    yield from dict.fromkeys(flaw.message for flaw in whole)
    for outcome, said in (("quarantined", "left out"), ("cleaned", "repaired")):
        if rows := [flaw for flaw in flaws if flaw.outcome == outcome]:
            yield f"{len(rows):,} rows or files were {said}; the first, {rows[0].place}: {rows[0].message}"


async def _lacks_bundled(store: Store, name: str) -> bool:
    view = await collections.find(store, name)
    if view is None:
        return name in bundled_names()
    return view.interrupted and view.row.origin == BundledSource(name=name).spec()


# -- labels ------------------------------------------------------------------------------------------------------------


async def labelled(store: Store, view: View, origin: str, queries: Path | None, query_set: str, **how: Any) -> Added:
    source = await asyncio.to_thread(labelling.labels_at, origin, queries=queries)
    return await library.label(store, view, source, query_set=query_set, **how)


def label_result(added: Added, query_set: str) -> LabelResult:
    sentence = f"{query_set}: {added.queries:,} queries, {added.labels:,} labels."
    return LabelResult(sentence, added, tuple(added.flaws))


def print_change(change: LabelChange) -> None:
    """On stderr, where progress goes too."""
    sys.stderr.write(f"{change.sentence}\n")


# -- scoring -----------------------------------------------------------------------------------------------------------


async def evaluated(
    ground: Opened, entries: Sequence[Variant | Run], split: Split, wanted: Wanted, listener: Listener
) -> Board:
    """One row an entry, in the order given."""
    if not entries:
        raise InputError("There is nothing to evaluate: name a variant, such as 'bm25'.")
    variants = [each for each in entries if isinstance(each, Variant)]
    runs = iter(await made(ground, variants, split, wanted, listener) if variants else [])
    ordered = [each if isinstance(each, Run) else next(runs) for each in entries]
    await _refuse_outdated(ground, split, [each for each in entries if isinstance(each, Run)])
    ordered, baseline = await with_baseline(ground.store, ordered, wanted.baseline)
    deep = await made_deep(ground, ordered, split, wanted, listener)
    return await scored(ground, split, ordered, wanted, baseline, deep)


async def _refuse_outdated(ground: Opened, split: Split, runs: Sequence[Run]) -> None:
    """Runs that are handed over must be over what is scored: ids mean other texts, or labels other queries, else."""
    subject = await ground.subject(split) if runs else None
    for run in runs:
        if run.subject != subject:
            raise SpecError(
                f"{run.name!r} was made over {run.subject.split!r} of {run.subject.collection!r} as it was then, which "
                f"is not {split.name!r} of {ground.view.name!r} as it is now. Evaluate its variant, or add it anew."
            )


async def joined(ground: Opened, split: Split, name: str, rankings: Any) -> LabRun:
    """A run from elsewhere, kept; and what to know of it."""
    subject = await ground.subject(split)
    found = await check_documents(ground, await asyncio.to_thread(_foreign, subject, split, name, rankings))
    return LabRun(await run_store.save(ground.store, found.run), tuple(_told(found)))


def _foreign(subject: Subject, split: Split, name: str, rankings: Any) -> Foreign:
    if isinstance(rankings, str | Path):
        return exchange.read_run(Path(rankings).expanduser(), subject, split, name=name)
    tied: list[str] = []
    read = rankings_of(rankings, tied)
    if not read.keys() & split.queries.keys():
        raise InputError(f"None of the {len(read):,} queries of {name!r} is one of {split.name!r}. Check the ids.")
    run = Run(name, subject, read, environment={"read from": type(rankings).__name__})
    return exchange.foreign(run, split, tied=tied)


def rankings_of(given: Any, tied: list[str] | None = None) -> Rankings:
    """Scores by query and document, of a dictionary, a frame, or ranx's `Run`. Queries with ties go into `tied`."""
    if hasattr(given, "columns"):
        found: Rankings = exchange.from_frame(given, tied)
    else:
        scores = given if isinstance(given, Mapping) else given.to_dict() if hasattr(given, "to_dict") else None
        if scores is None or not all(isinstance(each, Mapping) for each in scores.values()):
            raise InputError(
                f"A run is a file, {{query: {{document: score}}}}, a frame, or a ranx Run, and this is {given!r:.80}."
            )
        found = exchange.from_dict(scores, tied)
    for query, ranked in found.items():
        if not all(map(math.isfinite, ranked.scores)):
            raise InputError(f"The query {query!r:.80} has a score that is no finite number.")
    return found


def _told(found: Foreign) -> Iterable[str]:
    missing, unasked, flaws = found.missing, found.unasked, found.flaws
    if missing:
        yield f"It has nothing for {len(missing)} of the queries, {missing[0]!r} among them; they score 0."
    if unasked:
        yield f"It has {len(unasked)} queries that are not asked here, {unasked[0]!r} among them; they do not count."
    yield from (flaw.message for flaw in flaws if flaw.outcome == "noted")
    if wrong := [flaw for flaw in flaws if flaw.outcome != "noted"]:
        yield f"{len(wrong)} of its lines were cleaned or left out; the first, {wrong[0].place}: {wrong[0].message}"


# -- weights -----------------------------------------------------------------------------------------------------------


def hybrid(references: Sequence[Reference], chunks: str) -> Variant:
    """Bare legs as one variant."""
    found = []
    for each in references:
        leg = leg_of(each)
        if leg is None:
            raise SpecError(f"{each!r:.80} is no leg. Weights are looked for among legs, or those of one variant.")
        found.append(leg)
    if len(found) < 2:
        raise SpecError("One leg has no weights to look for. Give two to four.")
    made = Variant(legs=tuple(found), chunks=chunks)
    return made.but(name=" + ".join(made.leg_names))


def looked(
    base: Variant,
    metric: str,
    steps: int,
    fusions: Sequence[Fusion | Mapping[str, Any] | str],
    procedure: Procedure,
    *,
    per_kind: bool,
) -> Looked:
    read = [FUSIONS.read({"method": each} if isinstance(each, str) else each) for each in fusions]
    return Looked(base, metric, steps, tuple(read), per_kind, procedure)


async def swept(ground: Opened, asked: Looked, split: str, reported: str, listener: Listener) -> LabSweep:
    """Weights looked for over one split, without the queries that another reports."""
    part = ground.split(split)
    notes: tuple[str, ...] = ()
    if split == reported:
        notes = (f"The weights were chosen by the queries of {split!r}: a score over these says nothing of others.",)
    elif reported in ground.labelled.splits:
        part, notes = apart(ground, part, ground.any_split(reported))
    tuned, legs = await suite_tuning.looked_for(ground, part, asked, listener)
    return LabSweep(asked.base, tuned, (*notes, *legs.notes))


# -- frames and judgements ---------------------------------------------------------------------------------------------


def runs_frame(runs: Sequence[Summary]) -> pd.DataFrame:
    import pandas as pd

    rows = [
        {
            "run": run.id[: run_store.SHOWN],
            "name": run.name,
            "split": run.subject.split,
            "queries": run.queries,
            "failed": run.failed,
            "made": run.made_at,
            "pins": ", ".join(run.pins),
            **{metric: mean for metric, mean in run.scores.items() if isinstance(mean, float)},
        }
        for run in runs
    ]
    return pd.DataFrame(rows, columns=None if rows else ["run", "name", "split", "queries", "failed", "made", "pins"])


def changes_frame(changes: Sequence[Revision]) -> pd.DataFrame:
    import pandas as pd

    columns = ["when", "who", "what", "why", "state"]
    rows = [(each.made_at, each.author, each.change.sentence, each.reason, each.state) for each in changes]
    return pd.DataFrame(rows, columns=columns)


def queries_frame(split: Split) -> pd.DataFrame:
    import pandas as pd

    rows = [
        (
            query.id,
            query.text,
            query.kind,
            query.weight,
            sum(grade > 0 for grade in split.grades.get(query.id, {}).values()),
        )
        for query in split.queries.values()
    ]
    return pd.DataFrame(rows, columns=["query", "text", "kind", "weight", "relevant"])


async def judgements(store: Store, view: View, judge: str, grades: Mapping[tuple[str, str], int]) -> list[Judgement]:
    """Grades as judgements on the texts as they are."""
    items = await judging.shown(store, view, {item for _, item in grades})
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
