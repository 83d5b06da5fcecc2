"""New queries for a query set: read from a file, typed, or generated from the collection's own documents.

Owns their making and their way into a set. It must not know how queries are searched for or scored.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from sqlalchemy import Text, func, select, type_coerce
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection

from core.chunking.text_scan import sentences
from core.errors import InputError, SpecError
from core.legs.query_terms import words_asked
from core.progress import Listener, Step, nobody
from core.store import names
from core.store.collections import CollectionView
from core.store.engine import Store
from core.store.names import ITEMS
from core.store.passages import ItemText, read_items
from core.store.resolve_target import documents, search_target
from core.store.search_target import SearchTarget
from core.types import Flaw, Place, Query, Row
from evals.labels import query_sets
from evals.labels.label_checks import check_labels
from evals.labels.revisions import Cause
from evals.sources.rows import QUERY_IDS, query_rows
from evals.sources.table_files import opened_table
from evals.types import DEFAULT_QUERY_SET, Label, LabelledQueries

_WORD = re.compile(r"\w+(?:[-'./]\w+)*")

Style = Literal["title", "terms", "sentence", "misspelled"]
KIND = "known-item"
KNOWN_ITEMS = "known-items"  # the query set's usual name
NOTE = (
    "Known-item queries are made of words that stand in the document looked for, so they favour legs that compare "
    "words (bm25, fulltext, fuzzy, trigram) over vectors, and they know one relevant document each. Use them to see "
    "that search works and how it bears misspelling; do not choose between words and vectors by them."
)


# -- from a file ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class AddedQueries:
    """Queries added to a set: how many are new, how many it holds now, and flaws about the others."""

    name: str
    added: int
    queries: int
    flaws: tuple[Flaw, ...]


def read_queries(path: Path) -> Iterator[Row[Query] | Flaw]:
    """Queries of a table (CSV, TSV, JSONL, Parquet) with a column `text`, and optionally an id, `kind` and `tags`.

    The id's column has one of the names it has in tables of labels (query_id, qid ...), or id. A query without an id
    gets one that is a digest of its text.
    """
    with opened_table(path) as table:
        text = table.pick(None, ("text", "query", "question"), "query's text")
        ids = [name for name in (*QUERY_IDS, "_id", "id", "uuid", "key") if name != text]
        for row in table.rows:
            if isinstance(row, Flaw):
                yield row
                continue
            fields = {**row.value, "text": row.value.get(text)}
            column = next((name for name in ids if fields.get(name) not in (None, "")), None)
            others = {name: value for name, value in fields.items() if name not in (column, text) or name == "text"}
            query_id = fields[column] if column else _id_of(str(fields["text"] or ""))
            yield from query_rows(Row({**others, "_id": query_id}, row.place))


def typed_queries(text: str) -> Iterator[Row[Query] | Flaw]:
    """Typed queries, one on each line. Empty lines are skipped."""
    for number, line in enumerate(text.splitlines(), start=1):
        if line.strip():
            yield from query_rows(Row({"text": line.strip(), "_id": _id_of(line)}, Place("what was typed", number)))


def _id_of(text: str) -> str:
    words = " ".join(text.split()).casefold()
    return "q-" + hashlib.blake2b(words.encode(errors="replace"), digest_size=5).hexdigest()


async def add(
    store: Store,
    collection: str,
    rows: Iterator[Row[Query] | Flaw],
    *,
    name: str = DEFAULT_QUERY_SET,
    author: str = "",
) -> AddedQueries:
    """Add queries to a set, after the checks of an import. The set's queries and labels stay."""
    name = names.checked(name, what="The query set's name")
    read = await asyncio.to_thread(lambda: list(query_sets.sanitized(rows)))
    checked = check_labels(read, has_item=lambda _: True)
    async with query_sets.change_lock(store, collection, name):
        stored = await query_sets.load(store, collection, name=name)
        known = {query.id: query for query in stored.queries}
        new, flaws = [], list(checked.flaws)
        for row in checked.queries:
            if (twin := known.get(row.value.id)) is None:
                new.append(row.value)
            elif twin.text != row.value.text:
                message = f"The query id {twin.id!r} is taken by another text in {name!r}; that one was kept."
                flaws.append(Flaw(row.place, message, "quarantined", twin.id))
        every = sorted([*stored.queries, *new], key=lambda query: query.id)
        if new:
            cause = Cause(author, f"{len(new):,} queries added")
            await query_sets.keep(store, collection, replace(stored, queries=tuple(every)), name=name, cause=cause)
    return AddedQueries(name, len(new), len(every), tuple(flaws))


