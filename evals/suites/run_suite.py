"""A suite carried out: planned, tuned, run, scored and held against its gate, one collection after the other.

Owns the order of these. What is done is kept as it goes: a suite that was stopped, or is run again, goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from core.context import Resources
from core.errors import InputError, UnknownName
from core.progress import Listener, Step, nobody
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.context import EvalContext, EvalOptions, open_eval
from evals.evaluation.cost_notice import before
from evals.evaluation.evaluate import (
    foreign_runs,
    joined,
    refuse_unknown_baseline,
    run_deep,
    run_variants,
    score_runs,
    with_baseline,
)
from evals.runs import run_store
from evals.runs.exchange import ForeignRun, run_name
from evals.runs.plan import describe
from evals.runs.runner import plan_runs
from evals.runs.types import Run
from evals.suites.gate import Check, checks, passed
from evals.suites.suite import Suite, SuiteTarget, Tune
from evals.tuning.workflow import TunedVariant, TuningRequest, tuned_variant
from evals.types import QuerySplit


@dataclass(frozen=True, slots=True)
class Planned:
    """What there is to do for one collection, in a line; and the same for each tuning."""

    collection: str
    split: str
    queries: int
    line: str
    tunings: tuple[str, ...] = ()
    sent: tuple[str, ...] = ()  # to other machines and language models

    def sentences(self) -> list[str]:
        line = f"{self.collection}, {self.queries} queries of {self.split!r}: {self.line}"
        return [*self.tunings, line, *self.sent]


@dataclass(frozen=True, slots=True)
class TargetResult:
    """What came of one collection. `checks` are the gate's; `plan` says in a line what it took."""

    target: SuiteTarget
    board: Board
    plan: str = ""
    tuned: tuple[TunedVariant, ...] = ()
    foreign: tuple[ForeignRun, ...] = ()
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SuiteResult:
    suite: Suite
    results: tuple[TargetResult, ...]

    @property
    def checks(self) -> list[Check]:
        return [check for result in self.results for check in result.checks]

    @property
    def passed(self) -> bool:
        """Whether the gate lets it through; without a gate, always."""
        return passed(self.checks)


async def planned(store: Store, suite: Suite, *, again: bool = False) -> list[Planned]:
    """The whole plan, to be shown before anything is asked. Refuses what cannot be done."""
    return [await _plan(suite, ground, target, again) for ground, target in await _opened(store, suite)]


async def run_suite(
    store: Store,
    suite: Suite,
    *,
    resources: Resources | None = None,
    progress: Listener = nobody,
    cancellation: asyncio.Event | None = None,
    again: bool = False,
) -> SuiteResult:
    """Everything that the file says. Stop it by the token: what was done is kept."""
    grounds = await _opened(store, suite, resources, cancellation)
    several = len(grounds) > 1
    results = [
        await _Carried(suite, target, ground, again, _within(progress, target.name) if several else progress).out()
        for ground, target in grounds
    ]
    return SuiteResult(suite, tuple(results))


async def _opened(
    store: Store, suite: Suite, resources: Resources | None = None, cancellation: asyncio.Event | None = None
) -> list[tuple[EvalContext, SuiteTarget]]:
    """Every collection of the suite, before anything is asked of the first."""
    suite.all_variants()
    grounds = [
        await open_eval(store, target.name, target.query_set, resources=resources, cancellation=cancellation)
        for target in suite.targets
    ]
    pins = await run_store.pinned(store)
    for ground, target in zip(grounds, suite.targets, strict=True):
        for split in (target.split, *(tune.split for tune in suite.tune)):
            ground.split(split)
        here = _names(suite, target)
        await refuse_unknown_baseline(ground, ground.split(target.split), suite.baseline, here)
        _refuse_unguarded(suite, here)
        _refuse_unpinned(suite, target, here, pins)
    return list(zip(grounds, suite.targets, strict=True))


def _names(suite: Suite, target: SuiteTarget) -> list[str]:
    """What the table's rows will be called."""
    files = [run_name(file) for file in suite.files_of(target)]
    return [*(each.name for each in suite.all_variants()), *(tune.name for tune in suite.tune), *files]


def _refuse_unguarded(suite: Suite, here: Sequence[str]) -> None:
    """A gate that guards a name which no row will have is a slip, told before hours of work."""
    known = [*here, suite.baseline] if suite.baseline else here
    for name in suite.gate.variants if suite.gate else ():
        if name not in known:
            raise UnknownName("variant of this suite for its gate to guard", name, known)


def _refuse_unpinned(suite: Suite, target: SuiteTarget, here: Sequence[str], pins: Mapping[str, str]) -> None:
    """So is one that compares with what is neither pinned nor in the table."""
    against = suite.gate.against if suite.gate else None
    known = [*here, suite.baseline] if suite.baseline else [*here]
    if against is None or against in known or not pins.keys().isdisjoint(_pins_of(against, target)):
        return
    raise UnknownName(
        "pinned run, nor variant of this suite, for its gate to compare with",
        against,
        [*known, *pins],
        way_out=f"Pin one: rankbook eval {quote(target.name)} VARIANT, then rankbook runs pin RUN {quote(against)}",
    )


def _pins_of(against: str, target: SuiteTarget) -> tuple[str, str]:
    """The collection's own pin comes before the common one."""
    return f"{against}@{target.name}", against


