"""`rankbook sweep`: every mix of some legs' weights, what the best of them is worth, and the variant it makes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import evaluate, output, runtime

if TYPE_CHECKING:
    from evals.evaluation.board import Board
    from evals.presentation.weight_surface import WeightSurface

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
    from core import atomic_files
    from core.errors import InputError, SpecError
    from evals.evaluation.context import tuning_split
    from evals.presentation.weight_surface import weight_surface
    from evals.statistics.verdicts import Rules
    from evals.tuning.tuner import TuningProcedure
    from evals.tuning.workflow import TuningRequest, confirm, tune_weights

    evaluate.check_paths(save, html=html)
    if html is not None and report_split is None:
        raise SpecError("A report shows what weights are worth on other queries. Name their split with --report-split.")
    opened = runtime.open_evaluation(collection, queries, quiet=as_json)
    base = runtime.legs_to_variant(opened.view, legs, chunks, model)
    base = base if depth is None else base.at_depth(depth)
    split = split or tuning_split(opened.labelled)
    if report_split == split:
        raise SpecError(f"{split!r} is where weights are looked for. Report on a split of other queries.")
    other = None if report_split is None else opened.split(report_split)
    procedure, fusions = TuningProcedure(seed=seed), runtime.parse_fusions(fusion)
    request = TuningRequest(base, opened.split(split), metric, steps, fusions, True, procedure, other)
    with output.progress(quiet=as_json) as listener:
        tuning = runtime.run_stoppable(lambda token: tune_weights(opened.until(token), request, listener))
    tuned, notes, reported = tuning.result, tuning.notes, None
    refusal = "" if even_so else tuned.refusal(per_kind=per_kind)
    if other is not None and refusal:
        output.notice(f"{refusal} Nothing was scored on {report_split!r}; --even-so does it.")
    elif other is not None:
        made = tuned.variant(base, per_kind=per_kind, even_so=even_so)
        equal, rules = f"{base.name}, all alike", Rules(seed=seed)
        with output.progress(quiet=as_json) as listener:
            reported = runtime.run_stoppable(
                lambda token: confirm(
                    opened.until(token), tuning, made, other, equal_name=equal, rules=rules, progress=listener
                )
            )
    if as_json:
        document = weight_surface(base.name, tuned).document()
        output.document({**document, "reported": reported and output.plain_board(reported)})
    else:
        _show_sweep(weight_surface(base.name, tuned), notes, reported)
    if reported and html:
        written = evaluate.report_part(opened.store, reported, {reported.names[-1]: tuned}, notes)
        title = f"{collection}: weights of {base.name}"
        evaluate.write_reports([written], html, title=title, files={"base.toml": base.to_toml()})
    if why_not := "" if even_so else tuned.too_few or tuned.loss:
        unwritten = " and ".join(str(path) for path in (html, save) if path is not None)
        if unwritten:
            raise InputError(f"Not written: {unwritten}. {why_not} --even-so writes it even so.")
    elif save is not None:
        tuned_variant = tuned.variant(base, per_kind=per_kind, even_so=even_so)
        atomic_files.write_whole(save.expanduser(), tuned_variant.to_toml())
        output.notice(f"{tuned_variant.name} is written to {save}.")


def _show_sweep(surface: WeightSurface, notes: Sequence[str], reported: Board | None) -> None:
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
    for note in notes:
        output.notice(f"Note: {note}")
    if reported:
        output.show_board(reported)
