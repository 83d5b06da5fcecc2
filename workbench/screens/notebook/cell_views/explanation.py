"""Why a document is where it is, or is missing: for a card, or for any document in all columns.

The account is `core.explain`'s, as in `rankbook why`.
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
from core.store.browse import DocumentMatch, find_documents
from core.variant import Variant
from evals.display import el
from evals.evaluation.context import EvalContext
from evals.presentation.types import SearchResults
from workbench.components import blocks, job_progress
from workbench.components.theme import asset
from workbench.components.url_state import put
from workbench.screens.notebook.cell_views.base import CellView
from workbench.services import cost_notice
from workbench.services.cost_notice import ConsentNeeded

EVERY = "*"  # in the address: asked of all columns
Text = tuple[ExplanationLine, ...]


@dataclass(frozen=True, slots=True)
class Explanations:
    """The accounts, one a column; none where the typed text could mean several documents."""

    documents: tuple[DocumentMatch, ...]
    accounts: tuple[tuple[str, Text], ...] = ()


def asked(view: CellView, hits: SearchResults, columns: Sequence[Variant]) -> tuple[int, str] | None:
    """The card to explain, by its column and id; None without one."""
    state = view.selected
    for at, (column, variant) in enumerate(zip(hits.columns, columns, strict=False)):
        if state.document and variant.name == state.against and any(hit.id == state.document for hit in column.hits):
            return at, state.document
    return None


def draw(
    view: CellView,
    ctx: EvalContext,
    mark: str,
    hits: SearchResults,
    columns: Sequence[Variant],
    card: tuple[int, str] | None,
) -> Text | None:
    """The account. That of a card is given back, for the card to show."""
    state = view.selected
    wanted = [each for each in columns if state.against in (each.name, EVERY)]
    if not state.document or not wanted:
        return None
    key = ("why", mark, hits.query, state.document, *(each.id for each in wanted))
    work = partial(_ask, ctx, hits.query, wanted, state.document)
    answer: Explanations | None = job_progress.result_with_consent(view.key("why"), key, "Looking into it", work)
    if answer is None:
        return None
    if card is not None:
        return answer.accounts[0][1] if answer.accounts else None
    _shown(view, answer)
    return None


async def _ask(
    ctx: EvalContext,
    query: str,
    columns: Sequence[Variant],
    typed: str,
    _listener: Listener,
    _token: asyncio.Event,
    *,
    allowed: bool,
) -> Explanations | ConsentNeeded:
    """An account needs a search; where that asks a language model, consent comes first."""
    documents = await find_documents(ctx.store, ctx.view, typed)
    if len(documents) > 1:
        return Explanations(tuple(documents))
    if sends := await cost_notice.for_query(ctx, query, columns, allowed=allowed):
        return sends
    accounts = [(each.name, await _account(ctx, query, each, documents[0].id)) for each in columns]
    return Explanations(tuple(documents), tuple(accounts))


async def _account(ctx: EvalContext, query: str, variant: Variant, document: str) -> Text:
    """In plain words and exact ones; an error of one column is its account."""
    try:
        account = await explain(ctx.context, query, variant, document)
    except Cancelled:
        raise
    except RankbookError as error:
        return (ExplanationLine(str(error)),)
    return account.lines()


def box(view: CellView, card: tuple[int, str] | None) -> None:
    """The field for a document that is missing."""
    state = view.selected
    key = put(view.key("missed"), state.document if state.against and card is None else "")

    def typed() -> None:
        text = (st.session_state[key] or "").strip()
        view.select(document=text, against=EVERY if text else "", variant="")

    st.text_input(
        "Why is a document not here?",
        key=key,
        placeholder="Its id, or words of its title",
        on_change=typed,
        icon=":material/help:",
        width=430,
    )


def _shown(view: CellView, answer: Explanations) -> None:
    if len(answer.documents) > 1:
        titles = {each.id: each.title for each in answer.documents}
        key = view.key("meant")

        def chosen() -> None:
            if found := st.session_state[key]:
                view.select(document=found, against=EVERY, variant="")

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
        return
    title = answer.documents[0].title
    named = [el("p", f"{title} ({answer.documents[0].id})")] if title else []
    parts = [
        el("div", el("h4", name), el("ul", *map(_line, lines), class_="account")) for name, lines in answer.accounts
    ]
    st.html(f"<style>{asset('screens/notebook/cell_views/explanation.css')}</style>")
    blocks.html_of(*named, el("div", *parts, class_="accounts"))


def _line(told: ExplanationLine) -> Element:
    return el("li", told.text, el("small", told.exact) if told.exact else None)
