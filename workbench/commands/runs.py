"""`rankbook runs`: what was evaluated and is kept, listed, shown and told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import keeping, telling
from workbench.commands.keeping import SHOWN, Collection, Reference

if TYPE_CHECKING:
    from evals.running.run_store import Summary
    from evals.runs import Run

app = typer.Typer(no_args_is_help=True, help="Kept runs: list, show, diff, export, pin, prune, delete.")

app.command()(keeping.export)
app.command()(keeping.pin)
app.command()(keeping.unpin)
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
    """The kept runs, newest first, with their scores.

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
    telling.table("Runs", columns, [_row(each) for each in found], right=("p95 ms", "queries", "failed"))


def _row(run: Summary) -> tuple[object, ...]:
    about = "" if run.latency is None or run.latency.live else "~"
    return (
        run.id[:SHOWN],
        run.name,
        f"{run.subject.collection} v{run.subject.version}, {run.subject.split}",
        ", ".join(f"{metric} {score:.3f}" for metric, score in _means(run).items()),
        f"{about}{run.latency.p95:.1f}" if run.latency else "-",
        run.queries,
        run.failed,
        f"{run.made_at:%Y-%m-%d %H:%M}",
        ", ".join(run.pins),
    )


def _means(run: Summary) -> dict[str, float]:
    """Beside them stand intervals and the scores by query, under names with a blank."""
    return {name: value for name, value in run.scores.items() if " " not in name and isinstance(value, int | float)}


def _plain(run: Summary) -> dict[str, Any]:
    return {
        "id": run.id,
        "name": run.name,
        **_subject(run),
        "depth": run.depth,
        "queries": run.queries,
        "failed": run.failed,
        "made_at": run.made_at,
        "latency": run.latency,
        "variant": run.variant.to_data() if run.variant else None,
        "scores": _means(run),
        "intervals": {
            name.removesuffix(" interval"): v for name, v in run.scores.items() if name.endswith(" interval")
        },
        "pins": run.pins,
    }


def _subject(run: Summary | Run) -> dict[str, Any]:
    of = run.subject
    return {
        "collection": of.collection,
        "version": of.version,
        "content": of.content,
        "query_set": of.query_set,
        "queries_and_labels": of.digest.hex(),
        "split": of.split,
    }


@app.command()
def show(
    run: Reference,
    collection: Collection = None,
    query: Annotated[str | None, typer.Option(help="Show what it found for the query of this id, too.")] = None,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Everything about a run: its variant, what it was made over and with, scores, times by stage, failures.

    \b
    rankbook runs show hybrid-retriever --collection handbook
    rankbook runs show main --query q17
    """
    from core import bridge
    from evals.running import run_store
    from workbench.session import store

    opened = store(telling.say)
    summary = bridge.run(run_store.find(opened, run, collection=collection))
    whole = bridge.run(run_store.load(opened, summary.id))
    found = _found(whole, query) if query is not None else []
    if as_json:
        more = {"environment": whole.environment, "stages": whole.stage_latencies, "failures": whole.failures}
        telling.as_json({**_plain(summary), **more, "notes": whole.notes, "found": found})
        return
    facts = {
        **_subject(summary),
        "made": f"{summary.made_at:%Y-%m-%d %H:%M}",
        "asked for": f"{summary.depth} results" if summary.depth else "as the variant ships",
        "pinned as": ", ".join(summary.pins),
        **{metric: f"{score:.4f}" for metric, score in _means(summary).items()},
    }
    telling.table(f"{summary.name}, {summary.id[:SHOWN]}", ("", ""), list(facts.items()))
    _show_whole(whole)
    if found:
        rows = [(each["rank"], f"{each['score']:.4f}", each["id"]) for each in found[:TOP]]
        telling.table(f"Found for {query}", ("", "score", "id"), rows, right=("", "score"))


def _show_whole(run: Run) -> None:
    times = {"whole search": run.latency} if run.latency else {}
    rows = [
        (stage, f"{each.p50:.1f}", f"{each.p95:.1f}", each.queries, "one by one" if each.live else "estimated")
        for stage, each in (times | run.stage_latencies).items()
    ]
    if rows:
        telling.table("Milliseconds", ("stage", "p50", "p95", "queries", "how"), rows, right=("p50", "p95", "queries"))
    if run.failures:
        telling.table("Queries that failed", ("query", "why"), list(run.failures.items())[:TOP])
    telling.table("Made with", ("", ""), [(key, value) for key, value in run.environment.items() if key != "indexes"])
    for note in run.notes:
        telling.say(f"Note: {note}")
    if run.variant is not None:
        typer.echo(telling.printable(run.variant.to_toml()), nl=False)


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
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The run that it is held against.")],
    collection: Collection = None,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """In what two runs differ: what they were made over, the variant's options, code, machine, scores, rankings.

    Whether one is better: rankbook compare

    \b
    rankbook runs diff main hybrid-retriever
    """
    from core import bridge
    from evals.running import run_store
    from evals.running.run_diff import differences
    from workbench.session import store

    opened = store(telling.say)
    summaries = [bridge.run(run_store.find(opened, each, collection=collection)) for each in (one, other)]
    first, second = (bridge.run(run_store.load(opened, each.id)) for each in summaries)
    found = differences(first, second)
    scored = [_means(each) for each in summaries]
    if as_json:
        runs = [_plain(each) for each in summaries]
        telling.as_json({"runs": runs, "differences": found.rows, "changed_queries": found.changed})
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
