"""`rankbook eval`: variants and runs scored, and reports of them written."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import output, runtime

if TYPE_CHECKING:
    from core.progress import Listener, Step
    from core.store.engine import Store
    from core.variant import Variant
    from evals.evaluation.board import Board
    from evals.reports import Part
    from evals.suites.gate import Check
    from evals.tuning.tuner import TuningResult

Html = Annotated[Path | None, typer.Option("--html", help="Write a report to this .html file; it opens offline.")]
Markdown = Annotated[Path | None, typer.Option("--markdown", help="Write the tables to this .md file.")]
Latex = Annotated[Path | None, typer.Option("--latex", help="Write the table for a paper to this .tex file.")]


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """What there is to report of one collection."""

    board: Board
    tunings: Mapping[str, TuningResult] = field(default_factory=dict)
    notes: Sequence[str] = ()
    plan: str = ""


@dataclass(frozen=True, slots=True)
class Heading:
    """What stands above: `files` are those that it takes to do it again, by name."""

    title: str
    description: str = ""
    checks: Sequence[Check] = ()
    files: Mapping[str, str] = field(default_factory=dict)


def check_endings(*paths: Path | None) -> None:
    """Before the work is done, and not after it."""
    from core.errors import InputError

    for path, ending in zip(paths, (".html", ".md", ".tex"), strict=False):
        if path is not None and path.suffix.lower() != ending:
            raise InputError(f"This report's file should end in {ending}.", path=path)
    check_folders(*paths)


def check_folders(*paths: Path | None) -> None:
    from core.errors import InputError

    for path in paths:
        if path is not None and not path.expanduser().absolute().parent.is_dir():
            raise InputError("The folder that this file should go into is not there.", path=path)


def write(store: Store, told: Sequence[WrittenPart], heading: Heading, *paths: Path | None) -> None:
    """The reports that were asked for, in the form that each file's ending says."""
    wanted = [path for path in paths if path is not None]
    if not wanted:
        return
    from evals.reports import report
    from evals.reports import write as written

    made = report(
        [_part(store, each) for each in told],
        checks=heading.checks,
        title=heading.title,
        description=heading.description,
        command=shlex.join(["rankbook", *sys.argv[1:]]),
        files=heading.files,
    )
    for path in wanted:
        output.notice(f"Written: {written(made, path.expanduser())}")


def _part(store: Store, told: WrittenPart) -> Part:
    from core import bridge
    from core.store import collections
    from evals.reports import Part, documents

    view = bridge.run(collections.get(store, told.board.runs[0].subject.collection))
    texts = bridge.run(documents(store, view, told.board))
    return Part(told.board, told.tunings, texts, told.notes, told.plan)


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
    from core import bridge
    from evals.evaluation.context import default_split, open_eval
    from evals.evaluation.cost_notice import external_calls
    from evals.evaluation.evaluate import evaluate
    from evals.measures import METRICS
    from evals.runs.plan import EvalOptions
    from evals.statistics.verdicts import Rules
    from workbench.commands.runtime import stoppable
    from workbench.session import store

    check_endings(html, markdown, latex)
    with output.waiting(f"Opening {collection} ...", quiet=as_json):
        ground = bridge.run(open_eval(store(output.notice), collection, queries))
    files, made = runtime.resolve_entries(ground.view, variants, chunks, model)
    part = ground.split(split or default_split(ground.labelled))
    rules = Rules(seed=seed)
    wanted = EvalOptions(tuple(metric or METRICS), baseline, as_shipped, again, time_live, rules)
    plan = bridge.run(ground.plan(made, part, wanted)) if made else None
    sent = bridge.run(external_calls(ground, plan)) if plan else []
    for sentence in [] if as_json else [*_alike(made), *sent]:
        output.notice(sentence)
    with output.progress(quiet=as_json) as listener:
        first = _PlanLine(listener, quiet=as_json)
        result = stoppable(
            lambda token: evaluate(ground.until(token), made, part, wanted, plan=plan, files=files, progress=first)
        )
    board = result.board
    if as_json:
        output.as_document(output.plain(board))
    else:
        output.show_foreign(result.foreign)
        output.show_board(board)
    heading = Heading(f"{collection}: {', '.join(board.names)}", files=_files(made))
    write(ground.store, [WrittenPart(board, plan=first.line)], heading, html, markdown, latex)


class _PlanLine:
    """Passes steps on. The first is of the plan, and named by it: it is said before anything is asked."""

    def __init__(self, listener: Listener, *, quiet: bool) -> None:
        self.listener, self.quiet, self.line = listener, quiet, ""

    def __call__(self, step: Step) -> None:
        if not self.line:
            self.line = step.name
            if not self.quiet:
                output.notice(step.name)
        self.listener(step)


def _alike(made: Sequence[Variant]) -> Iterator[str]:
    """Of variants that are one, whatever they are called: their rows are the same run's."""
    names: dict[str, list[str]] = {}
    for variant in made:
        names.setdefault(variant.id, []).append(variant.name)
    for same in names.values():
        if len(same) > 1:
            yield f"{' and '.join(same)} are one variant: their rows show the same run."


def _files(made: Sequence[Variant]) -> dict[str, str]:
    """The variants as they were, whatever becomes of the files that they came from."""
    return {f"{variant.name}.toml": variant.to_toml() for variant in made}
