"""`rankbook backup` and `rankbook restore`: the store, or a collection of it, as one file, and back."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import output, runtime

if TYPE_CHECKING:
    from evals.backup import RestoreReport
    from evals.backup.file_format import Folders

File = Annotated[Path, typer.Argument(metavar="FILE", help="The backup, such as monday.tar.")]
Collection = Annotated[str | None, typer.Option("--collection", "-c", help="Only this one.")]
PLURALS = {
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

    folders = _folders() if collection is None else None
    store = runtime.open_store()
    with output.progress(quiet=as_json) as listener:
        saved = runtime.run_stoppable(
            lambda token: save_backup(
                store,
                file.expanduser(),
                collection=collection,
                folders=folders,
                outputs=outputs,
                overwrite=overwrite,
                listener=listener,
                cancellation=token,
            ),
            "No backup was written.",
        )
    if as_json:
        output.print_json(saved)
        return
    for name, rows in saved.rows.items():
        output.notice(f"{name}: {_counts(rows)}")
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
    from evals.backup import read_manifest, restore_backup, restore_labels

    path = file.expanduser()
    read_manifest(path)  # before a server is started for it
    if fresh:
        if collection or name or labels_only:
            raise SpecError("--fresh begins an empty store, for all of a backup: leave the other options out.")
        _move_data_aside(path, quiet=as_json)
    tables = runtime.tables_by_collection(attach or [])
    if labels_only and tables:
        raise SpecError("--labels-only attaches no table: leave --attach out.")
    only: dict[str, Any] = {"collection": collection, "name": name}
    folders, store = _folders(), runtime.open_store()
    with output.progress(quiet=as_json) as listener:
        if labels_only:
            merged = runtime.run_stoppable(
                lambda token: restore_labels(store, path, **only, listener=listener, cancellation=token),
                "Each collection has all of its labels from the file, or none yet.",
            )
        else:
            report = runtime.run_stoppable(
                lambda token: restore_backup(
                    store, path, **only, tables=tables, folders=folders, listener=listener, cancellation=token
                ),
                "Nothing is half restored; run it again for the rest.",
            )
    if as_json:
        output.print_json(merged if labels_only else report)
    elif labels_only:
        for each in merged:
            output.notice(f"{each.name}: {_counts(each.added) or 'nothing was new'}")
            _show_skipped(each.left, "  left out: {count:,} {what}", each.note)
    else:
        _show_report(report)


def _move_data_aside(path: Path, *, quiet: bool) -> None:
    """Only for a backup that is whole: nobody sees what is moved aside from then on."""
    import os

    from core.errors import SpecError
    from core.home import home
    from core.store.server import installation
    from evals.backup import check

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


def _folders() -> Folders:
    from evals.variants import folder
    from workbench.notebooks.files import own_folder

    return {"notebooks": own_folder().folder, "variants": folder()}


def _show_report(report: RestoreReport) -> None:
    for each in report.collections:
        counts = _counts({**each.rows, **each.merged.added, **each.results})
        output.notice(f"{each.name}: {counts or 'nothing but its name'}")
        _show_skipped(each.left, "  {count:,} {what} are here already, and were left as they are", each.note)
    for name in report.there:
        output.notice(f"{name}: is here already, and was left as it is")
    if report.there:
        output.notice("--labels-only brings back their labels and judgements.")
    for path in report.files:
        output.notice(f"Put back: {path}")
    output.notice("Restored." if report.collections or report.files else "There was nothing to restore.")


def _show_skipped(skipped: Mapping[str, int], sentence: str, note: str) -> None:
    """What was not restored, and how many of each."""
    for what, count in skipped.items():
        if count:
            output.notice(sentence.format(count=count, what=PLURALS.get(what, what)))
    if note:
        output.notice(f"  {note}")


def _counts(rows: Mapping[str, int]) -> str:
    """How many rows, tables of one kind together, in plain words."""
    sums: dict[str, int] = {}
    for table, count in rows.items():
        if count and table not in HIDDEN:
            what = PLURALS.get(table, table.rstrip("0123456789").rstrip("_"))
            sums[what] = sums.get(what, 0) + count
    return ", ".join(f"{count:,} {what}" for what, count in sums.items())
