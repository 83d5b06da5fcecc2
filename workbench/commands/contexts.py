"""`rankbook context`: what variants' packed contexts bring for the tokens they take, budget by budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import output, runtime

if TYPE_CHECKING:
    from core.progress import Listener
    from core.variant import Variant
    from evals.evaluation.context import EvalContext
    from evals.evaluation.packed_contexts import ContextEstimate, ContextRow, ContextRun
    from evals.types import QuerySplit

    Scored = tuple[ContextRun, Sequence[ContextRow]]

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
    from core import bridge
    from evals.evaluation.context import default_split, open_eval
    from workbench.session import store

    sizes = _sizes(budgets)
    ground = bridge.run(open_eval(store(output.notice), collection, queries))
    part = ground.split(split or default_split(ground.labelled))
    made = [_packing(runtime.variant(ground.view, name, chunks, model), pack=pack) for name in variants]
    with output.progress(quiet=as_json) as listener:
        # Nothing of it is kept, so that Ctrl-C may end it at once.
        found = bridge.run(_runs(ground, made, part, sizes, listener))
    scored = [(run, run.rows(seed=seed)) for run in found]
    if as_json:
        output.as_json([_plain(collection, run, rows) for run, rows in scored])
    else:
        _show(collection, scored)


async def _runs(
    ground: EvalContext, variants: Sequence[Variant], split: QuerySplit, budgets: Sequence[int], listener: Listener
) -> list[ContextRun]:
    from evals.evaluation.packed_contexts import context_run

    return [await context_run(ground.context, each, split, budgets, progress=listener) for each in variants]


def _sizes(text: str) -> list[int]:
    from core.errors import SpecError

    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise SpecError(f"{text!r} are no budgets. Write whole numbers with commas between: 256,1024.") from None


def _packing(variant: Variant, *, pack: bool) -> Variant:
    from core.errors import SpecError
    from core.packing import Packing

    if variant.pack is not None:
        return variant
    if not pack:
        raise SpecError(
            f"{variant.name!r} does not say how to pack a context. Add `pack = {{}}` to its file, or --pack here."
        )
    return variant.but(pack=Packing())


# -- what is shown -----------------------------------------------------------------------------------------------------


def _show(collection: str, scored: Sequence[Scored]) -> None:
    columns = ("variant", "budget", *COLUMNS, "over budget", "failed")
    cells = [
        (run.variant.name, row.budget, *(_figure(row, name) for name in COLUMNS), row.over, len(run.failures))
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


def _figure(row: ContextRow, column: str) -> str:
    found = row.estimates.get(column.replace(" ", "_"))
    if found is None:
        return "-"
    return _rounded(found, 0 if column == "tokens" else 3)


def _rounded(found: ContextEstimate, digits: int) -> str:
    ends = max(digits - 1, 0)
    if found.low is None or found.high is None:
        return f"{found.mean:.{digits}f}"
    return f"{found.mean:.{digits}f} [{found.low:.{ends}f}, {found.high:.{ends}f}]"


def _plain(collection: str, run: ContextRun, rows: Sequence[ContextRow]) -> dict[str, Any]:
    return {
        "collection": collection,
        "variant": run.variant.name,
        "id": run.variant.id,
        "split": run.split,
        "queries": len(run.curves),
        "failed": len(run.failures),
        "failures": run.failures,
        "budgets": [{"budget": row.budget, "over_budget": row.over, **row.estimates} for row in rows],
    }
