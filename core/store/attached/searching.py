"""The level that legs search in an attached table: its own columns, and what was built aside. Looks nothing up."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import Select, select

from core.store.attached.mapping import AttachedTable, Attachment
from core.store.attached.reading import Theirs
from core.store.attached.staleness import stale
from core.store.collections import View
from core.store.engine import Store
from core.store.levels import Column, Level, Postings
from core.store.schema import lexeme_table, posting_table


def level(store: Store, view: View, model: str | None = None) -> Level:
    """The attached rows as units of search. A model that is not theirs leaves the vectors out."""
    attachment = Attachment.of(view)
    theirs = Theirs(attachment.table, attachment.facts)
    missing = _missing_postings(view, attachment)
    if "unaccent" in store.capabilities.missing:
        missing["unaccent"] = store.capabilities.missing["unaccent"]
    columns: dict[str, Column] = {"lexemes": _lexemes(theirs, attachment)}
    if "pg_trgm" in store.capabilities.missing:
        missing["text"] = store.capabilities.missing["pg_trgm"]
    else:
        columns["text"] = Column(theirs.relation, theirs.id, theirs.text, theirs.where)
    if why := _no_vectors(store, view, theirs.mapping, model):
        missing["vectors"] = why
    else:
        columns["vectors"] = Column(theirs.relation, theirs.id, theirs.vectors, theirs.has_vector)
    lag = partial(stale, view.name, attachment, distributed=store.capabilities.distributed)
    return Level(
        view.namespace,
        theirs.mapping.language,
        columns,
        missing,
        theirs.details(),
        theirs.id,
        None if why else theirs.mapping.model,
        theirs.among,
        lexicon=_lexicon(theirs, attachment),
        extensions=frozenset(store.capabilities.extensions),
        sorts_on=store.capabilities.sorts_on,
        field_of=theirs.field,
        lag=lag if attachment.aside is not None else None,
    )


def documents(view: View) -> Level:
    """Whole documents by their ids, each of one row or of several. There is nothing to search in them."""
    attachment = Attachment.of(view)
    theirs = Theirs(attachment.table, attachment.facts)
    return Level(
        view.namespace,
        theirs.mapping.language,
        {},
        {},
        theirs.documents(),
        theirs.document,
        among=theirs.parts_of,
        field_of=theirs.field,
    )


def parts_of(view: View, documents: Sequence[str]) -> Select[Any]:
    """The details of the rows of these documents, in the order in which they make up its text."""
    attachment = Attachment.of(view)
    return Theirs(attachment.table, attachment.facts).parts(documents)


def _lexicon(theirs: Theirs, attachment: Attachment) -> Postings | None:
    """What was built aside holds keys of our own, and the ids of theirs only beside the lexemes."""
    if attachment.aside is None:
        return None
    lexemes, postings = lexeme_table(0), posting_table(0)
    among = theirs.aside(lexemes)
    return Postings.of(0, lambda condition: postings.c.key.in_(select(lexemes.c.key).where(among(condition))))


def _lexemes(theirs: Theirs, attachment: Attachment) -> Column:
    """What was built aside, where it was: it holds titles too, and is smaller to scan than an expression."""
    if attachment.aside is None:
        return Column(theirs.relation, theirs.id, theirs.lexemes, theirs.where)
    lexemes = lexeme_table(0)
    return Column(lexemes, lexemes.c.id, lexemes.c.tsv, narrowing=theirs.aside(lexemes))


def _missing_postings(view: View, attachment: Attachment) -> dict[str, str]:
    if attachment.aside is not None:
        return {}
    why = (
        f"{view.name!r} is an attached table, and has no {{}} of Rankbook's own yet. Build it aside, without "
        f"touching the table: rankbook data aside {view.name!r}"
    )
    return {"postings": why.format("postings"), "terms": why.format("vocabulary")}


def _no_vectors(store: Store, view: View, mapping: AttachedTable, model: str | None) -> str | None:
    """Why there are no vectors to search, if so."""
    if mapping.embedding is None:
        return (
            f"No embedding column of {mapping.full_name} is mapped in {view.name!r}. Attach it again with --embedding "
            "and --model."
        )
    if model not in (None, mapping.model):
        return f"The embeddings of {view.name!r} were made by the model {mapping.model!r}, not by {model!r}."
    return store.capabilities.missing.get("vector")
