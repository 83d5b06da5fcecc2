"""What judges write besides reading everything: their grades and votes, and no labels, which are editors' to make of
them. The server enforces it; see `core.store.granting`.
"""

from __future__ import annotations

from typing import Final

from core.store.granting import Right

JUDGES: Final = (
    Right("judgements", "INSERT, UPDATE, DELETE"),  # a grade that is taken back is deleted
    Right("withdrawn_judgements", "INSERT"),  # and goes into the trash, which is editors' to look after
    Right("votes", "INSERT, UPDATE (choice, voted_at)"),
)
