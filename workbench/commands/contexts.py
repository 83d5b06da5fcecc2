"""`rankbook context`: what variants' packed contexts bring for the tokens they take, budget by budget."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import meant, telling

if TYPE_CHECKING:
    from core.store.progress import Listener
    from core.variant import Variant
    from evals.context_runs import ContextRow, ContextRun, Estimate
    from evals.evaluation import Opened
    from evals.splits import Split

    Scored = tuple[ContextRun, Sequence[ContextRow]]

COLUMNS = ("tokens", "gain", "gain share", "span recall", "span precision")


def context(  # noqa: PLR0913, PLR0917 - a flag each
    collection: meant.Collection,
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
    queries: meant.Queries = "default",
    chunks: meant.Chunks = None,
    model: meant.Model = None,
    seed: meant.Seed = 0,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Score the contexts that variants pack, per token budget: labelled gain, and how much of the answers they hold.

    Each variant keeps its own neighbours and parents; the budget is in tokens of its embedding model.

    \b
    rankbook context handbook bm25 vector --pack
    rankbook context handbook mine.toml --split all --budgets 500,1000 --json
    """
    from core import bridge
    from evals.evaluation import every, opened
    from workbench.session import store

    sizes = _sizes(budgets)
    ground = bridge.run(opened(store(telling.say), collection, queries))
    part = ground.split(split or every(ground.labelled))
    made = [_packing(meant.variant(ground.view, name, chunks, model), pack=pack) for name in variants]
    with telling.progress(quiet=as_json) as listener:
        # Nothing of it is kept, so that Ctrl-C may end it at once.
        found = bridge.run(_runs(ground, made, part, sizes, listener))
    scored = [(run, run.rows(seed=seed)) for run in found]
    if as_json:
        telling.as_json([_plain(collection, run, rows) for run, rows in scored])
    else:
        _show(collection, scored)


async def _runs(
    ground: Opened, variants: Sequence[Variant], split: Split, budgets: Sequence[int], listener: Listener
) -> list[ContextRun]:
    from evals.context_runs import context_run

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
    telling.table(title, columns, cells, right=("budget", "over budget", "failed"))
    if any(row.over for _, rows in scored for row in rows):
        telling.say("Over budget: contexts whose first hits take more, as min_primary_hits_to_keep keeps them.")
    for run, _ in scored:
        if run.failures:
            telling.say(
                f"Note: {run.variant.name}: {len(run.failures)} of {len(run.curves)} queries failed and count as "
                f"empty contexts; the first: {next(iter(run.failures.values()))}"
            )


def _figure(row: ContextRow, column: str) -> str:
    found = row.estimates.get(column.replace(" ", "_"))
    if found is None:
        return "-"
    return _rounded(found, 0 if column == "tokens" else 3)


def _rounded(found: Estimate, digits: int) -> str:
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
