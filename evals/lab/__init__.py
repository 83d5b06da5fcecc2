"""Rankbook in a script, in Jupyter and under Streamlit: `from evals.lab import Lab`.

The lab is loaded when it is first used, as it imports the whole harness.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from evals.lab.lab import Entry, Lab

__all__ = ["Entry", "Lab"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from evals.lab import lab

    return getattr(lab, name)
