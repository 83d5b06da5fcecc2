"""`rankbook backup` and `rankbook restore`: the store, or a collection of it, as one file, and back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from workbench.commands import output

if TYPE_CHECKING:
    from core.progress import Listener
    from core.store.engine import Store
    from evals.backup import RestoredLabels, RestoreReport, Saved
    from evals.backup.file_format import Folders

T = TypeVar("T")
File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup, such as monday.tar.")]
Collection = Annotated[str | None, typer.Option("--collection", "-c", help="Only this one.")]
CALLED = {
    "items": "documents",
    "query_sets": "query sets",
    "chunk_sets": "chunk sets",
    "embedding_sets": "embedding sets",
}
HIDDEN = {"collections", "chunk_sets", "embedding_sets", "query_sets"}


def backup(
    file: File,
    collection: Collection = None,
    outputs: Annotated[
        bool, typer.Option("--outputs", help="Include what notebooks' cells showed, which they can make again.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file of that name.")] = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Save everything that cannot be made again, as it is at this moment, in one file. Others can go on working.

    Labels and judgements come first in it; then runs, pins and votes; notebooks and kept variants; documents, chunks
    and vectors. Indexes are made again by `rankbook restore`, on whatever PostgreSQL that is. The file is there when
    it is whole and has been read back.

    \b
    rankbook backup monday.tar
    rankbook backup scifact.tar --collection scifact
    """
    from evals.backup import save_backup

    path, folders = file.expanduser(), _folders() if collection is None else None

    def work(store: Store, listener: Listener, token: asyncio.Event) -> Coroutine[Any, Any, Saved]:
        return save_backup(
            store,
            path,
            collection=collection,
            folders=folders,
            outputs=outputs,
            overwrite=overwrite,
            listener=listener,
            cancellation=token,
        )

    saved = _watched(work, "No backup was written.", quiet=as_json)
    if as_json:
        output.as_json(saved)
        return
    for name, rows in saved.rows.items():
        output.notice(f"{name}: {_counted(rows)}")
    if saved.files:
        output.notice(f"Notebooks and kept variants: {saved.files}")
    output.notice(
        f"Written and read back: {saved.path}, {saved.size / 2**20:,.1f} MiB. It holds your documents: keep it safe."
    )


