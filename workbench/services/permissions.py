"""What whoever is here may do, for pages that leave out what they may not. The database refuses it in any case.

Pages ask with the store that they were given: it knows as whom it was opened.
"""

from __future__ import annotations

from core.store.engine import Store
from core.store.roles import EDITOR, JUDGE

JUDGING = frozenset({"", EDITOR, JUDGE})  # roles that may grade; "" is whoever runs the workbench alone


def may_edit(store: Store) -> bool:
    """Whether collections, runs, notebooks and variants may be made, changed and dropped."""
    return store.role in {"", EDITOR}


def may_judge(store: Store) -> bool:
    """Whether what was found may be graded."""
    return store.role in JUDGING
