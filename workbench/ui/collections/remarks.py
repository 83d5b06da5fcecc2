"""Remarks on what was read: what is wrong with which row, and what was done about it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, Final

import streamlit as st

from core.types import Flaw
from workbench.behind.collections import uploads
from workbench.behind.collections.shown import OUTCOMES
from workbench.ui import textgrid
from workbench.ui.textgrid import Column, Line

FLAWS_SHOWN: Final = 100
FLAWS: Final = (
    Column("what", "What is wrong, in a sentence.", long=True),
    Column("id", "The document, query or label that it is about."),
    Column("where", "File and line, where the source has such.", long=True),
    Column("what was done"),
)


def flaws(key: str, found: Iterable[Mapping[str, Any]], total: int) -> None:
    """Remarks row by row, the first of them."""
    rows = list(found)[:FLAWS_SHOWN]
    lines = [
        Line(
            str(at),
            (
                str(flaw["message"]),
                str(flaw["subject"]),
                uploads.told(str(flaw["place"])),
                OUTCOMES.get(str(flaw["outcome"]), str(flaw["outcome"])),
            ),
        )
        for at, flaw in enumerate(rows)
    ]
    textgrid.draw(key, "Remarks on the input", FLAWS, lines, empty="Nothing to remark.", low=True)
    if total > len(rows):
        st.html(f"<p>... and {total - len(rows):,} more. <code>rankbook data show NAME --json</code> has them.</p>")


def plain(found: Iterable[Flaw]) -> list[dict[str, str]]:
    """The first of them, as they are kept in the store."""
    return [
        {"place": str(flaw.place), "subject": flaw.subject, "outcome": flaw.outcome, "message": flaw.message}
        for flaw in islice(found, FLAWS_SHOWN)
    ]
