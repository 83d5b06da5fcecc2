"""What many variants need together: the leg runs that they share, and what is searched query by query. Runs nothing.

A variant is computed from leg runs, for all queries at once, where its ranking is nothing but its legs' fused, rolled
up and cut. It is searched query by query where a stage changes the query or looks at texts (an expansion, a route, a
reranker, late chunks, parents that replace, a packed context), and where it has a cap per item, which the weight
surface does not know.

What is measured is what ships: nothing that decides a variant's first `top_k` is changed, and the last cut alone is
lifted, so that a run keeps the candidates behind them too. A deep run is another thing: the variant is run as deep as a
metric looks (`deepened`), with every leg at its own depth or deeper, so that its first ten may differ from the ten
that ship. Excluded items (a query's own source, say) are treated as though the collection did not have them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from core.context import RequestContext
from core.filters import Filter
from core.legs import Leg
from core.store.names import ITEMS
from core.variant import LEGS, Variant
from evals.measures import METRICS, Metric
from evals.runs.types import Run, RunSubject
from evals.statistics.verdicts import Rules
from evals.types import QuerySplit

DEEPEST = 10_000  # results of a variant and a leg at most
CHUNKS_AN_ITEM = 3  # an item's chunks in a ranking on average: the k-th item is among so many times k chunks
CONNECTIONS = 4  # queries at once: each takes a process of the server, and these are ordinary machines
# Without these stages a ranking is its legs' alone, fused as `evals.runs.batch_fusion` and the weight surface do it.
PER_QUERY = ("expand", "route", "per_item_cap", "rerank", "late", "pack")
NOT_OF_THE_LEG = {"weight", "label", "depth"}  # options of a leg that do not change what it finds at a depth
DEFAULT_RULES = Rules()


@dataclass(frozen=True, slots=True)
class EvalOptions:
    """How variants are run and scored: as they ship, or as deep as the deepest metric looks.

    The table shows `metrics`; `also` are scored too. `again` makes anew what is kept. `time_live` is how many
    queries of each variant are timed, one at a time. `cells` are the ids of variants of a suite's grid. `rename` is
    whether kept runs are listed under these variants' names from now on: not where a suite or a sweep named them.
    `least_depth` is how deep a deep run goes at least, and `connections` how many queries are under way at once.
    """

    metrics: tuple[str, ...] = METRICS
    baseline: str | None = None
    as_shipped: bool = True
    again: bool = False
    time_live: int = 0
    rules: Rules = DEFAULT_RULES
    also: tuple[str, ...] = ()
    cells: frozenset[str] = frozenset()
    rename: bool = True
    least_depth: int = 100
    connections: int = CONNECTIONS

    @property
    def depth(self) -> int:
        """How deep a run goes: 0 as the variant ships, else to the deepest cut-off.

        Never less than is usual: a metric's value must not depend on the other metrics, and a kept run serves
        whatever metrics are wanted next.
        """
        return 0 if self.as_shipped else max([self.least_depth, *self._cutoffs])

    @property
    def deep(self) -> EvalOptions:
        """The same for deep runs, which are not what ships: they are neither timed nor named."""
        return replace(self, as_shipped=False, time_live=0, rename=False)

    def needs_deep_run(self, variant: Variant) -> bool:
        """Whether a metric counts more than the variant ships."""
        return self.as_shipped and any(cutoff > variant.top_k for cutoff in self._cutoffs)

    @property
    def _cutoffs(self) -> list[int]:
        return [Metric.parse(each).cutoff or 0 for each in (*self.metrics, *self.also)]


@dataclass(frozen=True, slots=True)
class PlannedRun:
    """A variant as it ships and as it is searched with, and the id of its run."""

    variant: Variant
    deepened: Variant
    id: str


@dataclass(frozen=True, slots=True)
class PlanInputs:
    """What all leg runs of a plan depend on, besides their own options.

    `state` identifies the collection's content and the code: results kept under another one are not used. `queries` is
    the digest of the split's queries, `models` the model by which a chunk set is searched where a variant names none,
    and `marks` what a model's vectors depend on (`evals.runs.provenance.vector_mark`).
    """

    collection: str
    state: str = ""
    queries: str = ""
    models: Mapping[str, str | None] = field(default_factory=dict)
    marks: Mapping[str | None, str] = field(default_factory=dict)

    def model_of(self, variant: Variant, leg: Leg) -> str | None:
        return (variant.model or self.models.get(variant.chunks)) if leg.uses_model else None


@dataclass(frozen=True, slots=True)
class LegTask:
    """One leg over all queries of a split, once. Tasks of equal digests find the same."""

    digest: str
    leg: Leg
    depth: int
    chunks: str
    model: str | None
    filter: Filter | None

    @property
    def title(self) -> str:
        options = self.leg.model_dump(mode="json", exclude_defaults=True, exclude=NOT_OF_THE_LEG)
        listed = ", ".join(f"{name} {value}" for name, value in options.items())
        filtered = ", filtered" if self.filter else ""
        return f"{kind_of(self.leg)}{f' ({listed})' if listed else ''} over {self.chunks}{filtered}, {self.depth} deep"

    def at_depth(self, depth: int) -> LegTask:
        """The task that finds so many: this one where it goes deep enough, else another."""
        return self if self.depth == depth or (self.leg.deepens and self.depth >= depth) else replace(self, depth=depth)


@dataclass(frozen=True, slots=True)
class LegUse:
    """A variant's leg: under its name, at its weight, as deep as the variant asks, by a task that may be deeper."""

    name: str
    leg: Leg
    depth: int
    task: LegTask


