"""A suite carried out: planned, tuned, run, scored and held against its gate, one collection after the other.

Owns the order of these. What is done is kept as it goes: a suite that was stopped, or is run again, goes on from there.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from shlex import quote

from core.context import RequestContext, Resources
from core.errors import InputError, UnknownName
from core.progress import Listener, Step, nobody
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.board import Board
from evals.evaluation.context import EvalContext, open_eval
from evals.evaluation.cost_notice import external_calls
from evals.evaluation.evaluate import evaluate, refuse_unknown_baseline
from evals.runs import run_store
from evals.runs.exchange import ForeignRun, run_name
from evals.runs.plan import EvalOptions, RunPlan
from evals.runs.runner import remake_incomplete
from evals.runs.types import Run
from evals.suites.gate import Check, checks, passed
from evals.suites.suite import Suite, SuiteTarget, Tune
from evals.tuning.tuner import TuningResult
from evals.tuning.workflow import TuningRequest, tune_weights
from evals.types import QuerySplit


@dataclass(frozen=True, slots=True)
class PlannedTarget:
    """What there is to do for one collection, in a line; and the same for each tuning. `sent` goes elsewhere."""

    ctx: EvalContext
    target: SuiteTarget
    plan: RunPlan
    line: str
    tunings: tuple[str, ...] = ()
    sent: tuple[str, ...] = ()

    def sentences(self) -> list[str]:
        name, split, queries = self.target.name, self.target.split, len(self.plan.split.queries)
        return [*self.tunings, f"{name}, {queries} queries of {split!r}: {self.line}", *self.sent]


@dataclass(frozen=True, slots=True)
class TunedVariant:
    """What came of one tuning. `variant` is None where labels are too few, or a loss is expected, and the suite does
    not want it even so.
    """

    name: str
    split: str
    tuned: TuningResult
    variant: Variant | None
    notes: tuple[str, ...] = ()


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


# -- planning ----------------------------------------------------------------------------------------------------------


async def plan_suite(store: Store, suite: Suite, *, again: bool = False) -> list[PlannedTarget]:
    """The whole plan, to be shown before anything is run. Refuses what cannot be done."""
    options, variants = _options(suite, again), suite.all_variants()
    # For a tuned variant one with its legs is planned, where no other of the suite has them.
    strange = [tune for tune in suite.tune if suite.base_of(tune) not in variants]
    for tune in strange:
        base = suite.base_of(tune)
        variants.append(base.weighted({name: 1 / (3 + at) for at, name in enumerate(base.leg_names)}, name=tune.name))
    shared = len(suite.tune) - len(strange)
    planned = []
    for ctx, target in await _open_targets(store, suite):
        plan = await remake_incomplete(await ctx.plan(variants, ctx.split(target.split), options))
        line = plan.describe() + (f", and {shared} to be tuned from these legs" if shared else "")
        tunings = []
        for tune in suite.tune:
            queries, legs = len(ctx.split(tune.split).queries), ", ".join(suite.base_of(tune).leg_names)
            tunings.append(
                f"{ctx.view.name}, {queries} queries of {tune.split!r}: {tune.name} is the weights of {legs} under "
                f"{len(tune.fusions)} fusions, in steps of 1/{tune.steps}, by {tune.metric}"
            )
        sent = tuple(await external_calls(ctx, plan))
        planned.append(PlannedTarget(ctx, target, plan, line, tuple(tunings), sent))
    return planned


def _options(suite: Suite, again: bool) -> EvalOptions:
    gate = suite.gate.metrics if suite.gate else ()
    how = (suite.as_shipped, again, suite.time_live, suite.judged_by)
    return EvalOptions(suite.metrics, suite.baseline, *how, gate, suite.cells(), rename=False)


async def _open_targets(store: Store, suite: Suite) -> list[tuple[EvalContext, SuiteTarget]]:
    """Every collection of the suite, checked before anything is run over the first."""
    suite.all_variants()
    opened = [(await open_eval(store, target.name, target.query_set), target) for target in suite.targets]
    pins = await run_store.pinned(store)
    for ctx, target in opened:
        for split in (target.split, *(tune.split for tune in suite.tune)):
            ctx.split(split)
        files = [run_name(file) for file in suite.files_of(target)]
        rows = [*(each.name for each in suite.all_variants()), *(tune.name for tune in suite.tune), *files]
        await refuse_unknown_baseline(ctx, ctx.split(target.split), suite.baseline, rows)
        if suite.gate is not None:
            _refuse_strange_gate(suite, target, [*rows, suite.baseline] if suite.baseline else rows, pins)
    return opened


def _refuse_strange_gate(suite: Suite, target: SuiteTarget, known: Sequence[str], pins: Mapping[str, str]) -> None:
    """A gate over a name that no row will have, or against what is neither pinned nor in the table, is a slip.

    It is refused before hours of work.
    """
    gate = suite.gate
    for name in gate.variants if gate else ():
        if name not in known:
            raise UnknownName("variant of this suite for its gate to guard", name, known)
    against = gate.against if gate else None
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


# -- running -----------------------------------------------------------------------------------------------------------


async def run_suite(
    store: Store,
    suite: Suite,
    *,
    resources: Resources | None = None,
    progress: Listener = nobody,
    cancellation: asyncio.Event | None = None,
    again: bool = False,
    planned: Sequence[PlannedTarget] | None = None,
) -> SuiteResult:
    """Everything that the file says. Stop it by the token: what was done is kept. `planned` is `plan_suite`'s."""
    targets = [(each.ctx, each.target) for each in planned] if planned else await _open_targets(store, suite)
    plans = [each.plan for each in planned or () if not suite.tune]
    results = []
    for at, (opened, target) in enumerate(targets):
        request = RequestContext(store, opened.view, resources or Resources(), cancellation)
        ctx = replace(opened, context=request)
        listener = _within(progress, target.name) if len(targets) > 1 else progress
        plan = plans[at] if plans else None
        results.append(await _run_target(suite, target, ctx, _options(suite, again), plan, listener))
    return SuiteResult(suite, tuple(results))