# -- of the collection's own documents -----------------------------------------------------------------------------


class KnownItems(BaseModel):
    """The options of known-item queries. The same seed over the same documents makes the same queries.

    After Azzopardi, de Rijke & Balog, "Building simulated queries for known-item topics" (SIGIR 2007), whose
    discriminative selection `terms` and `misspelled` follow.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    fewest_words: ClassVar[int] = 3  # of a sentence that can be a query

    style: Style = Field("terms", description="What a query is: the title, the rarest terms, a sentence, or typos.")
    count: int = Field(50, ge=1, le=10_000, description="How many queries to make, documents permitting.")
    seed: int = Field(0, description="Which documents, which sentences, which typos.")
    terms: int = Field(4, ge=1, le=20, description="How many of its rarest terms make a query.")
    split: str = Field("test", min_length=1, description="The split that their labels are of.")


def parse_known_items(options: Mapping[str, Any]) -> KnownItems:
    """The validated options, or a SpecError."""
    try:
        return KnownItems.model_validate(options)
    except ValidationError as error:
        raise SpecError.from_pydantic("The wish for queries", error) from error


@dataclass(frozen=True, slots=True)
class GeneratedQueries:
    """Queries, each with one relevant item. `unfit` counts documents with too few words, `repeated` equal queries."""

    labelled: LabelledQueries
    unfit: int
    repeated: int
    note: str = NOTE


async def generate(
    store: Store, view: CollectionView, options: KnownItems, listener: Listener = nobody
) -> GeneratedQueries:
    """Known-item queries of a collection, not stored yet; documents are tried in a seeded order."""
    items = search_target(store, view, ITEMS)
    async with store.begin(items.namespace, read_only=True) as connection:
        details = documents(store, view).details.subquery()
        ids = list(await connection.scalars(select(details.c.id).order_by(details.c.id)))
    random.Random(f"{options.seed}").shuffle(ids)  # noqa: S311 - a choice to be repeated, no secret
    texts, unique, unfit = dict[str, str](), dict[str, str](), 0
    for at in range(0, len(ids), options.count):
        page = ids[at : at + options.count]
        read = await read_items(store, view, page)
        async with store.begin(items.namespace, read_only=True) as connection:
            for item_id in page:
                text = await _text(connection, items, read[item_id], options) if item_id in read else ""
                texts |= {item_id: text} if text else {}
                unfit += not text
                listener(Step("Making queries", min(len(texts), options.count), options.count, "queries"))
        # A query that several documents gave has more than one right answer.
        often = Counter(text.casefold() for text in texts.values())
        unique = {item: text for item, text in texts.items() if often[text.casefold()] == 1}
        if len(unique) >= options.count:
            break
    kind = f"{KIND}:{options.style}"
    queries = [
        Query(f"{kind}:{item}", text, kind, metadata={"item": item, "seed": options.seed})
        for item, text in list(unique.items())[: options.count]
    ]
    ordered = tuple(sorted(queries, key=lambda query: query.id))
    labels = tuple(Label(query.id, str(query.metadata["item"]), 1, options.split) for query in ordered)
    return GeneratedQueries(LabelledQueries(ordered, labels), unfit, len(texts) - len(unique))


async def _text(connection: AsyncConnection, items: SearchTarget, item: ItemText, options: KnownItems) -> str:
    """The query for an item; empty if the item has too few words."""
    chance = random.Random(f"{options.seed} {options.style} {item.id}")  # noqa: S311 - to be repeated, no secret
    if options.style == "title":
        return " ".join(item.title.split())
    if options.style == "sentence":
        return await _sentence(connection, items.language, item, chance)
    rarest = await _rarest(connection, items, f"{item.title} {item.text}", options.terms)
    if options.style == "terms":
        return " ".join(rarest)
    misspelled = [_misspelled(word, chance) for word in rarest]
    return " ".join(misspelled) if misspelled != rarest else ""


async def _sentence(connection: AsyncConnection, language: str, item: ItemText, chance: random.Random) -> str:
    """A sentence with enough words, without those that the collection's language drops."""
    spans = list(sentences(item.text, 0, len(item.text), lower_case=item.text.islower()))
    chance.shuffle(spans)
    for start, end in spans:
        sentence = item.text[start:end].lower()
        words = {row.word for row in await connection.execute(words_asked(language, sentence))}
        # The parser also gives the parts of a compound; the sentence has it once.
        kept = [word for word in _WORD.findall(sentence) if word in words]
        if len(kept) >= KnownItems.fewest_words:
            return " ".join(kept)
    return ""


