"""`rankbook runs`: stored runs listed, shown, compared, pinned, exported and deleted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core import bridge
from workbench.commands import evaluate, output, runtime, trash

if TYPE_CHECKING:
    from core.store.engine import Store
    from evals.runs.run_store import RunSummary
    from evals.runs.types import Run

app = typer.Typer(no_args_is_help=True, help="Kept runs: list, show, diff, export, report, pin, aside, prune, delete.")

ID_SHOWN = 12  # characters
TOP = 10
NEAR = 5  # ids that are named where one is unknown

Reference = Annotated[str, typer.Argument(metavar="RUN", help="Its name, a pin, or the beginning of its id.")]
Collection = Annotated[
    str | None, typer.Option("--collection", "-c", help="Only of this collection; tells equal names apart.")
]


@app.command()
def export(
    run: Reference,
    file: Annotated[
        Path, typer.Argument(help="By its ending: .csv, .tsv, .jsonl, .parquet; TREC's: .trec, .run, .txt.")
    ],
    collection: Collection = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Write a run's rankings to a file, for trec_eval, ranx, or another engine's notebook.

    \b
    rankbook runs export main main.trec
    rankbook runs export hybrid-retriever ranked.parquet --collection handbook
    """
    from evals.runs import exchange, run_store

    kept = bridge.run(run_store.load(runtime.open_store(), run, collection=collection))
    exchange.write_run(kept, file.expanduser())
    plain = {"run": kept.id, "file": str(file), "queries": len(kept.rankings)}
    output.result(plain, f"{kept.name}, {len(kept.rankings)} queries, is in {file}.", json=as_json)


