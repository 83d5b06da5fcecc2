"""A page of the workbench: what the navigation shows of it, and what draws it."""

from __future__ import annotations

from collections.abc import Callable, Container
from dataclasses import dataclass

from core.store.engine import Store


@dataclass(frozen=True, slots=True)
class Page:
    """`roles` are those that see it, None for everybody; `log_name` is what the log calls it."""

    title: str
    icon: str
    render: Callable[[Store], None]
    roles: Container[str] | None = None
    log_name: str = ""

    @property
    def path(self) -> str:
        """Its path in addresses."""
        return self.title.lower()