async def _run_target(
    suite: Suite, target: SuiteTarget, ctx: EvalContext, options: EvalOptions, plan: RunPlan | None, progress: Listener
) -> TargetResult:
    """One collection of a suite."""
    split = ctx.split(target.split)
    tuned = [await _tune(suite, tune, ctx, split, progress) for tune in suite.tune]
    notes = tuple(note for each in tuned for note in each.notes)
    variants = [*suite.all_variants(), *(each.variant for each in tuned if each.variant is not None)]
    files = suite.files_of(target)
    if not variants and not files:
        raise InputError(f"{suite.name!r} has nothing to show for {target.name!r}. {' '.join(notes)}")
    left_out = {each.name for each in tuned if each.variant is None}
    if options.baseline in left_out:  # it leaves the place to the first variant
        options = replace(options, baseline=None)
    pinned, against, pins = None, suite.gate.against if suite.gate else None, await run_store.pinned(ctx.store)
    pin = next((each for each in _pins_of(against, target) if each in pins), None) if against else None
    if pin is not None and (run := await run_store.get(ctx.store, pins[pin])) is not None:
        pinned = replace(run, name=f"{against} (pinned)")
    kept = [pinned] if pinned is not None and pinned.subject == await ctx.subject(split) else []
    result = await evaluate(ctx, variants, split, options, plan=plan, files=files, kept=kept, progress=progress)
    found = _checks(suite, result.board, pinned, left_out)
    line = result.plan.describe() if result.plan else ""
    return TargetResult(target, result.board, line, tuple(tuned), result.foreign, tuple(found), notes)


async def _tune(suite: Suite, tune: Tune, ctx: EvalContext, reported: QuerySplit, progress: Listener) -> TunedVariant:
    """The base with the weights that the tuning split's own queries ask for."""
    base, procedure = suite.base_of(tune), suite.procedure_of(tune)
    request = TuningRequest(
        base, ctx.split(tune.split), tune.metric, tune.steps, tune.fusions, tune.per_kind, procedure, reported, False
    )
    tuned = await tune_weights(ctx, request, _within(progress, f"tuning {tune.name}"))
    why = tuned.result.refusal(per_kind=tune.per_kind)
    if why and not tune.even_so:
        left = f"{tune.name} was left out of the table. To have its weights even so, set even_so = true."
        return TunedVariant(tune.name, tune.split, tuned.result, None, (*tuned.notes, why, left))
    made = tuned.result.variant(base, per_kind=tune.per_kind, even_so=tune.even_so).but(name=tune.name)
    return TunedVariant(tune.name, tune.split, tuned.result, made, tuned.notes)


def _within(progress: Listener, name: str) -> Listener:
    """Steps under the name of their collection or tuning."""

    def listen(step: Step) -> None:
        progress(replace(step, name=f"{name}: {step.name}"))

    return listen


def _checks(suite: Suite, board: Board, pinned: Run | None, left_out: set[str]) -> list[Check]:
    gate = suite.gate
    if gate is None:
        return []
    message = "Labels were too few to tune it, so there is nothing to guard. Label more, or set even_so = true."
    collection = board.runs[0].subject.collection
    errors = [
        Check(collection, name, "tuned", "-", "weights", "error", message) for name in gate.variants if name in left_out
    ]
    guarded = tuple(name for name in gate.variants if name not in left_out)
    if errors and not guarded:
        return errors
    return checks(gate.model_copy(update={"variants": guarded}), board, pinned) + errors
