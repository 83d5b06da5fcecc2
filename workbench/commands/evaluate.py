"""`rankbook eval`: variants over labelled queries, scored side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import meant, reports, scores, spreading, telling

if TYPE_CHECKING:
    from core.store.progress import Listener, Step
    from core.variant import Variant


def evaluate(  # noqa: PLR0913, PLR0917 - a flag each
    collection: meant.Collection,
    variants: Annotated[
        list[str],
        typer.Argument(metavar="VARIANT...", help="Presets, TOML files, legs (bm25, vector ...), or files of runs."),
    ],
    split: Annotated[
        str | None, typer.Option(help="Which labelled queries: test, train ..., or all; by default test.")
    ] = None,
    queries: meant.Queries = "default",
    metric: meant.Metrics = None,
    baseline: Annotated[
        str | None,
        typer.Option(help="What the others are compared with: one of them, or a kept run; by default the first."),
    ] = None,
    chunks: meant.Chunks = None,
    model: meant.Model = None,
    as_shipped: Annotated[
        bool,
        typer.Option("--as-shipped/--deep", help="Score what ships, or deep runs, asked for all that metrics count."),
    ] = True,
    again: Annotated[bool, typer.Option("--again", help="Ask again, even where results are kept.")] = False,
    time_live: Annotated[int, typer.Option(min=0, help="How many queries to time, each asked alone; 0 for none.")] = 20,
    seed: meant.Seed = 0,
    _dask: spreading.Dask = None,
    html: reports.Html = None,
    markdown: reports.Markdown = None,
    latex: reports.Latex = None,
    *,
    as_json: telling.AsJson = False,
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
    from evals.announcing import before
    from evals.board import METRICS
    from evals.evaluation import Wanted, evaluated, every, opened
    from evals.statistics.verdicts import Rules
    from workbench.commands.stopping import stoppable
    from workbench.session import store

    reports.check_endings(html, markdown, latex)
    with telling.waiting(f"Opening {collection} ...", quiet=as_json):
        ground = bridge.run(opened(store(telling.say), collection, queries))
    files, made = meant.runs_and_variants(ground.view, variants, chunks, model)
    part = ground.split(split or every(ground.labelled))
    rules = Rules(seed=seed)
    wanted = Wanted(tuple(metric or METRICS), baseline, as_shipped, again, time_live, rules)
    sent = bridge.run(before(ground, made, part, wanted))
    for sentence in [] if as_json else [*_alike(made), *sent]:
        telling.say(sentence)
    with telling.progress(quiet=as_json) as listener:
        plan = _Plan(listener, quiet=as_json)
        board, foreign = stoppable(
            lambda token: evaluated(ground.until(token), made, part, wanted, files=files, progress=plan)
        )
    if as_json:
        telling.as_document(scores.plain(board))
    else:
        scores.show_foreign(foreign)
        scores.show(board)
    heading = reports.Heading(f"{collection}: {', '.join(board.names)}", files=_files(made))
    reports.write(ground.store, [reports.Told(board, plan=plan.line)], heading, html, markdown, latex)


class _Plan:
    """Passes steps on. The first is of the plan, and named by it: it is said before anything is asked."""

    def __init__(self, listener: Listener, *, quiet: bool) -> None:
        self.listener, self.quiet, self.line = listener, quiet, ""

    def __call__(self, step: Step) -> None:
        if not self.line:
            self.line = step.name
            if not self.quiet:
                telling.say(step.name)
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
