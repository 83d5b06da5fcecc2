"""Explicit registries: a name, a class, and nothing found by scanning.

The class's docstring and its field descriptions are its documentation, its form on screen and its error text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from core.errors import UnknownName

T = TypeVar("T", bound=type)


class Registry(Generic[T]):
    """Maps a name to a class of one kind ("chunker", "leg", ...)."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._entries: dict[str, T] = {}

    def register(self, name: str) -> Callable[[T], T]:
        def keep(entry: T) -> T:
            if name in self._entries:
                raise ValueError(f"the {self.kind} {name!r} is registered twice: {self._entries[name]!r} and {entry!r}")
            self._entries[name] = entry
            return entry

        return keep

    def __getitem__(self, name: str) -> T:
        try:
            return self._entries[name]
        except KeyError:
            raise UnknownName(self.kind, name, self._entries) from None

    def name_of(self, entry: type) -> str:
        """The name a class was registered under."""
        return next(name for name, registered in self._entries.items() if registered is entry)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
