"""The fusion cell: every mix of some legs' weights, and what the best is worth, as `rankbook sweep` does it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from core.errors import SpecError
from core.fusion import Fusion
from core.fusion.base import FUSIONS, spec_of
from core.fusion.rank_based import RrfFusion
from core.fusion.score_based import LinearFusion
from core.variant import Variant
from evals.display import Table
from evals.evaluation.board import board_table
from evals.evaluation.context import EvalContext
from evals.evaluation.cost_notice import searched
from evals.lab.results import LabSweep
from evals.measures import DEFAULT_METRIC
from evals.presentation.types import Block, Code, Output, Text
from evals.presentation.weight_charts import weight_chart
from evals.presentation.weight_surface import WeightSurface, weight_surface
from evals.tuning.tuner import TuningProcedure
from evals.tuning.workflow import (
    TunedWeights,
    TuningRequest,
    confirm,
    exclude_reported,
    reported_split,
    tune_weights,
)
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

    icon = ":material/tune:"
    place = 40
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
        tuned = await self.look(context)
        found = LabSweep(tuned.request.base, tuned.result, tuned.notes)
        surface = weight_surface(found.base.name, found.tuned)
        blocks = _blocks(found, surface)
        try:
            variant = found.variant(even_so=self.even_so)
        except SpecError as error:
            blocks.append(Text(text=f"No variant was made of it. {error}", tone="note"))
        else:
            blocks.append(Code(title=f"{variant.name}, as a variant to keep", language="toml", text=variant.to_toml()))
            if self.confirm:
                blocks += await self._confirm(context, tuned, variant)
        values = {**surface.document(), "legs": list(surface.legs), "base": found.base.to_data()}
        return Output(blocks=tuple(blocks), values=values)

    async def look(self, context: CellContext) -> TunedWeights:
        """The surfaces and the tuning themselves, for a page on which weights are dragged."""
        opened = await context.open(self)
        reported = context.split_name(self, opened)
        if self.confirm:
            if reported == self.looked_on:
                raise SpecError(f"{reported!r} is where weights are looked for. Confirm on a split of other queries.")
            context.split(self, opened)  # refused before anything is asked, not after it
        request = TuningRequest(
            self.base(context, opened),
            opened.split(self.looked_on),
            self.metric,
            self.steps,
            self.fusions,
            self.per_kind,
            self.seeded(context),
            reported_split(opened, reported, self.looked_on),
        )
        return await tune_weights(opened, request, context.listener)

    def seeded(self, context: CellContext) -> TuningProcedure:
        """The procedure with the notebook's seed, where it has none of its own."""
        update = {} if "seed" in self.procedure.model_fields_set else {"seed": context.seed(self)}
        return self.procedure.model_copy(update=update)

    def looked_split(self, context: CellContext, opened: EvalContext) -> QuerySplit:
        """The queries that weights are tuned on, without those that are reported, unless the split is the same."""
        reported, part = context.split_name(self, opened), opened.split(self.looked_on)
        if reported == self.looked_on or reported not in opened.labelled.splits:
            return part
        return exclude_reported(opened, part, opened.any_split(reported))[0]

    async def searches(self, context: CellContext) -> list[Variant]:
        return [self.base(context, await context.open(self))]

    def queries(self, context: CellContext, opened: EvalContext) -> list[str]:
        looked = searched(self.looked_split(context, opened))
        return [*looked, *super().queries(context, opened)] if self.confirm else looked

    def base(self, context: CellContext, opened: EvalContext) -> Variant:
        """The variant whose legs get weights."""
        if len(self.legs) == 1:
            variant = context.variant(self.legs[0], opened)
        else:
            variant = hybrid_of(self.legs, opened.view.default_chunk_set)
        return variant if self.depth is None else variant.at_depth(self.depth)

    async def _confirm(self, context: CellContext, tuned: TunedWeights, made: Variant) -> list[Block]:
        """The weights on queries that they were not tuned on, beside equal weights and each leg by itself."""
        opened = await context.open(self)
        split, rules = context.split(self, opened), context.rules(self)
        board = await confirm(
            opened, tuned, made, split, equal_name="all alike", rules=rules, progress=context.listener
        )
        finding = board.finding(board.metrics[0], made.name)
        said = [Text(text=f"On {split.name}: {finding.sentence}", tone="plain")] if finding else []
        return [*said, board_table(board)]

    def python(self, export: PythonExport) -> str:
        legs = export.several(self.legs) if len(self.legs) > 1 else export.reference(self.legs[0])
        procedure = self.procedure.model_dump(exclude_unset=True)
        if export.seed(self):
            procedure.setdefault("seed", export.seed(self))
        arguments = ", ".join(f"{key}={value!r}" for key, value in procedure.items())
        lab = export.lab(self)
        sweep = call(
            f"{lab}.sweep",
            legs,
            split=repr(self.looked_on),
            reported=literal(export.split(self)),
            metric=repr(self.metric),
            fusions=_fusions(self.fusions),
            steps=repr(self.steps),
            per_kind="True" if self.per_kind else None,
            depth=literal(self.depth),
            procedure=f"Procedure({arguments})" if arguments else None,
        )
        if not self.confirm:
            return f"swept = {sweep}\nswept"
        tuned = call("swept.variant", even_so="True" if self.even_so else None)
        board = call(
            f"{lab}.evaluate",
            f"[swept.base, {tuned}]",
            metrics=repr([self.metric]),
            split=literal(export.split(self)),
            rules=export.rules(self),
        )
        shown = board if self.even_so else f"display({board}) if not swept.tuned.too_few else None"
        return f"swept = {sweep}\ndisplay(swept)\n{shown}"


def _fusions(fusions: Sequence[Fusion]) -> str | None:
    """As an argument: a method's name, or with the options that are not its defaults. None for the default fusions."""
    if fusions == FusionCell.model_fields["fusions"].default:
        return None
    changed = []
    for fusion in fusions:
        spec, default = spec_of(fusion), spec_of(type(fusion)())
        changed.append({key: value for key, value in spec.items() if key == "method" or value != default[key]})
    return repr([each["method"] if len(each) == 1 else each for each in changed])


def _blocks(found: LabSweep, surface: WeightSurface) -> list[Block]:
    blocks: list[Block] = [
        Text(text=surface.verdict, tone="headline"),
        weight_chart(surface, f"{surface.metric} over the weights"),
    ]
    for table in found.tables():
        notes = tuple(note for note in table.notes if note != surface.verdict)  # which stands above already
        blocks += [table.model_copy(update={"notes": notes})]
    if len(surface.kinds) > 1:
        columns = ("kind", "queries", *surface.legs)
        rows = [
            (each.kind or "(none)", each.queries, *(f"{each.weights[leg]:.2f}" for leg in surface.legs))
            for each in surface.kinds
        ]
        blocks.append(Table.of("Weights by kind of query", columns, rows, columns[1:]))
    return blocks
