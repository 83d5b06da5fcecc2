"""`rankbook data attach`: somebody's table as a collection, read and never altered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import telling

if TYPE_CHECKING:
    from core.store.attached import AttachedTable
    from core.store.collections import View
    from evals.library import Added

Name = Annotated[str, typer.Argument(help="The name the collection will have here.")]


def attach(  # noqa: PLR0913, PLR0917 - a flag each
    name: Name,
    table: Annotated[
        str, typer.Option(help="The table or view, such as public.docs; with --like, what that asks for.")
    ],
    like: Annotated[str | None, typer.Option(help="langchain, llamaindex or haystack: fills the mapping in.")] = None,
    identifier: Annotated[str | None, typer.Option("--id", help="The column that identifies a row.")] = None,
    text: Annotated[str | None, typer.Option(help="The column with the text.")] = None,
    title: Annotated[str | None, typer.Option(help="The column with a title.")] = None,
    embedding: Annotated[str | None, typer.Option(help="The vector or halfvec column.")] = None,
    model: Annotated[str | None, typer.Option(help="The model that made the embeddings.")] = None,
    tsv: Annotated[str | None, typer.Option(help="A tsvector column.")] = None,
    metadata: Annotated[list[str] | None, typer.Option(help="A JSON column, or several plain columns.")] = None,
    where: Annotated[list[str] | None, typer.Option(help="Only rows with COLUMN=VALUE.")] = None,
    language: Annotated[str, typer.Option(help="The text-search configuration.")] = "english",
    labels: Annotated[str | None, typer.Option(help="A source of queries and labels for it.")] = None,
    aside: Annotated[
        bool, typer.Option("--aside", help="Build lexemes, postings and vocabulary in our own schema.")
    ] = (False),
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Search a table or view that exists on the server of RANKBOOK_DSN. It is read, and never altered.

    For --like langchain, --table names the collection; for llamaindex and haystack the table.
    Indexes that would help are shown as statements to copy, not run.

    \b
    rankbook data attach docs --table public.docs --id id --text body --embedding emb --model all-MiniLM-L6-v2
    rankbook data attach faq --table faq --id nr --text answer --metadata product --metadata lang --aside
    rankbook data attach kb --like langchain --table my_collection --model openai:text-embedding-3-small
    """
    from core import bridge
    from core.store import attached
    from workbench.session import store

    opened = store(telling.say)
    mapping = {
        "id": identifier,
        "text": text,
        "title": title,
        "embedding": embedding,
        "model": model,
        "tsv": tsv,
        "metadata": _metadata(metadata or []),
        "where": _conditions(where or []),
        "language": language,
    }
    given = {key: value for key, value in mapping.items() if value not in (None, {}, ())}
    made = bridge.run(_like(like, table, given)) if like else _mapped(table, given)
    view = bridge.run(attached.attach(opened, name, made))
    if aside:
        view = _build_aside(view, quiet=as_json)
    added = _labelled(view, labels) if labels else None
    advice = bridge.run(attached.advice(opened, view))
    if as_json:
        telling.as_json({"name": name, "table": made.full_name, "advice": advice, "labels": added})
        return
    if added:
        _tell_labels(added)
    telling.say(f"{name} is attached to {made.full_name}.")
    for each in advice:
        telling.say(f"\n{each.subject}: {each.why}")
        if each.statement:
            telling.say(f"    {each.statement}")


def _mapped(table: str, given: dict[str, Any]) -> AttachedTable:
    from core.store import attached

    namespace, relation = attached.relation_name(table)
    made = attached.mapped(table=relation, namespace=namespace, **given)
    return _with_plain_metadata(made) if isinstance(made.metadata, str) else made


def _with_plain_metadata(made: AttachedTable) -> AttachedTable:
    """A single column of metadata may be JSON, or a plain one like those of a longer list: the table decides."""
    from core import bridge
    from core.errors import SpecError
    from core.store import attached
    from workbench.session import store

    try:
        bridge.run(attached.inspect(store(), made))
    except SpecError:
        return made.model_copy(update={"metadata": (made.metadata,)})
    return made


async def _like(library: str, which: str, given: dict[str, Any]) -> AttachedTable:
    """What that library's tables look like; what was given besides stands over it."""
    from core.errors import SpecError
    from core.store import attached
    from workbench.session import store

    model, language = given.pop("model", None), given.pop("language", "english")
    if model is None:
        raise SpecError("Queries are embedded with the model that made the vectors. Name it with --model.")
    found = await attached.like(library, store(), which, model, language=language)
    return attached.mapped(**{**found.model_dump(), **given})


def _metadata(columns: list[str]) -> str | tuple[str, ...] | None:
    return None if not columns else columns[0] if len(columns) == 1 else tuple(columns)


def _conditions(conditions: list[str]) -> dict[str, str]:
    from core.errors import SpecError

    made = {}
    for condition in conditions:
        column, equals, value = condition.partition("=")
        if not equals:
            raise SpecError(f"The condition {condition!r} is not of the form COLUMN=VALUE.")
        made[column] = value
    return made


def _build_aside(view: View, *, quiet: bool) -> View:
    from core import bridge
    from core.store import attached
    from workbench.session import store

    with telling.progress(quiet=quiet) as listener:
        return bridge.run(attached.build_aside(store(), view, listener))


def _labelled(view: View, origin: str) -> Added:
    from core import bridge
    from evals import library
    from evals.sources import guess
    from workbench.session import store

    return bridge.run(library.label(store(), view, guess(origin)))


def _tell_labels(added: Added) -> None:
    telling.flaws(added.flaws, len(added.flaws))
    telling.say(f"{added.name}: {added.queries:,} queries, {added.labels:,} labels.")


def aside(
    name: Name,
    drop: Annotated[bool, typer.Option("--drop", help="Remove what was built aside.")] = False,
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Build lexemes, postings and vocabulary of an attached table in our own schema; again after its rows changed.

    Example: rankbook data aside docs
    """
    from core import bridge
    from core.store import attached, collections
    from workbench.session import store

    view = bridge.run(collections.get(store(telling.say), name))
    if drop:
        bridge.run(attached.drop_aside(store(), view))
        telling.done({"name": name, "aside": False}, f"{name} has nothing aside any more.", json=as_json)
        return
    _build_aside(view, quiet=as_json)
    sentence = f"{name} has its lexemes, postings and vocabulary aside."
    telling.done({"name": name, "aside": True}, sentence, json=as_json)


def label(
    name: Annotated[str, typer.Argument(help="The collection's name.")],
    origin: Annotated[str, typer.Argument(metavar="FROM", help="A source that has queries and labels.")],
    *,
    as_json: telling.AsJson = False,
) -> None:
    """Put queries and labels from files in the place of those a collection has.

    Example: rankbook data label docs ./beir-folder
    """
    from core import bridge
    from core.store import collections
    from workbench.session import store

    added = _labelled(bridge.run(collections.get(store(telling.say), name)), origin)
    telling.as_json(added) if as_json else _tell_labels(added)