async def _rarest(connection: AsyncConnection, items: SearchTarget, text: str, most: int) -> list[str]:
    """The words of a text that the fewest documents contain, those in at least two documents first.

    A word of one document only is often a misspelling, and finds that document by itself. Numbers are left out; of
    several forms of a word the alphabetically first is used.
    """
    terms = items.postings.terms
    words = words_asked(items.language, text).subquery()
    word = func.min(words.c.word.collate("C")).label("word")
    lexeme = type_coerce(words.c.lexemes, ARRAY(Text))[1]
    counted = (
        select(word, terms.c.documents)
        .join(terms, terms.c.lexeme == lexeme)
        .where(words.c.word.regexp_match("^[[:alpha:]]{3,}$"))
        .group_by(terms.c.lexeme, terms.c.documents)
        .order_by((terms.c.documents < 2).asc(), terms.c.documents, word)
        .limit(most)
    )
    return [row.word for row in await connection.execute(counted)]


def _misspelled(word: str, chance: random.Random) -> str:
    """A word with one typing error: a letter swapped, left out or doubled, never the first."""
    if len(word) < 4:
        return word
    at = chance.randrange(1, len(word) - 1)
    errors = (
        word[:at] + word[at + 1] + word[at] + word[at + 2 :],
        word[:at] + word[at + 1 :],
        word[:at] + word[at] * 2 + word[at + 1 :],
    )
    return next((each for each in chance.sample(errors, len(errors)) if each != word), word)


async def save(
    store: Store, collection: str, queries: GeneratedQueries, *, name: str = KNOWN_ITEMS, author: str = ""
) -> bool:
    """Store them as a query set, in place of an earlier generated one. Never over queries that people wrote."""
    if not queries.labelled.queries:
        raise InputError("No document has the words for a query in this style. Choose another style.")
    name = names.checked(name, what="The query set's name")
    async with query_sets.change_lock(store, collection, name):
        await require_generated(store, collection, name)
        cause = Cause(author, "known-item queries generated")
        return await query_sets.keep(store, collection, queries.labelled, name=name, cause=cause)


async def require_generated(store: Store, collection: str, name: str) -> None:
    """Raise if the set holds queries that were not generated. Called before queries are made, too."""
    stored = await query_sets.load(store, collection, name=names.checked(name, what="The query set's name"))
    if any(not query.kind.startswith(f"{KIND}:") for query in stored.queries):
        raise InputError(
            f"The query set {name!r} of {collection!r} holds queries that were not generated. Choose another name."
        )