@app.command()
def report(
    run: Reference,
    file: Annotated[Path, typer.Argument(help="The .html file; it opens offline.")],
    against: Annotated[str | None, typer.Option(help="Another kept run to compare it with.")] = None,
    metric: runtime.Metrics = None,
    collection: Collection = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Write a report of a kept run, or of one against another: scores, kinds of query, what each query found.

    \b
    rankbook runs report main main.html
    rankbook runs report hybrid-retriever better.html --against main --metric mrr@10
    """
    from core import atomic_files
    from evals.measures import METRICS
    from evals.runs import run_store
    from workbench.services.runs import report_html

    evaluate.check_paths(html=file)
    store = runtime.open_store()
    summary = bridge.run(run_store.find(store, run, collection=collection))
    other = bridge.run(run_store.find(store, against, collection=collection)).id if against else None
    page = bridge.run(report_html(store, summary.id, metric or METRICS, other))
    atomic_files.write_whole(file.expanduser(), page)
    output.result({"run": summary.id, "against": other, "file": str(file)}, f"Written: {file}", json=as_json)


@app.command()
def pin(
    run: Reference,
    name: Annotated[str, typer.Argument(help="The baseline's name, such as main.")],
    collection: Collection = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Pin a run as a baseline under a name: it is never pruned, and gates and comparisons find it by that name.

    For a suite of several collections pin one run of each, as NAME@COLLECTION.

    \b
    rankbook runs pin hybrid-retriever main --collection handbook
    rankbook runs pin 3f9a1c2b main@scifact
    """
    from evals.runs import run_store

    store = runtime.open_store()
    summary = bridge.run(run_store.find(store, run, collection=collection))
    bridge.run(run_store.pin(store, summary.id, name))
    output.result(
        {"run": summary.id, "pin": name}, f"{summary.name} ({summary.id[:ID_SHOWN]}) is now {name!r}.", json=as_json
    )


@app.command()
def unpin(name: Annotated[str, typer.Argument(help="The baseline's name.")], *, as_json: output.AsJson = False) -> None:
    """Remove a baseline's name. The run stays.

    Example: rankbook runs unpin main
    """
    from evals.runs import run_store

    bridge.run(run_store.unpin(runtime.open_store(), name))
    output.result({"pin": name, "gone": True}, f"{name!r} is no baseline any more.", json=as_json)


@app.command()
def aside(
    run: Reference,
    collection: Collection = None,
    back: Annotated[bool, typer.Option("--back", help="Make it a candidate again.")] = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Set a run's set-up aside: verdicts over these queries look at it no more, and say how many were set aside.

    \b
    rankbook runs aside bm25 --collection handbook
    rankbook runs aside bm25 --collection handbook --back
    """
    from evals.runs import candidates, run_store

    store = runtime.open_store()
    kept = bridge.run(run_store.load(store, run, collection=collection))
    bridge.run(candidates.set_aside(store, kept, back=back))
    of = f"{kept.name} over {kept.subject.split!r} of {kept.subject.collection!r}"
    sentence = f"{of} is a candidate again." if back else f"{of} is set aside."
    output.result({"run": kept.id, "set_aside": not back}, sentence, json=as_json)


@app.command()
def prune(
    keep: Annotated[int, typer.Option(min=0, help="How many of the newest of each name to keep, per split.")] = 1,
    older_than: Annotated[int | None, typer.Option(min=0, help="Only runs that are older than this many days.")] = None,
    collection: Collection = None,
    yes: runtime.Yes = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Delete old runs, except the newest of each name: into the trash. Asks first. Pinned runs stay.

    \b
    rankbook runs prune --keep 3
    rankbook runs prune --older-than 30 --collection handbook --yes
    """
    from datetime import UTC, datetime, timedelta

    from evals.runs import run_store

    store = runtime.open_store()
    output.confirm(f"Delete all but the newest {keep} of each name?", yes=yes)
    before = datetime.now(UTC) - timedelta(days=older_than) if older_than is not None else None
    entries = bridge.run(
        run_store.prune(store, keep=keep, before=before, collection=collection, by=runtime.user_name())
    )
    count = sum(each.count for each in entries)
    trash.report_deleted({"deleted": count}, f"{count} runs deleted.", entries, json=as_json)


@app.command()
def delete(
    run: Reference,
    collection: Collection = None,
    yes: runtime.Yes = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Delete one run: into the trash. Asks first. A pinned run is refused: unpin it first.

    Example: rankbook runs delete 3f9a1c2b --yes
    """
    from evals.runs import run_store

    store = runtime.open_store()
    summary = bridge.run(run_store.find(store, run, collection=collection))
    output.confirm(f"Delete {output.printable(summary.name)!r} ({summary.id[:ID_SHOWN]})?", yes=yes)
    entry = bridge.run(run_store.remove(store, summary.id, by=runtime.user_name()))
    sentence = f"{summary.name} ({summary.id[:ID_SHOWN]}) is gone."
    trash.report_deleted({"run": summary.id, "deleted": True}, sentence, [entry], json=as_json)


@app.command("list")
def list_runs(
    collection: Collection = None,
    split: Annotated[str | None, typer.Option(help="Only over this split.")] = None,
    most: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, newest first.")] = 50,
    *,
    as_json: output.AsJson = False,
) -> None:
    """List the kept runs, newest first, with their scores.

    \b
    rankbook runs list
    rankbook runs list --collection handbook --split test -n 10 --json
    """
    from evals.presentation.run_history import run_history
    from evals.runs import run_store

    history = run_history(
        bridge.run(run_store.listed(runtime.open_store(), collection=collection, split=split, most=most))
    )
    if as_json:
        output.print_json([row.document() for row in history.rows])
        return
    if not history.rows:
        output.notice("There is no run yet. Make some with: rankbook eval handbook bm25 vector")
        return
    columns = ("id", "name", "over", "scores", "p95 ms", "queries", "failed", "made", "pinned as")
    spare = ("queries", "p95 ms", "failed", "made", "pinned as")
    rows = [
        (
            row.short_id,
            f"{row.name}\n(deep)" if row.depth else row.name,
            f"{row.collection} v{row.version},\n{row.split}",
            ",\n".join(
                f"{metric} {score:.3f} {row.badges.get(metric, '')}".strip() for metric, score in row.scores.items()
            ),
            f"{row.latency.p95:.1f}" if row.latency else "-",
            row.queries,
            row.failed,
            f"{row.made_at:%Y-%m-%d\n%H:%M}",
            ",\n".join(row.pins),
        )
        for row in history.rows
    ]
    output.table("Runs", columns, rows, right=spare[:3], spare=spare)


@app.command()
def show(
    run: Reference,
    collection: Collection = None,
    query: Annotated[str | None, typer.Option(help="Show what it found for the query of this id, too.")] = None,
    worst: Annotated[
        int, typer.Option(min=0, help="Score it by kind of query, and show this many of the queries it does worst on.")
    ] = 0,
    metric: Annotated[str, typer.Option("--metric", "-m", help="For --worst: by which metric.")] = "ndcg@10",
    *,
    as_json: output.AsJson = False,
) -> None:
    """Show everything about a run: its variant, what it was made over and with, scores, times by stage, failures.

    \b
    rankbook runs show hybrid-retriever --collection handbook
    rankbook runs show main --query q001
    rankbook runs show main --worst 10
    """
    from evals.evaluation.compare_runs import flat
    from evals.presentation.run_history import history_row, subject_facts
    from evals.runs import run_store
    from workbench.services.runs import stages

    store = runtime.open_store()
    summary = bridge.run(run_store.find(store, run, collection=collection))
    kept = bridge.run(run_store.load(store, summary.id))
    row = history_row(summary)
    hits = _hits(kept, query) if query is not None else []
    scores = _scores(store, summary, metric, worst) if worst else {}
    if as_json:
        more = {"environment": kept.environment, "stages": kept.stage_latencies, "failures": kept.failures}
        output.document({**row.document(), **scores, **more, "notes": kept.notes, "found": hits})
        return
    facts = {
        **subject_facts(summary.subject),
        "made": f"{summary.made_at:%Y-%m-%d %H:%M}",
        "asked for": f"{summary.depth} results, deep" if summary.depth else "as the variant ships",
        "pinned as": ", ".join(summary.pins),
        "evaluated also as": summary.other_names,
        **{each: f"{score:.4f} {row.badges.get(each, '')}".strip() for each, score in row.scores.items()},
    }
    output.table(f"{summary.name}, {summary.id[:ID_SHOWN]}", ("", ""), list(facts.items()))
    if rows := stages(kept):
        output.table("Milliseconds", ("stage", "p50", "p95", "queries"), rows, right=("p50", "p95", "queries"))
    if kept.failures:
        output.table("Queries that failed", ("query", "why"), list(kept.failures.items())[:TOP])
    environment = {key: value for key, value in kept.environment.items() if "indexes" not in key}
    output.table("Made with", ("", ""), list(flat(environment)))
    for note in kept.notes:
        output.notice(f"Note: {note}")
    if kept.variant is not None:
        typer.echo(output.printable(kept.variant.to_toml()), nl=False)
    if scores:
        _show_scores(scores, metric)
    if hits:
        cells = [(each["rank"], f"{each['score']:.4f}", each["id"]) for each in hits[:TOP]]
        output.table(f"Found for {query}", ("", "score", "id"), cells, right=("", "score"))


def _hits(run: Run, query: str) -> list[dict[str, Any]]:
    from difflib import get_close_matches

    from core.errors import UnknownName

    if query not in run.rankings:
        near = get_close_matches(query, run.rankings, n=NEAR, cutoff=0)
        raise UnknownName(f"query of {run.name!r}", query, near)
    ranking = run.rankings[query]
    return [
        {"rank": rank, "score": score, "id": unit}
        for rank, (unit, score) in enumerate(zip(ranking.ids, ranking.scores, strict=True), 1)
    ]


def _scores(store: Store, run: RunSummary, metric: str, most: int) -> dict[str, Any]:
    """By kind of query, and of the queries on which it does worst."""
    from workbench.services import runs as runs_shown

    board = bridge.run(runs_shown.board_of(store, run.id, [metric]))
    groups = runs_shown.by_group(board, board.metrics[0], "kind")
    return {
        "by kind": [{"kind": kind, "queries": count, "score": cell} for kind, count, cell in groups],
        "worst": runs_shown.worst_queries(board, board.metrics[0], most),
    }


def _show_scores(scores: dict[str, Any], metric: str) -> None:
    from workbench.services.runs import worst_rows

    rows = [
        (each["kind"] or "(none)", each["queries"], each["score"].text, each["score"].interval)
        for each in scores["by kind"]
    ]
    output.table("By kind of query", ("kind", "queries", metric, "interval"), rows, right=("queries", metric))
    columns = ("id", "query", "kind", metric, "first relevant at")
    right = (metric, "first relevant at")
    output.table("The queries it does worst on", columns, worst_rows(scores["worst"]), right=right)


@app.command()
def diff(
    one: Reference,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The run to compare it with.")],
    collection: Collection = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Show how two runs differ: what they were made over, the variant's options, code, machine, scores, rankings.

    Whether one is better: rankbook compare

    \b
    rankbook runs diff main hybrid-retriever
    """
    from evals.evaluation.compare_runs import differences
    from evals.presentation.run_history import run_history
    from evals.runs import run_store

    store = runtime.open_store()
    summaries = [bridge.run(run_store.find(store, each, collection=collection)) for each in (one, other)]
    first, second = (bridge.run(run_store.load(store, each.id)) for each in summaries)
    differing = differences(first, second)
    history = run_history(summaries)
    if as_json:
        runs = [row.document() for row in history.rows]
        output.document({"runs": runs, "differences": differing.rows, "changed_queries": differing.changed})
        return
    names = tuple(f"{each.name} {each.id[:ID_SHOWN]}" for each in summaries)
    rows: list[tuple[str, ...]] = [(row.where, row.one, row.other) for row in differing.rows]
    for metric in dict.fromkeys(metric for row in history.rows for metric in row.scores):
        values = [f"{row.scores[metric]:.4f}" if metric in row.scores else "-" for row in history.rows]
        rows += [(metric, *values)] if values[0] != values[1] else []
    output.table("What differs", ("", *names), rows)
    output.notice(
        f"{len(differing.changed)} of {differing.queries} queries have other first {TOP} results."
        if differing.changed
        else f"All {differing.queries} queries have the same first {TOP} results, in the same order."
    )
