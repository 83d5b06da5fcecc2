"""Kept runs handed over, pinned as baselines, cleared away: the part of `rankbook runs` that does something."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from workbench.commands import meant, telling, trash

Reference = Annotated[str, typer.Argument(metavar="RUN", help="Its name, a pin, or the beginning of its id.")]
Collection = Annotated[
    str | None, typer.Option("--collection", "-c", help="Only of this collection; tells equal names apart.")
]
SHOWN = 12  # characters of an id


def export(
    run: Reference,
    file: Annotated[
        Path, typer.Argument(help="By its ending: .csv, .tsv, .jsonl, .parquet; TREC's: .trec, .run, .txt.")
    ],
    collection: Collection = None,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Write a run's rankings to a file, for trec_eval, ranx, or another engine's notebook.

    \b
    rankbook runs export main main.trec
    rankbook runs export hybrid-retriever ranked.parquet --collection handbook
    """
    from core import bridge
    from evals import exchange
    from evals.running import run_store
    from workbench.session import store

    found = bridge.run(run_store.load(store(telling.say), run, collection=collection))
    exchange.write_run(found, file.expanduser())
    plain = {"run": found.id, "file": str(file), "queries": len(found.rankings)}
    telling.done(plain, f"{found.name}, {len(found.rankings)} queries, is in {file}.", json=as_json)


def report(
    run: Reference,
    file: Annotated[Path, typer.Argument(help="The .html file; it opens offline.")],
    against: Annotated[str | None, typer.Option(help="Another kept run to compare it with.")] = None,
    metric: meant.Metrics = None,
    collection: Collection = None,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Write a report of a kept run, or of one against another: scores, kinds of query, what each query found.

    \b
    rankbook runs report main main.html
    rankbook runs report hybrid-retriever better.html --against main --metric mrr@10
    """
    from core import atomic_files, bridge
    from evals.board import METRICS
    from evals.running import run_store
    from workbench.behind.runs.shown import page_of
    from workbench.commands.reports import check_endings
    from workbench.session import store

    check_endings(file)
    opened = store(telling.say)
    found = bridge.run(run_store.find(opened, run, collection=collection))
    other = bridge.run(run_store.find(opened, against, collection=collection)).id if against else None
    page = bridge.run(page_of(opened, found.id, metric or METRICS, other))
    atomic_files.write_whole(file.expanduser(), page)
    telling.done({"run": found.id, "against": other, "file": str(file)}, f"Written: {file}", json=as_json)


def pin(
    run: Reference,
    name: Annotated[str, typer.Argument(help="The baseline's name, such as main.")],
    collection: Collection = None,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Pin a run as a baseline under a name: it is never pruned, and gates and comparisons find it by that name.

    For a suite of several collections pin one run of each, as NAME@COLLECTION.

    \b
    rankbook runs pin hybrid-retriever main --collection handbook
    rankbook runs pin 3f9a1c2b main@scifact
    """
    from core import bridge
    from evals.running import run_store
    from workbench.session import store

    opened = store(telling.say)
    found = bridge.run(run_store.find(opened, run, collection=collection))
    bridge.run(run_store.pin(opened, found.id, name))
    telling.done({"run": found.id, "pin": name}, f"{found.name} ({found.id[:SHOWN]}) is now {name!r}.", json=as_json)


def unpin(
    name: Annotated[str, typer.Argument(help="The baseline's name.")], *, as_json: telling.AsJson = False
) -> None:
    """Remove a baseline's name. The run stays.

    Example: rankbook runs unpin main
    """
    from core import bridge
    from evals.running import run_store
    from workbench.session import store

    bridge.run(run_store.unpin(store(telling.say), name))
    telling.done({"pin": name, "gone": True}, f"{name!r} is no baseline any more.", json=as_json)


def aside(
    run: Reference,
    collection: Collection = None,
    back: Annotated[bool, typer.Option("--back", help="Make it a candidate again.")] = False,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Set a run's set-up aside: verdicts over these queries look at it no more, and say how many were set aside.

    \b
    rankbook runs aside bm25 --collection handbook
    rankbook runs aside bm25 --collection handbook --back
    """
    from core import bridge
    from evals.running import candidates, run_store
    from workbench.session import store

    opened = store(telling.say)
    found = bridge.run(run_store.load(opened, run, collection=collection))
    bridge.run(candidates.set_aside(opened, found, back=back))
    of = f"{found.name} over {found.subject.split!r} of {found.subject.collection!r}"
    said = f"{of} is a candidate again." if back else f"{of} is set aside."
    telling.done({"run": found.id, "set_aside": not back}, said, json=as_json)


def prune(
    keep: Annotated[int, typer.Option(min=0, help="How many of the newest of each name to keep, per split.")] = 1,
    older_than: Annotated[int | None, typer.Option(min=0, help="Only runs that are older than this many days.")] = None,
    collection: Collection = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Delete old runs, except the newest of each name: into the trash. Asks first. Pinned runs stay.

    \b
    rankbook runs prune --keep 3
    rankbook runs prune --older-than 30 --collection handbook --yes
    """
    from datetime import UTC, datetime, timedelta

    from core import bridge
    from evals.running import run_store
    from workbench.session import person, store

    opened = store(telling.say)
    if not yes:
        typer.confirm(f"Delete all but the newest {keep} of each name?", abort=True, err=True)
    before = datetime.now(UTC) - timedelta(days=older_than) if older_than is not None else None
    entries = bridge.run(run_store.prune(opened, keep=keep, before=before, collection=collection, by=person()))
    count = sum(each.count for each in entries)
    trash.say_deleted({"deleted": count}, f"{count} runs deleted.", entries, json=as_json)


def delete(
    run: Reference,
    collection: Collection = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Delete one run: into the trash. Asks first. A pinned run is refused: unpin it first.

    Example: rankbook runs delete 3f9a1c2b --yes
    """
    from core import bridge
    from evals.running import run_store
    from workbench.session import person, store

    opened = store(telling.say)
    found = bridge.run(run_store.find(opened, run, collection=collection))
    if not yes:
        typer.confirm(f"Delete {telling.printable(found.name)!r} ({found.id[:SHOWN]})?", abort=True, err=True)
    entry = bridge.run(run_store.remove(opened, found.id, by=person()))
    sentence = f"{found.name} ({found.id[:SHOWN]}) is gone."
    trash.say_deleted({"run": found.id, "deleted": True}, sentence, [entry], json=as_json)
