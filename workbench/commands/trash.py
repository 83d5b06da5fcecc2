"""`rankbook trash`: what was deleted, brought back or destroyed; and how commands that delete say where it went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import output

if TYPE_CHECKING:
    from core.store.trash_entries import TrashEntry

HELP = "The trash: list what was deleted, bring it back, empty it. Without a command, lists it."
app = typer.Typer(help=HELP)
FIELDS = ("id", "kind", "name", "collection", "count", "bytes", "deleted_at", "deleted_by", "until")


@app.callback(invoke_without_command=True)
def trash(context: typer.Context, *, as_json: output.AsJson = False) -> None:
    """The trash: list what was deleted, bring it back, empty it. Without a command, lists it.

    \b
    rankbook trash
    rankbook trash restore 3f9a1c2b
    rankbook trash empty --older-than 7
    """
    if context.invoked_subcommand is None:
        _list(as_json=as_json)


@app.command("list")
def list_entries(*, as_json: output.AsJson = False) -> None:
    """List what was deleted and can be brought back, newest first: how large it is, who deleted it, until when.

    Example: rankbook trash list --json | jq '.[].id'
    """
    _list(as_json=as_json)


def _list(*, as_json: bool) -> None:
    from core import bridge
    from core.store.trash_entries import day
    from evals import trash as deleted
    from workbench.services.collections import told_bytes
    from workbench.session import store

    opened = store(output.notice)
    say_expired(bridge.run(deleted.expire(opened)))
    entries = bridge.run(deleted.listed(opened))
    if as_json:
        output.as_json([plain(each) for each in entries])
        return
    if not entries:
        output.notice("The trash is empty.")
        return
    columns = ("id", "kind", "name", "collection", "size", "deleted", "by", "until")
    rows = [
        (
            each.id,
            each.kind,
            each.name or each.title,
            each.collection,
            told_bytes(each.bytes),
            f"{each.deleted_at:%Y-%m-%d %H:%M}",
            each.deleted_by,
            day(each.until),
        )
        for each in entries
    ]
    output.table("Trash", columns, rows, right=("size",))
    output.notice(
        f"{told_bytes(sum(each.bytes for each in entries))} on disk. Bring one back: rankbook trash restore ID. Free "
        "the room: rankbook trash empty"
    )


@app.command()
def restore(
    reference: Annotated[str, typer.Argument(metavar="ID", help="Its id in the trash, or its name.")],
    name: Annotated[str | None, typer.Option("--as", help="Another name, where the old one is taken.")] = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Bring back what was deleted. Where its name is taken, under another one.

    \b
    rankbook trash restore 3f9a1c2b
    rankbook trash restore handbook --as handbook-before
    """
    from core import bridge
    from evals import trash as deleted
    from workbench.session import store

    opened = store(output.notice)
    say_expired(bridge.run(deleted.expire(opened)))
    restored = bridge.run(deleted.restore(opened, reference, name=name))
    value = {**plain(restored.entry), "restored": True, "name": restored.name, "note": restored.note}
    output.done(value, restored.sentence(), json=as_json)


@app.command()
def empty(
    older_than: Annotated[
        int | None, typer.Option(min=0, max=36_500, help="Only what was deleted more than so many days ago.")
    ] = (None),
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Destroy what lies in the trash. Asks first: after that nothing brings it back.

    \b
    rankbook trash empty
    rankbook trash empty --older-than 7 --yes
    """
    from datetime import timedelta

    from core import bridge
    from evals import trash as deleted
    from workbench.services.collections import told_bytes
    from workbench.session import store

    opened = store(output.notice)
    if not yes:
        which = f"everything deleted more than {older_than} days ago" if older_than is not None else "all of it"
        typer.confirm(f"Empty the trash for good, {which}?", abort=True, err=True)
    limit = timedelta(days=older_than) if older_than is not None else None
    destroyed = bridge.run(deleted.empty(opened, older_than=limit))
    sentence = f"{len(destroyed):,} destroyed, {told_bytes(sum(each.bytes for each in destroyed))} freed."
    output.done({"destroyed": [plain(each) for each in destroyed]}, sentence, json=as_json)


def plain(entry: TrashEntry) -> dict[str, Any]:
    """An entry as scripts read it."""
    return {name: getattr(entry, name) for name in FIELDS}


# -- after a deletion --------------------------------------------------------------------------------------------------


def say_deleted(value: Mapping[str, Any], sentence: str, entries: Sequence[TrashEntry], *, json: bool) -> None:
    """What a command deleted, until when it can be brought back, and how. What has lain there for its time goes."""
    from core import bridge
    from core.store.trash_entries import day
    from evals import trash as deleted
    from evals import variants
    from workbench.session import store

    if len(entries) == 1:
        sentence = f"{sentence} {entries[0].sentence()}"
    elif entries:
        ways = (f"{each.title}: {each.way_back}" for each in entries)
        sentence = "\n".join([f"{sentence} In the trash until {day(entries[0].until)}; bring them back:", *ways])
    output.done({**value, "trash": [plain(each) for each in entries]}, sentence, json=json)
    files_alone = {each.kind for each in entries} == {"variant"}  # no server is started for them
    say_expired(variants.expire() if files_alone else bridge.run(deleted.expire(store())))


def say_expired(expired: Sequence[TrashEntry]) -> None:
    """What was destroyed because its time is over."""
    if expired:
        named = ", ".join(each.title for each in expired)
        output.notice(f"Their time in the trash is over, and they are gone for good: {named}.")
