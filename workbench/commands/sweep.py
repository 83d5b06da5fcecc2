"""`rankbook sweep`: every mix of some legs' weights, what the best of them is worth, and the variant it makes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import evaluate, output, runtime

if TYPE_CHECKING:
    from core.variant import Variant
    from evals.evaluation.board import Board
    from evals.evaluation.context import EvalContext
    from evals.presentation.weight_surface import WeightSurface
    from evals.tuning.tuner import TuningResult
    from evals.tuning.workflow import TuningRequest

BAR = 30  # characters
TOP = 10


def sweep(  # noqa: PLR0913, PLR0917 - a flag each
    collection: runtime.Collection,
    legs: Annotated[
        list[str], typer.Argument(metavar="VARIANT | LEG LEG...", help="A variant of two to four legs, or the legs.")
    ],
    split: Annotated[
        str | None, typer.Option(help="The split that weights are tuned on; by default train, or what there is.")
    ] = None,
    queries: runtime.Queries = "default",
    metric: Annotated[str, typer.Option("--metric", "-m", help="The metric to tune for.")] = "ndcg@10",
    steps: Annotated[int, typer.Option(min=2, max=100, help="Into how many parts the weights' sum is cut.")] = 20,
    depth: Annotated[
        int | None,
        typer.Option(min=1, max=10_000, help="Candidates that each leg fetches; kept with the weights."),
    ] = None,
    fusion: Annotated[
        list[str] | None,
        typer.Option(help="METHOD[,option=value...]; several to choose among. By default rrf and linear."),
    ] = None,
    report_split: Annotated[
        str | None, typer.Option(help="Then score the result on this split, beside its legs.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Write the variant with its weights to this TOML file.")] = None,
    even_so: Annotated[
        bool, typer.Option("--even-so", help="Save or report it despite too few labels, or an expected loss.")
    ] = False,
    per_kind: Annotated[bool, typer.Option("--per-kind", help="Save weights for each kind of query.")] = False,
    chunks: runtime.Chunks = None,
    model: runtime.Model = None,
    seed: runtime.Seed = 0,
    html: evaluate.Html = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Score every mix of two, three or four legs' weights, and say what the best of them is worth on new queries.

    \b
    rankbook sweep handbook vector bm25
    rankbook sweep handbook hybrid-retriever --metric mrr@10 --report-split test
    rankbook sweep handbook vector bm25 --depth 100
    rankbook sweep handbook vector bm25 trigram --split train --steps 10 --fusion rrf,k=10 --save tuned.toml
    """
    from core import atomic_files, bridge
    from core.errors import InputError, SpecError
    from evals.evaluation.context import open_eval, tuning_split
    from evals.presentation.weight_surface import weight_surface
    from evals.tuning.tuner import TuningProcedure
    from evals.tuning.workflow import TuningRequest, exclude_reported, tune_weights
    from workbench.commands.runtime import stoppable
    from workbench.session import store

    evaluate.check_endings(html)
    evaluate.check_folders(save)
    if html is not None and report_split is None:
        raise SpecError("A report shows what weights are worth on other queries. Name their split with --report-split.")
    with output.waiting(f"Opening {collection} ...", quiet=as_json):
        ground = bridge.run(open_eval(store(output.notice), collection, queries))
    base = runtime.legs_to_variant(ground.view, legs, chunks, model)
    base = base if depth is None else base.at_depth(depth)
    split = split or tuning_split(ground.labelled)
    part, notes = ground.split(split), tuple[str, ...]()
    if report_split is not None:
        if report_split == split:
            raise SpecError(f"{split!r} is where weights are looked for. Report on a split of other queries.")
        part, notes = exclude_reported(ground, part, ground.split(report_split))
    asked = TuningRequest(base, metric, steps, runtime.fusions(fusion), True, TuningProcedure(seed=seed))
    with output.progress(quiet=as_json) as listener:
        tuned, found = stoppable(lambda token: tune_weights(ground.until(token), part, asked, listener))
    why_not = "" if even_so else tuned.too_few or tuned.loss
    unwritten = [path for path in (html, save) if path is not None] if why_not else []
    reported = _reported(ground, base, tuned, report_split, asked, even_so=even_so, per_kind=per_kind, quiet=as_json)
    if as_json:
        document = weight_surface(base.name, tuned).document()
        output.as_document({**document, "reported": reported and output.plain(reported)})
    else:
        _show_sweep(weight_surface(base.name, tuned))
        for note in (*notes, *found.notes):
            output.notice(f"Note: {note}")
        if reported:
            output.show_board(reported)
    if reported:
        heading = evaluate.Heading(f"{collection}: weights of {base.name}", files={"base.toml": base.to_toml()})
        told = evaluate.WrittenPart(reported, {reported.names[-1]: tuned}, (*notes, *found.notes))
        evaluate.write(ground.store, [told], heading, html)
    if unwritten:
        files = " and ".join(map(str, unwritten))
        raise InputError(f"Not written: {files}. {why_not} --even-so writes it even so.")
    if save is not None:
        made = tuned.variant(base, per_kind=per_kind, even_so=even_so)
        atomic_files.write_whole(save.expanduser(), made.to_toml())
        output.notice(f"{made.name} is written to {save}.")


