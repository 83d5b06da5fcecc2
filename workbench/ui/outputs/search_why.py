"""Why a document is where it is, or is not there: asked of the columns, of any document that somebody names.

The account is `core.explain`'s, as `rankbook why` gives it. Owns the box, and where the account is shown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from xml.etree.ElementTree import Element

import streamlit as st

from core.errors import Cancelled, RankbookError
from core.explain import ExplanationLine, explain
from core.progress import Listener
from core.variant import Variant
from evals.display import el
from evals.evaluation.context import EvalContext
from evals.presentation.types import SearchResults
from workbench.behind import sending as behind_sending
from workbench.behind.sending import ConsentNeeded
from workbench.ui import blocks, sending
from workbench.ui.address import put
from workbench.ui.outputs.base import CellView
from workbench.ui.outputs.beside import beside
from workbench.ui.outputs.naming import DocumentMatch, find_documents

EVERY = "*"  # in the address: asked of all columns
Said = tuple[ExplanationLine, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """The accounts, one a column; none where what was typed could mean several documents."""

    documents: tuple[DocumentMatch, ...]
    accounts: tuple[tuple[str, Said], ...] = ()


def asked(shown: CellView, hits: SearchResults, columns: Sequence[Variant]) -> tuple[int, str] | None:
    """The card that is to be explained, by its column and id; None where none is, or a document beside the cards."""
    place = shown.selected
    for at, (column, variant) in enumerate(zip(hits.columns, columns, strict=False)):
        if place.document and variant.name == place.against and any(hit.id == place.document for hit in column.hits):
            return at, place.document
    return None


def draw(
    shown: CellView,
    ground: EvalContext,
    mark: str,
    hits: SearchResults,
    columns: Sequence[Variant],
    card: tuple[int, str] | None,
) -> Said | None:
    """The account of what is named. That of a card is given back, for the card to show."""
    place = shown.selected
    wanted = [each for each in columns if place.against in (each.name, EVERY)]
    if not place.document or not wanted:
        return None
    key = ("why", mark, hits.query, place.document, *(each.id for each in wanted))
    work = partial(_ask, ground, hits.query, wanted, place.document)
    answer: Answer | None = sending.answered(shown.key("why"), key, "Looking into it", work)
    if answer is None:
        return None
    if card is not None:
        return answer.accounts[0][1] if answer.accounts else None
    _shown(shown, answer)
    return None


async def _ask(
    ground: EvalContext,
    query: str,
    columns: Sequence[Variant],
    typed: str,
    _listener: Listener,
    _token: asyncio.Event,
    *,
    allowed: bool,
) -> Answer | ConsentNeeded:
    """An account takes a search: where that asks a language model, somebody has to allow it, as for the cell itself."""
    documents = await find_documents(ground.store, ground.view, typed)
    if len(documents) > 1:
        return Answer(tuple(documents))
    if sends := await behind_sending.announced_query(ground, query, columns, allowed=allowed):
        return sends
    accounts = [(each.name, await _account(ground, query, each, documents[0].id)) for each in columns]
    return Answer(tuple(documents), tuple(accounts))


async def _account(ground: EvalContext, query: str, variant: Variant, document: str) -> Said:
    """In plain words and exact ones; what one column cannot be asked is said there, and the others are asked."""
    try:
        account = await explain(ground.context, query, variant, document)
    except Cancelled:
        raise
    except RankbookError as error:
        return (ExplanationLine(str(error)),)
    return account.told()


def box(shown: CellView, card: tuple[int, str] | None) -> None:
    """Where a document is named that one misses."""
    place = shown.selected
    key = put(shown.key("missed"), place.document if place.against and card is None else "")

    def typed() -> None:
        text = (st.session_state[key] or "").strip()
        shown.select(document=text, against=EVERY if text else "", variant="")

    st.text_input(
        "Why is a document not here?",
        key=key,
        placeholder="Its id, or words of its title",
        on_change=typed,
        icon=":material/help:",
        width=430,
    )


def _shown(shown: CellView, answer: Answer) -> None:
    if len(answer.documents) > 1:
        _several(shown, answer.documents)
        return
    title = answer.documents[0].title
    named = [el("p", f"{title} ({answer.documents[0].id})")] if title else []
    parts = [
        el("div", el("h4", name), el("ul", *map(_line, lines), class_="account")) for name, lines in answer.accounts
    ]
    st.html(f"<style>{beside('search_why.css')}</style>")
    blocks.html_of(*named, el("div", *parts, class_="accounts"))


def _line(told: ExplanationLine) -> Element:
    return el("li", told.text, el("small", told.exact) if told.exact else None)


def _several(shown: CellView, documents: Sequence[DocumentMatch]) -> None:
    titles = {each.id: each.title for each in documents}
    key = shown.key("meant")

    def chosen() -> None:
        if found := st.session_state[key]:
            shown.select(document=found, against=EVERY, variant="")

    st.selectbox(
        "Several documents have that in their title",
        list(titles),
        index=None,
        format_func=lambda each: f"{titles[each]} ({each})",
        key=key,
        placeholder="Choose the one that is meant",
        on_change=chosen,
        width=430,
    )