async def _plan(suite: Suite, ground: EvalContext, target: SuiteTarget, again: bool) -> Planned:
    wanted, split = _wanted(suite, again), ground.split(target.split)
    there = suite.all_variants()
    strange = [tune for tune in suite.tune if suite.base_of(tune) not in there]
    variants = [*there, *(_stand_in(suite, tune) for tune in strange)]
    ready = await plan_runs(ground.context, variants, split, query_set=ground.query_set, options=wanted.options)
    tunings = tuple(_tuning_line(suite, ground, tune) for tune in suite.tune)
    shared = len(suite.tune) - len(strange)
    line = describe(ready.plan) + (f", and {shared} to be tuned from these legs" if shared else "")
    sent = tuple(await before(ground, variants, split, wanted))
    return Planned(target.name, target.split, len(split.queries), line, tunings, sent)


def _tuning_line(suite: Suite, ground: EvalContext, tune: Tune) -> str:
    base, queries = suite.base_of(tune), len(ground.split(tune.split).queries)
    return (
        f"{ground.view.name}, {queries} queries of {tune.split!r}: {tune.name} is the weights of "
        f"{', '.join(base.leg_names)} under {len(tune.fusions)} fusions, in steps of 1/{tune.steps}, by {tune.metric}"
    )


def _stand_in(suite: Suite, tune: Tune) -> Variant:
    """For the plan: a variant with the legs that the tuned one will have, where no other of the suite has them."""
    base = suite.base_of(tune)
    return base.weighted({name: 1 / (3 + at) for at, name in enumerate(base.leg_names)}, name=tune.name)


def _wanted(suite: Suite, again: bool) -> EvalOptions:
    gate = suite.gate.metrics if suite.gate else ()
    how = (suite.as_shipped, again, suite.time_live, suite.judged_by)
    return EvalOptions(suite.metrics, suite.baseline, *how, gate, suite.cells(), rename=False)


def _within(progress: Listener, collection: str) -> Listener:
    """Steps of several collections, told apart."""

    def listen(step: Step) -> None:
        progress(replace(step, name=f"{collection}: {step.name}"))

    return listen


class _Carried:
    """One collection of a suite; its methods are the steps, in their order."""

    def __init__(self, suite: Suite, target: SuiteTarget, ground: EvalContext, again: bool, progress: Listener) -> None:
        self.suite, self.target, self.ground, self.progress = suite, target, ground, progress
        self.wanted = _wanted(suite, again)
        self.plan = ""

    async def out(self) -> TargetResult:
        split = self.ground.split(self.target.split)
        tuned = [await self._tune(tune, split) for tune in self.suite.tune]
        variants = [*self.suite.all_variants(), *(each.variant for each in tuned if each.variant is not None)]
        foreign = await foreign_runs(self.ground, split, self.suite.files_of(self.target))
        runs = await run_variants(self.ground, variants, split, self.wanted, self._watch) if variants else []
        runs += [each.run for each in foreign]
        notes = tuple(note for each in tuned for note in each.notes)
        if not runs:
            raise InputError(f"{self.suite.name!r} has nothing to show for {self.target.name!r}. {' '.join(notes)}")
        runs, baseline = await self._with_baseline(runs)
        pinned = await self._pinned()
        comparable = pinned is not None and pinned.subject == runs[0].subject
        if pinned is not None and comparable:
            runs, _ = joined(runs, pinned, pinned.name)
        deep = await run_deep(self.ground, runs, split, self.wanted, self._watch)
        board = await score_runs(self.ground, split, runs, self.wanted, baseline, deep)
        found = tuple(self._checks(board, pinned))
        return TargetResult(self.target, board, self.plan, tuple(tuned), tuple(foreign), found, notes)

    def _watch(self, step: Step) -> None:
        """Passes steps on; the first is of the plan, and named by it."""
        self.plan = self.plan or step.name
        self.progress(step)

    async def _tune(self, tune: Tune, reported: QuerySplit) -> TunedVariant:
        base = self.suite.base_of(tune)
        asked = TuningRequest(base, tune.metric, tune.steps, tune.fusions, tune.per_kind, self.suite.procedure_of(tune))
        split = self.ground.split(tune.split)
        listener = _within(self.progress, f"tuning {tune.name}")
        return await tuned_variant(
            self.ground, tune.name, split, reported, asked, even_so=tune.even_so, progress=listener
        )

    async def _with_baseline(self, runs: list[Run]) -> tuple[list[Run], str | None]:
        """A baseline that would have been tuned, and was not, leaves the place to the first variant."""
        left_out = {tune.name for tune in self.suite.tune} - {run.name for run in runs}
        return await with_baseline(
            self.ground.store, runs, None if self.suite.baseline in left_out else self.suite.baseline
        )

    async def _pinned(self) -> Run | None:
        """The run that the gate compares with, under the pin's name: NAME@COLLECTION before NAME."""
        gate = self.suite.gate
        if gate is None or gate.against is None:
            return None
        pins = await run_store.pinned(self.ground.store)
        for pin in _pins_of(gate.against, self.target):
            if pin in pins:
                run = await run_store.get(self.ground.store, pins[pin])
                return replace(run, name=f"{gate.against} (pinned)") if run else None
        return None

    def _checks(self, board: Board, pinned: Run | None) -> list[Check]:
        gate = self.suite.gate
        if gate is None:
            return []
        left_out = [name for name in gate.variants if name not in board.names and self._is_tuned(name)]
        errors = [_absent(board, name) for name in left_out]
        guarded = tuple(name for name in gate.variants if name not in left_out)
        if left_out and not guarded:
            return errors
        return checks(gate.model_copy(update={"variants": guarded}), board, pinned) + errors

    def _is_tuned(self, name: str) -> bool:
        return name in {tune.name for tune in self.suite.tune}


def _absent(board: Board, name: str) -> Check:
    says = "Labels were too few to tune it, so there is nothing to guard. Label more, or set even_so = true."
    return Check(board.runs[0].subject.collection, name, "tuned", "-", "weights", "error", says)
