"""The fusion cell: every mix of some legs' weights, and what the best is worth, as `rankbook sweep` does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from core.errors import SpecError
from core.fusion import Fusion
from core.fusion.base import FUSIONS, spec_of
from core.fusion.rank_based import RrfFusion
from core.fusion.score_based import LinearFusion
from core.variant import Variant
from evals.display import Table
from evals.evaluation.board import board_table
from evals.evaluation.context import EvalContext, EvalOptions
from evals.evaluation.cost_notice import searched
from evals.evaluation.evaluate import evaluate
from evals.lab import lab as lab_steps
from evals.lab.results import LabSweep
from evals.measures import DEFAULT_METRIC
from evals.presentation.types import Block, Code, Output, Text
from evals.presentation.weight_charts import weight_chart
from evals.presentation.weight_surface import weight_surface
from evals.tuning import workflow
from evals.tuning.tuner import TuningProcedure
from evals.tuning.workflow import exclude_reported
from evals.types import QuerySplit
from evals.variants import hybrid_of
from workbench.notebooks.cells.base import (
    CellContext,
    CellSpec,
    PythonExport,
    Reference,
    call,
    kinds,
    known_metric,
    literal,
)


@kinds.register("fusion")
class FusionCell(CellSpec):
    """Weights of two to four legs: the whole surface, the best in-sample, and what to expect of new queries."""

    example = 'legs = ["bm25", "vector"]\nlooked_on = "train"\n'

    legs: tuple[Reference, ...] = Field(
        ("bm25", "vector"), min_length=1, max_length=4, description="Two to four legs, or one variant that has them."
    )
    looked_on: str = Field("train", min_length=1, description="The labelled queries by which weights are looked for.")
    metric: str = Field(DEFAULT_METRIC, description="What is to be best.")
    steps: int = Field(20, ge=2, le=100, description="Into how many parts the weights' sum is cut.")
    depth: int | None = Field(
        None, ge=1, le=10_000, description="How many candidates each leg fetches; by default as the variant has it."
    )
    fusions: tuple[Annotated[Fusion, FUSIONS], ...] = Field(
        (RrfFusion(), LinearFusion()), min_length=1, description="Among which fusions the choice is made."
    )
    per_kind: bool = Field(False, description="Whether each kind of query gets weights of its own.")
    confirm: bool = Field(
        False, description="Whether the weights are then scored on the notebook's split, beside legs and equal weights."
    )
    even_so: bool = Field(False, description="Whether the weights are taken although labels are too few to trust them.")
    procedure: TuningProcedure = Field(TuningProcedure(), description="Folds, repeats, and how few labels are too few.")

    _metric = field_validator("metric")(known_metric)

    @model_validator(mode="after")
    def _looks_elsewhere(self) -> Self:
        if self.confirm and self.split == self.looked_on:
            raise SpecError(
                f"The weights would be scored on {self.split!r}, by which they were chosen. Confirm on another split."
            )
        return self

    @property
    def references(self) -> tuple[Reference, ...]:
        return self.legs if len(self.legs) == 1 else ()

    async def run(self, context: CellContext) -> Output:
        found = await self.look(context)
        blocks = _shown(found)
        made, problem = _taken(found, even_so=self.even_so)
        if made is not None:
            blocks.append(Code(title=f"{made.name}, as a variant to keep", language="toml", text=made.to_toml()))
        else:
            blocks.append(Text(text=f"No variant was made of it. {problem}", tone="note"))
        if self.confirm and made is not None:
            blocks += await self._confirmed(context, found, made)
        return Output(blocks=tuple(blocks), values=_plain(found))

    async def look(self, context: CellContext) -> LabSweep:
        """The surfaces and the tuning themselves, for whoever lets weights be dragged."""
        ground = await context.ground(self)
        reported = context.split_name(self, ground)
        if self.confirm:
            if reported == self.looked_on:
                raise SpecError(f"{reported!r} is where weights are looked for. Confirm on a split of other queries.")
            context.split(self, ground)  # refused before anything is asked, not after it
        seeded = self.seeded(context)
        asked = workflow.looked(
            self.base(context, ground), self.metric, self.steps, self.fusions, seeded, per_kind=self.per_kind
        )
        return await lab_steps.swept(ground, asked, self.looked_on, reported, context.listener)

    def seeded(self, context: CellContext) -> TuningProcedure:
        """The procedure with the notebook's seed, where it has none of its own."""
        update = {} if "seed" in self.procedure.model_fields_set else {"seed": context.seed(self)}
        return self.procedure.model_copy(update=update)

    def looked_split(self, context: CellContext, ground: EvalContext) -> QuerySplit:
        """The queries by which weights are looked for: none that is reported, where the two are told apart."""
        reported, part = context.split_name(self, ground), ground.split(self.looked_on)
        if reported == self.looked_on or reported not in ground.labelled.splits:
            return part
        return exclude_reported(ground, part, ground.any_split(reported))[0]

    async def searches(self, context: CellContext) -> list[Variant]:
        return [self.base(context, await context.ground(self))]

    def queries(self, context: CellContext, ground: EvalContext) -> list[str]:
        looked = searched(self.looked_split(context, ground))
        return [*looked, *super().queries(context, ground)] if self.confirm else looked

    def base(self, context: CellContext, ground: EvalContext) -> Variant:
        """The variant whose legs get weights."""
        one = len(self.legs) == 1
        made = context.variant(self.legs[0], ground) if one else hybrid_of(self.legs, ground.view.default_chunk_set)
        return made if self.depth is None else made.at_depth(self.depth)

    async def _confirmed(self, context: CellContext, found: LabSweep, made: Variant) -> list[Block]:
        """The weights on queries that had no say in them, beside the best of equal weights that is on offer."""
        ground, base = await context.ground(self), found.base
        alike = found.tuned.equal_weights(base, "all alike")
        alone = [
            Variant(name=name, legs=(leg,), chunks=base.chunks, model=base.model, filter=base.filter, top_k=base.top_k)
            for name, leg in zip(base.leg_names, base.legs, strict=True)
        ]
        wanted = EvalOptions((self.metric,), rules=context.rules(self), rename=False)
        split = context.split(self, ground)
        board, _ = await evaluate(ground, [alike, *alone, made], split, wanted, progress=context.listener)
        finding = board.finding(board.metrics[0], made.name)
        said = [Text(text=f"On {split.name}: {finding.sentence}", tone="plain")] if finding else []
        return [*said, board_table(board)]

    def python(self, told: PythonExport) -> str:
        legs = told.several(self.legs) if len(self.legs) > 1 else told.reference(self.legs[0])
        seed = {} if not told.seed(self) or "seed" in self.procedure.model_fields_set else {"seed": told.seed(self)}
        changed = {**self.procedure.model_dump(exclude_unset=True), **seed}
        procedure = f"Procedure({', '.join(f'{key}={value!r}' for key, value in changed.items())})" if changed else None
        lab = told.lab(self)
        sweep = call(
            f"{lab}.sweep",
            legs,
            split=repr(self.looked_on),
            reported=literal(told.split(self)),
            metric=repr(self.metric),
            fusions=_fusions(self.fusions),
            steps=repr(self.steps),
            per_kind="True" if self.per_kind else None,
            depth=literal(self.depth),
            procedure=procedure,
        )
        if not self.confirm:
            return f"swept = {sweep}\nswept"
        taken = call("swept.variant", even_so="True" if self.even_so else None)
        board = call(
            f"{lab}.evaluate",
            f"[swept.base, {taken}]",
            metrics=repr([self.metric]),
            split=literal(told.split(self)),
            rules=told.rules(self),
        )
        shown = board if self.even_so else f"display({board}) if not swept.tuned.too_few else None"
        return f"swept = {sweep}\ndisplay(swept)\n{shown}"