def restore(
    file: File,
    collection: Collection = None,
    name: Annotated[str | None, typer.Option("--as", metavar="NAME", help="Under another name.")] = None,
    attach: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=TABLE",
            help="Attach this table, such as docs=public.docs: whoever may search the collection can then read it.",
        ),
    ] = None,
    labels_only: Annotated[
        bool,
        typer.Option(
            "--labels-only", help="Merge queries, labels and judgements into what is here; also of a damaged file."
        ),
    ] = False,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="First move the embedded server's data folder aside, of whatever version it is."),
    ] = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Bring back what `rankbook backup` saved. Nothing that is here is written over.

    The file is checked first, every part against its digest. Each collection comes back as a whole or not at all; run
    again after an interruption, the command restores the rest. With --labels-only, what is here stays: new queries and
    labels are added, of two grades by one judge the newer holds, and you are told what was left out. A file attaches
    nobody's table by itself: of an attached collection labels and runs come back, and --attach names its table.

    \b
    rankbook restore monday.tar
    rankbook restore monday.tar --collection scifact --as scifact-monday
    rankbook restore monday.tar --collection scifact --labels-only
    rankbook restore monday.tar --attach docs=public.docs
    rankbook restore --fresh monday.tar        after an upgrade to a new major version of PostgreSQL
    """
    from core.errors import SpecError
    from evals.backup import read_manifest

    path = file.expanduser()
    read_manifest(path)  # before a server is started for it
    if fresh:
        _make_room(path, collection, name, labels_only=labels_only, quiet=as_json)
    tables = tables_by_collection(attach or [])
    if labels_only:
        if tables:
            raise SpecError("--labels-only attaches no table: leave --attach out.")
        _merge(path, collection, name, as_json=as_json)
        return
    from evals.backup import restore_backup as restored

    folders = _folders()

    def work(store: Store, listener: Listener, token: asyncio.Event) -> Coroutine[Any, Any, RestoreReport]:
        return restored(
            store,
            path,
            collection=collection,
            name=name,
            tables=tables,
            folders=folders,
            listener=listener,
            cancellation=token,
        )

    done = _watched(work, "Nothing is half restored; run it again for the rest.", quiet=as_json)
    if as_json:
        output.as_json(done)
    else:
        _tell(done)


def tables_by_collection(given: Sequence[str]) -> dict[str, str]:
    """`docs=public.docs`, each: a collection, and the table that it is attached to."""
    from core.errors import SpecError
    from core.store.attached import relation_name

    tables = {}
    for each in given:
        name, equals, table = each.partition("=")
        if not (name and equals):
            raise SpecError(f"{each!r} names no collection and table. Write NAME=TABLE, such as docs=public.docs.")
        relation_name(table)  # refuses what names no table
        tables[name] = table
    return tables


def _merge(path: Path, collection: str | None, name: str | None, *, as_json: bool) -> None:
    from evals.backup import restore_labels

    def work(store: Store, listener: Listener, token: asyncio.Event) -> Coroutine[Any, Any, list[RestoredLabels]]:
        return restore_labels(store, path, collection=collection, name=name, listener=listener, cancellation=token)

    done = _watched(work, "Each collection has all of its labels from the file, or none yet.", quiet=as_json)
    if as_json:
        output.as_json(done)
        return
    for each in done:
        _tell_merged(each)


def _make_room(path: Path, collection: str | None, name: str | None, *, labels_only: bool, quiet: bool) -> None:
    """Only for a file that is whole: what is moved aside is missed from then on."""
    import os

    from core.errors import SpecError
    from core.home import home
    from core.store.server import installation
    from evals.backup import check

    if collection or name or labels_only:
        raise SpecError("--fresh begins an empty store, for all of a backup: leave the other options out.")
    if os.environ.get("RANKBOOK_DSN"):
        raise SpecError(
            "--fresh is for the embedded server, and RANKBOOK_DSN names another. Unset it, or leave --fresh out."
        )
    with output.progress(quiet=quiet) as listener:
        manifest = check(path, listener)
    if not manifest.whole:
        kept = ", ".join(each.name for each in manifest.collections)
        raise SpecError(f"This backup holds {kept} alone, and --fresh would put everything else aside. Leave it out.")
    for folder in installation.move_aside(home() / "postgres"):
        output.notice(f"The old data folder is {folder} now. Delete it once nothing is missing.")


def _watched(
    work: Callable[[Store, Listener, asyncio.Event], Coroutine[Any, Any, T]], stopped: str, *, quiet: bool
) -> T:
    """The result, with progress. Stopped, the work has undone what was not whole, and this is said."""
    from core.errors import Cancelled
    from workbench.commands.runtime import STOPPED, stoppable
    from workbench.session import store

    opened = store(output.notice)
    with output.progress(quiet=quiet) as listener:

        async def tried(token: asyncio.Event) -> T | None:
            try:
                return await work(opened, listener, token)
            except Cancelled:
                if not token.is_set():
                    raise
                return None

        done = stoppable(tried)
    if done is None:
        output.notice(f"Stopped. {stopped}")
        raise typer.Exit(STOPPED)
    return done


def _folders() -> Folders:
    from evals.variants import folder
    from workbench.notebooks.files import shelf

    return {"notebooks": shelf().folder, "variants": folder()}


def _tell(done: RestoreReport) -> None:
    for back in done.collections:
        output.notice(
            f"{back.name}: {_counted({**back.rows, **back.merged.added, **back.results}) or 'nothing but its name'}"
        )
        for what, count in back.left.items():
            if count:
                output.notice(f"  {count:,} {CALLED.get(what, what)} are here already, and were left as they are")
        if back.note:
            output.notice(f"  {back.note}")
    for name in done.there:
        output.notice(f"{name}: is here already, and was left as it is")
    if done.there:
        output.notice("--labels-only brings back their labels and judgements.")
    for path in done.files:
        output.notice(f"Put back: {path}")
    output.notice("Restored." if done.collections or done.files else "There was nothing to restore.")


def _tell_merged(merged: RestoredLabels) -> None:
    output.notice(f"{merged.name}: {_counted(merged.added) or 'nothing was new'}")
    for why, count in merged.left.items():
        if count:
            output.notice(f"  left out: {count:,} {why}")
    if merged.note:
        output.notice(f"  {merged.note}")


def _counted(rows: Mapping[str, int]) -> str:
    """Tables of one kind together, in plain words."""
    sums: dict[str, int] = {}
    for table, count in rows.items():
        if count and table not in HIDDEN:
            what = CALLED.get(table, table.rstrip("0123456789").rstrip("_"))
            sums[what] = sums.get(what, 0) + count
    return ", ".join(f"{count:,} {what}" for what, count in sums.items())
