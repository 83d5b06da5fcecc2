"""`rankbook runs`: what was evaluated and is kept, listed, shown and told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import keeping, telling
from workbench.commands.keeping import SHOWN, Collection, Reference

if TYPE_CHECKING:
    from core.store.engine import Store
    from evals.running.run_store import Summary
    from evals.runs import Run

app = typer.Typer(no_args_is_help=True, help="Kept runs: list, show, diff, export, report, pin, aside, prune, delete.")

app.command()(keeping.export)
app.command()(keeping.report)
app.command()(keeping.pin)
app.command()(keeping.unpin)
app.command()(keeping.aside)
app.command()(keeping.prune)
app.command()(keeping.delete)

TOP = 10
NEAR = 5


@app.command("list")
def list_runs(
    collection: Collection = None,
    split: Annotated[str | None, typer.Option(help="Only over this split.")] = None,
    most: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many, newest first.")] = 50,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """List the kept runs, newest first, with their scores.

    \b
    rankbook runs list
    rankbook runs list --collection handbook --split test -n 10 --json
    """
    from core import bridge
    from evals.running import run_store
    from workbench.session import store

    found = bridge.run(run_store.listed(store(telling.say), collection=collection, split=split, most=most))
    if as_json:
        telling.as_json([_plain(each) for each in found])
        return
    if not found:
        telling.say("There is no run yet. Make some with: rankbook eval handbook bm25 vector")
        return
    columns = ("id", "name", "over", "scores", "p95 ms", "queries", "failed", "made", "pinned as")
    spare = ("queries", "p95 ms", "failed", "made", "pinned as")
    telling.table("Runs", columns, [_row(each) for each in found], right=spare[:3], spare=spare)


def _row(run: Summary) -> tuple[object, ...]:
    from workbench.behind.runs.shown import badge, means

    return (
        run.id[:SHOWN],
        f"{run.name}\n(deep)" if run.depth else run.name,
        f"{run.subject.collection} v{run.subject.version},\n{run.subject.split}",
        ",\n".join(f"{metric} {score:.3f} {badge(run, metric)}".strip() for metric, score in means(run).items()),
        f"{run.latency.p95:.1f}" if run.latency else "-",
        run.queries,
        run.failed,
        f"{run.made_at:%Y-%m-%d\n%H:%M}",
        ",\n".join(run.pins),
    )


def _plain(run: Summary) -> dict[str, Any]:
    from workbench.behind.runs.shown import means, subject

    return {
        "id": run.id,
        "name": run.name,
        "names": sorted(run.names),
        **subject(run.subject),
        "depth": run.depth,
        "queries": run.queries,
        "failed": run.failed,
        "made_at": run.made_at,
        "latency": run.latency,
        "variant": run.variant.to_data() if run.variant else None,
        "scores": means(run),
        "intervals": {
            name.removesuffix(" interval"): v for name, v in run.scores.items() if name.endswith(" interval")
        },
        "pins": run.pins,
    }


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
    as_json: telling.AsJson = False,
) -> None:
    """Show everything about a run: its variant, what it was made over and with, scores, times by stage, failures.

    \b
    rankbook runs show hybrid-retriever --collection handbook
    rankbook runs show main --query q001
    rankbook runs show main --worst 10
    """
    from core import bridge
    from evals.running import run_store
    from workbench.behind.runs.shown import badge, means, subject
    from workbench.session import store

    opened = store(telling.say)
    summary = bridge.run(run_store.find(opened, run, collection=collection))
    whole = bridge.run(run_store.load(opened, summary.id))
    found = _found(whole, query) if query is not None else []
    broken = _broken_down(opened, summary, metric, worst) if worst else {}
    if as_json:
        more = {**broken, "environment": whole.environment, "stages": whole.stage_latencies, "failures": whole.failures}
        telling.as_document({**_plain(summary), **more, "notes": whole.notes, "found": found})
        return
    facts = {
        **subject(summary.subject),
        "made": f"{summary.made_at:%Y-%m-%d %H:%M}",
        "asked for": f"{summary.depth} results, deep" if summary.depth else "as the variant ships",
        "pinned as": ", ".join(summary.pins),
        "evaluated also as": summary.other_names,
        **{each: f"{score:.4f} {badge(summary, each)}".strip() for each, score in means(summary).items()},
    }
    telling.table(f"{summary.name}, {summary.id[:SHOWN]}", ("", ""), list(facts.items()))
    _show_whole(whole)
    _show_broken_down(broken, metric)
    if found:
        rows = [(each["rank"], f"{each['score']:.4f}", each["id"]) for each in found[:TOP]]
        telling.table(f"Found for {query}", ("", "score", "id"), rows, right=("", "score"))


def _show_whole(run: Run) -> None:
    from evals.running.run_diff import flat
    from workbench.behind.runs.shown import stages

    if rows := stages(run):
        telling.table("Milliseconds", ("stage", "p50", "p95", "queries"), rows, right=("p50", "p95", "queries"))
    if run.failures:
        telling.table("Queries that failed", ("query", "why"), list(run.failures.items())[:TOP])
    made_with = {key: value for key, value in run.environment.items() if "indexes" not in key}
    telling.table("Made with", ("", ""), list(flat(made_with)))
    for note in run.notes:
        telling.say(f"Note: {note}")
    if run.variant is not None:
        typer.echo(telling.printable(run.variant.to_toml()), nl=False)


def _broken_down(store: Store, run: Summary, metric: str, most: int) -> dict[str, Any]:
    from core import bridge
    from workbench.behind.runs import shown as runs_shown

    board = bridge.run(runs_shown.board_of(store, run.id, [metric]))
    groups = runs_shown.by_group(board, board.metrics[0], "kind")
    return {
        "by kind": [{"kind": kind, "queries": count, "score": cell} for kind, count, cell in groups],
        "worst": runs_shown.worst(board, board.metrics[0], most),
    }


def _show_broken_down(broken: dict[str, Any], metric: str) -> None:
    from workbench.behind.runs.shown import interval, worst_rows

    if not broken:
        return
    rows = [
        (each["kind"] or "(none)", each["queries"], f"{each['score'].mean:.3f}", interval(each["score"]))
        for each in broken["by kind"]
    ]
    telling.table("By kind of query", ("kind", "queries", metric, "interval"), rows, right=("queries", metric))
    columns = ("id", "query", "kind", metric, "first relevant at")
    telling.table(
        "The queries it does worst on", columns, worst_rows(broken["worst"]), right=(metric, "first relevant at")
    )


def _found(run: Run, query: str) -> list[dict[str, Any]]:
    from difflib import get_close_matches

    from core.errors import UnknownName

    if query not in run.rankings:
        near = get_close_matches(query, run.rankings, n=NEAR, cutoff=0)
        raise UnknownName(
            f"query of {run.name!r}",
            query,
            near,
        )
    ranked = run.rankings[query]
    return [
        {"rank": rank, "score": score, "id": unit}
        for rank, (unit, score) in enumerate(zip(ranked.ids, ranked.scores, strict=True), 1)
    ]


@app.command()
def diff(
    one: Reference,
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The run to compare it with.")],
    collection: Collection = None,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Show how two runs differ: what they were made over, the variant's options, code, machine, scores, rankings.

    Whether one is better: rankbook compare

    \b
    rankbook runs diff main hybrid-retriever
    """
    from core import bridge
    from evals.running import run_store
    from evals.running.run_diff import differences
    from workbench.behind.runs.shown import means
    from workbench.session import store

    opened = store(telling.say)
    summaries = [bridge.run(run_store.find(opened, each, collection=collection)) for each in (one, other)]
    first, second = (bridge.run(run_store.load(opened, each.id)) for each in summaries)
    found = differences(first, second)
    scored = [means(each) for each in summaries]
    if as_json:
        runs = [_plain(each) for each in summaries]
        telling.as_document({"runs": runs, "differences": found.rows, "changed_queries": found.changed})
        return
    names = tuple(f"{each.name} {each.id[:SHOWN]}" for each in summaries)
    rows: list[tuple[str, ...]] = [(row.where, row.one, row.other) for row in found.rows]
    for metric in dict.fromkeys(key for each in scored for key in each):
        values = [f"{each[metric]:.4f}" if metric in each else "-" for each in scored]
        rows += [(metric, *values)] if values[0] != values[1] else []
    telling.table("What differs", ("", *names), rows)
    telling.say(
        f"{len(found.changed)} of {found.queries} queries have other first {TOP} results."
        if found.changed
        else f"All {found.queries} queries have the same first {TOP} results, in the same order."
    )