def _fusions(fusions: Sequence[Fusion]) -> str | None:
    """As an argument: only what is otherwise than usual."""
    if fusions == FusionCell.model_fields["fusions"].default:
        return None
    specs = [spec_of(each) for each in fusions]
    usual = [spec_of(type(each)()) for each in fusions]
    changed = [
        {key: value for key, value in spec.items() if key == "method" or value != common[key]}
        for spec, common in zip(specs, usual, strict=True)
    ]
    return repr([each["method"] if len(each) == 1 else each for each in changed])


def _shown(found: LabSweep) -> list[Block]:
    surface = weight_surface(found.base.name, found.tuned)
    sentences = [each for table in found.tables() for each in table.notes if each != surface.verdict]
    blocks: list[Block] = [
        Text(text=surface.verdict, tone="headline"),
        weight_chart(surface, f"{surface.metric} over the weights"),
        *(each.model_copy(update={"notes": tuple(sentences)}) for each in found.tables()),
    ]
    if len(surface.kinds) > 1:
        rows = [
            (each.kind or "(none)", each.queries, *(f"{each.weights[leg]:.2f}" for leg in surface.legs))
            for each in surface.kinds
        ]
        columns = ("kind", "queries", *surface.legs)
        blocks.append(Table.of("Weights by kind of query", columns, rows, columns[1:]))
    return blocks


def _taken(found: LabSweep, *, even_so: bool) -> tuple[Variant | None, str]:
    """The variant with the weights found, or why there is none."""
    try:
        return found.variant(even_so=even_so), ""
    except SpecError as error:
        return None, str(error)


def _plain(found: LabSweep) -> dict[str, Any]:
    """Every point of every surface, as plain values."""
    surface = weight_surface(found.base.name, found.tuned)
    return {**surface.document(), "legs": list(surface.legs), "base": found.base.to_data()}
