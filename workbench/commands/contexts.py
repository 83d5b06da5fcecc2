"""`rankbook context`: what variants' packed contexts bring for the tokens they take, budget by budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from core import bridge
from workbench.commands import output, runtime

if TYPE_CHECKING:
    from evals.evaluation.packed_contexts import ContextRow, ContextRun

COLUMNS = ("tokens", "gain", "gain share", "span recall", "span precision")


def context(  # noqa: PLR0913, PLR0917 - a flag each
    collection: runtime.Collection,
    variants: Annotated[
        list[str], typer.Argument(metavar="VARIANT...", help="Presets, TOML files, or legs (bm25, vector ...).")
    ],
    split: Annotated[
        str | None, typer.Option(help="Which labelled queries: test, train ..., or all; by default test.")
    ] = None,
    budgets: Annotated[str, typer.Option(help="Tokens that a context may take, separated by commas.")] = (
        "256,512,1024,2048"
    ),
    pack: Annotated[bool, typer.Option("--pack", help="Pack variants that do not say how, as is usual.")] = False,
    queries: runtime.Queries = "default",
    chunks: runtime.Chunks = None,
    model: runtime.Model = None,
    seed: runtime.Seed = 0,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Score the contexts that variants pack, per token budget: labelled gain, and how much of the answers they hold.

    Each variant keeps its own neighbours and parents; the budget is in tokens of its embedding model.

    \b
    rankbook context handbook bm25 vector --pack
    rankbook context handbook mine.toml --split all --budgets 500,1000 --json
    """
    from core.errors import SpecError
    from core.packing import Packing
    from evals.evaluation.context import default_split
    from evals.evaluation.packed_contexts import context_run

    try:
        sizes = [int(part) for part in budgets.split(",")]
    except ValueError:
        raise SpecError(f"{budgets!r} are no budgets. Write whole numbers with commas between: 256,1024.") from None
    opened = runtime.open_evaluation(collection, queries, quiet=as_json)
    part = opened.split(split or default_split(opened.labelled))
    packing = []
    for name in variants:
        variant = runtime.resolve_variant(opened.view, name, chunks, model)
        if variant.pack is None and not pack:
            raise SpecError(
                f"{variant.name!r} does not say how to pack a context. Add `pack = {{}}` to its file, or --pack here."
            )
        packing.append(variant if variant.pack is not None else variant.but(pack=Packing()))
    with output.progress(quiet=as_json) as listener:

        async def run_all() -> list[ContextRun]:
            return [await context_run(opened.context, each, part, sizes, progress=listener) for each in packing]

        runs = bridge.run(run_all())  # nothing of it is kept, so that Ctrl-C may end it at once
    scored = [(run, run.rows(seed=seed)) for run in runs]
    if not as_json:
        _show(collection, scored)
        return
    output.print_json(
        [
            {
                "collection": collection,
                "variant": run.variant.name,
                "id": run.variant.id,
                "split": run.split,
                "queries": len(run.curves),
                "failed": len(run.failures),
                "failures": run.failures,
                "budgets": [{"budget": row.budget, "over_budget": row.over, **row.estimates} for row in rows],
            }
            for run, rows in scored
        ]
    )


def _show(collection: str, scored: Sequence[tuple[ContextRun, Sequence[ContextRow]]]) -> None:
    def figure(row: ContextRow, column: str) -> str:
        estimate, digits = row.estimates.get(column.replace(" ", "_")), 0 if column == "tokens" else 3
        if estimate is None:
            return "-"
        if estimate.low is None or estimate.high is None:
            return f"{estimate.mean:.{digits}f}"
        ends = max(digits - 1, 0)
        return f"{estimate.mean:.{digits}f} [{estimate.low:.{ends}f}, {estimate.high:.{ends}f}]"

    columns = ("variant", "budget", *COLUMNS, "over budget", "failed")
    cells = [
        (run.variant.name, row.budget, *(figure(row, name) for name in COLUMNS), row.over, len(run.failures))
        for run, rows in scored
        for row in rows
    ]
    first = scored[0][0]
    title = f"{collection}, contexts of {len(first.curves)} queries of {first.split}"
    output.table(title, columns, cells, right=("budget", "over budget", "failed"))
    if any(row.over for _, rows in scored for row in rows):
        output.notice("Over budget: contexts whose first hits take more, as min_primary_hits_to_keep keeps them.")
    for run, _ in scored:
        if run.failures:
            output.notice(
                f"Note: {run.variant.name}: {len(run.failures)} of {len(run.curves)} queries failed and count as "
                f"empty contexts; the first: {next(iter(run.failures.values()))}"
            )
