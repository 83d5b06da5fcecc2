"""What a class says of itself in one line, as lists and forms show it."""

from __future__ import annotations


def summary(of: type) -> str:
    """The first line of its docstring; nothing where it has none."""
    return (of.__doc__ or "").strip().partition("\n")[0]