@dataclass(frozen=True, slots=True)
class FusedVariant:
    """A variant that is computed from leg runs."""

    run: PlannedRun
    uses: tuple[LegUse, ...]

    @property
    def variant(self) -> Variant:
        """As it is searched with."""
        return self.run.deepened


@dataclass(frozen=True, slots=True)
class RunPlan:
    """All that is known before the first query: what there is to do, and which runs are kept, by their ids."""

    context: RequestContext
    split: QuerySplit
    subject: RunSubject
    inputs: PlanInputs
    options: EvalOptions
    runs: tuple[PlannedRun, ...]
    kept: Mapping[str, Run] = field(default_factory=dict)
    legs: tuple[LegTask, ...] = ()
    fused: tuple[FusedVariant, ...] = ()
    searched: tuple[PlannedRun, ...] = ()

    @property
    def distinct(self) -> dict[str, PlannedRun]:
        """Each run once: of variants that are alike, say a grid's point and its base, under the first name."""
        once: dict[str, PlannedRun] = {}
        for each in self.runs:
            once.setdefault(each.id, each)
        return once

    def with_kept(self, kept: Mapping[str, Run]) -> RunPlan:
        """The plan where these runs are kept, and all others are to be made."""
        left = [each for each in self.distinct.values() if each.id not in kept]
        fused = share_legs([each for each in left if is_fused(each.deepened)], self.inputs)
        tasks = {(use.task.digest, use.task.depth): use.task for each in fused for use in each.uses}
        searched = tuple(each for each in left if not is_fused(each.deepened))
        return replace(self, kept=kept, legs=tuple(tasks.values()), fused=fused, searched=searched)

    def describe(self) -> str:
        """The plan in a line: "36 variants -> 5 leg runs, 2 searched query by query"."""
        alike = len(self.runs) - len(self.distinct)
        parts = [_counted(len(self.legs), "leg run")] if self.fused else []
        parts += [f"{len(self.searched)} searched query by query"] if self.searched else []
        parts += [f"{len(self.kept)} kept from before"] if self.kept else []
        variants = _counted(len(self.runs), "variant") + (f" ({alike} alike)" if alike else "")
        return f"{variants} -> {', '.join(parts) or 'nothing to do'}"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def kind_of(leg: Leg) -> str:
    return str(LEGS.write(leg)[LEGS.tag])


def deepened(variant: Variant, k: int) -> Variant:
    """The variant as a deep run has it, to the k-th result.

    Its legs keep the depth that they had, or go as deep as is needed: several chunks may be of one item, so a ranking
    of chunks goes deeper than one of items.
    """
    of_chunks = variant.chunks != ITEMS and variant.rollup is None
    wanted = min(max(variant.top_k, k * CHUNKS_AN_ITEM if of_chunks else k), DEEPEST)
    legs = tuple(
        leg.model_copy(update={"depth": min(max(variant.depth_of(leg), wanted), DEEPEST)}) for leg in variant.legs
    )
    return variant.but(top_k=wanted, legs=legs)


def is_fused(variant: Variant) -> bool:
    """Whether the ranking can be computed from what the legs found. Annotated parents change no ranking."""
    return variant.parents != "replace" and all(getattr(variant, stage) is None for stage in PER_QUERY)


def share_legs(runs: Sequence[PlannedRun], inputs: PlanInputs) -> tuple[FusedVariant, ...]:
    """Each variant with the leg runs that it is computed from: legs that find the same share one, the deepest."""
    digests = [[leg_digest(run.deepened, leg, inputs) for leg in run.deepened.legs] for run in runs]
    deepest: dict[str, int] = {}
    for run, of_legs in zip(runs, digests, strict=True):
        for leg, digest in zip(run.deepened.legs, of_legs, strict=True):
            deepest[digest] = max(run.deepened.depth_of(leg), deepest.get(digest, 0))
    fused = []
    for run, of_legs in zip(runs, digests, strict=True):
        uses, variant = [], run.deepened
        for name, leg, digest in zip(variant.leg_names, variant.legs, of_legs, strict=True):
            depth = variant.depth_of(leg)
            plain = leg.model_copy(update={"label": None, "weight": 1.0, "depth": None})
            shared = deepest[digest] if leg.deepens else depth
            task = LegTask(digest, plain, shared, variant.chunks, inputs.model_of(variant, leg), variant.filter)
            uses.append(LegUse(name, leg, depth, task))
        fused.append(FusedVariant(run, tuple(uses)))
    return tuple(fused)


def options_of(leg: Leg) -> dict[str, Any]:
    """Its kind and options, without what its variant makes of it."""
    return {key: value for key, value in LEGS.write(leg).items() if key not in NOT_OF_THE_LEG}


def leg_digest(variant: Variant, leg: Leg, inputs: PlanInputs) -> str:
    """Of all that decides what a leg finds, its depth excepted."""
    condition = variant.filter.model_dump(mode="json", by_alias=True) if variant.filter else None
    model = inputs.model_of(variant, leg)
    mark = inputs.marks.get(model, "") if leg.uses_model else ""
    of = (inputs.collection, inputs.state, inputs.queries, variant.chunks, model, mark, condition, options_of(leg))
    return _digest(of)


def queries_digest(split: QuerySplit) -> str:
    """Of what legs see of the queries: ids, texts and what each may not find, not labels."""
    excluded = {query: sorted(split.excluded[query]) for query in split.queries if split.excluded.get(query)}
    queries = [(query.id, query.text) for query in split.queries.values()]
    return _digest([queries, excluded] if excluded else queries)


def _digest(content: object) -> str:
    written = json.dumps(content, sort_keys=True, ensure_ascii=False)
    return hashlib.blake2b(written.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