def _reported(
    ground: EvalContext,
    base: Variant,
    tuned: TuningResult,
    split: str | None,
    asked: TuningRequest,
    *,
    even_so: bool,
    per_kind: bool,
    quiet: bool,
) -> Board | None:
    """The board of the tuned variant, the base with all legs alike, and each leg alone; None where nobody asked."""
    from evals.evaluation.context import EvalOptions
    from evals.evaluation.evaluate import evaluate
    from evals.statistics.verdicts import Rules
    from workbench.commands.runtime import stoppable

    if split is None:
        return None
    if (why := tuned.refusal(per_kind=per_kind)) and not even_so:
        output.notice(f"{why} Nothing was scored on {split!r}; --even-so does it.")
        return None
    variants = [*_beside(base, tuned), tuned.variant(base, per_kind=per_kind, even_so=even_so)]
    wanted = EvalOptions((asked.metric,), rules=Rules(seed=asked.procedure.seed), rename=False)
    with output.progress(quiet=quiet) as listener:
        board, _ = stoppable(
            lambda token: evaluate(ground.until(token), variants, ground.split(split), wanted, progress=listener)
        )
    return board


def _beside(base: Variant, tuned: TuningResult) -> list[Variant]:
    """What the tuned variant is to beat: the best of equal weights that is on offer, and each leg by itself."""
    from core.variant import Variant

    alike = tuned.equal_weights(base, f"{base.name}, all alike")
    alone = [Variant.of_leg(leg, chunks=base.chunks, model=base.model, filter=base.filter) for leg in alike.legs]
    return [alike, *(each.but(name=name) for each, name in zip(alone, base.leg_names, strict=True))]


def _show_sweep(surface: WeightSurface) -> None:
    """The best of each fusion, the curve of two legs or the best points of more, the kinds, and what it all means."""
    from evals.presentation.weight_surface import weights_text

    rows = [
        (each.name, f"{each.means[each.best]:.3f}", weights_text(surface.weights_at(each.best, each)))
        for each in surface.fusions
    ]
    title = f"{surface.name}: {surface.metric} over {surface.queries} queries"
    output.table(title, ("fusion", "in-sample best", "at"), rows, right=("in-sample best",))
    points = every = list(surface.points)
    if len(surface.legs) > 2:
        points = sorted(every, key=lambda point: (not point.best, -point.mean))[:TOP]
    low, high = min(point.mean for point in points), max(point.mean for point in points)
    curve = []
    for point in points:
        length = round(1 + (BAR - 1) * (point.mean - low) / (high - low)) if high > low else BAR
        mark = "*" if point.best else "=" if point.tied else ""
        weights = (f"{weight:.3g}" for weight in point.weights.values())
        curve.append((*weights, f"{point.mean:.3f}", mark, "#" * length))
    title = "The curve" if len(surface.legs) == 2 else f"The best {len(points)} of {len(every):,} points"
    output.table(title, (*surface.legs, surface.metric, "", " "), curve, right=(*surface.legs, surface.metric))
    if len(surface.kinds) > 1:
        kinds = [(each.kind or "(none)", each.queries, weights_text(each.weights)) for each in surface.kinds]
        output.table("Best weights by kind of query, drawn to those for all", ("kind", "queries", "weights"), kinds)
    for sentence in surface.sentences:
        output.notice(sentence)
