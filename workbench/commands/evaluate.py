"""`rankbook eval`: variants and runs scored, and reports of them written."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core import bridge
from workbench.commands import output, runtime

if TYPE_CHECKING:
    from core.progress import Step
    from core.store.engine import Store
    from core.variant import Variant
    from evals.evaluation.board import Board
    from evals.reports import Part
    from evals.tuning.tuner import TuningResult

ENDINGS = {"html": ".html", "markdown": ".md", "latex": ".tex"}

Html = Annotated[Path | None, typer.Option("--html", help="Write a report to this .html file; it opens offline.")]
Markdown = Annotated[Path | None, typer.Option("--markdown", help="Write the tables to this .md file.")]
Latex = Annotated[Path | None, typer.Option("--latex", help="Write the table for a paper to this .tex file.")]


def check_paths(*others: Path | None, **reports: Path | None) -> None:
    """Refuse a file that cannot be written before the work is done. `reports` are paths by their form."""
    from core.errors import InputError

    for form, path in reports.items():
        if path is not None and path.suffix.lower() != ENDINGS[form]:
            raise InputError(f"This report's file should end in {ENDINGS[form]}.", path=path)
    for path in (*reports.values(), *others):
        if path is not None and not path.expanduser().absolute().parent.is_dir():
            raise InputError("The folder that this file should go into is not there.", path=path)


def report_part(
    store: Store,
    board: Board,
    tunings: Mapping[str, TuningResult] | None = None,
    notes: Sequence[str] = (),
    plan: str = "",
) -> Part:
    """What there is to report of one collection, with the texts of its documents."""
    from core.store import collections
    from evals.reports import Part, documents

    view = bridge.run(collections.get(store, board.runs[0].subject.collection))
    return Part(board, tunings or {}, bridge.run(documents(store, view, board)), notes, plan)


def write_reports(parts: Sequence[Part], *paths: Path | None, title: str, **heading: Any) -> None:
    """One report for each path, in the form that its ending says. `heading` is what `evals.reports.report` takes."""
    from evals.reports import report, write

    document = report(parts, title=title, command=shlex.join(["rankbook", *sys.argv[1:]]), **heading)
    for path in paths:
        if path is not None:
            output.notice(f"Written: {write(document, path.expanduser())}")


def evaluate(  # noqa: PLR0913, PLR0917 - a flag each
    collection: runtime.Collection,
    variants: Annotated[
        list[str],
        typer.Argument(metavar="VARIANT...", help="Presets, TOML files, legs (bm25, vector ...), or files of runs."),
    ],
    split: Annotated[
        str | None, typer.Option(help="Which labelled queries: test, train ..., or all; by default test.")
    ] = None,
    queries: runtime.Queries = "default",
    metric: runtime.Metrics = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="What the others are compared with: one of them, or a kept run; by default the first."),
    ] = None,
    chunks: runtime.Chunks = None,
    model: runtime.Model = None,
    as_shipped: Annotated[
        bool,
        typer.Option("--as-shipped/--deep", help="Score what ships, or deep runs, asked for all that metrics count."),
    ] = True,
    again: Annotated[bool, typer.Option("--again", help="Ask again, even where results are kept.")] = False,
    time_live: Annotated[int, typer.Option(min=0, help="How many queries to time, each asked alone; 0 for none.")] = 20,
    seed: runtime.Seed = 0,
    _dask: runtime.Dask = None,
    html: Html = None,
    markdown: Markdown = None,
    latex: Latex = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Score variants over labelled queries, side by side, and say how sure you can be.

    A bare leg is a variant of that leg alone. A file of another engine's run (TREC, CSV, Parquet) joins as an equal.

    \b
    rankbook eval handbook bm25 vector hybrid-retriever
    rankbook eval handbook mine.toml local-rag --metric mrr@10 --metric recall@10 --baseline local-rag
    rankbook eval handbook bm25 lucene.trec --split all --time-live 50
    rankbook eval handbook local-rag --baseline main --json
    """
    from evals.evaluation.context import default_split
    from evals.evaluation.cost_notice import external_calls
    from evals.evaluation.evaluate import evaluate
    from evals.measures import METRICS
    from evals.runs.plan import EvalOptions
    from evals.statistics.verdicts import Rules

    check_paths(html=html, markdown=markdown, latex=latex)
    opened = runtime.open_evaluation(collection, queries, quiet=as_json)
    files, entries = runtime.resolve_entries(opened.view, variants, chunks, model)
    part = opened.split(split or default_split(opened.labelled))
    options = EvalOptions(tuple(metric or METRICS), baseline, as_shipped, again, time_live, Rules(seed=seed))
    plan = bridge.run(opened.plan(entries, part, options)) if entries else None
    costs = bridge.run(external_calls(opened, plan)) if plan else []
    for sentence in [] if as_json else [*_duplicates(entries), *costs]:
        output.notice(sentence)
    plan_line = ""
    with output.progress(quiet=as_json) as listener:

        def announce_plan(step: Step) -> None:
            """Print the plan, which is the name of the first step, before any query is sent."""
            nonlocal plan_line
            if not plan_line:
                plan_line = step.name
                if not as_json:
                    output.notice(plan_line)
            listener(step)

        result = runtime.run_stoppable(
            lambda token: evaluate(
                opened.until(token), entries, part, options, plan=plan, files=files, progress=announce_plan
            )
        )
    board = result.board
    if as_json:
        output.document(output.plain_board(board))
    else:
        output.show_foreign(result.foreign)
        output.show_board(board)
    if html or markdown or latex:
        tomls = {f"{variant.name}.toml": variant.to_toml() for variant in entries}
        title = f"{collection}: {', '.join(board.names)}"
        write_reports(
            [report_part(opened.store, board, plan=plan_line)], html, markdown, latex, title=title, files=tomls
        )


def _duplicates(variants: Sequence[Variant]) -> Iterator[str]:
    """A sentence for each variant that is there more than once, under whatever names."""
    names: dict[str, list[str]] = {}
    for variant in variants:
        names.setdefault(variant.id, []).append(variant.name)
    for same in names.values():
        if len(same) > 1:
            yield f"{' and '.join(same)} are one variant: their rows show the same run."
