"""Registries of plug-ins, and the specs that name one of them.

A registry refuses a name twice and names the nearest one where a name is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar

import pydantic
from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from core.errors import SpecError, UnknownName

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


M = TypeVar("M", bound=BaseModel)


@contextmanager
def in_a_sentence(what: str) -> Iterator[None]:
    """Turn pydantic's errors into the project's own. Decorates a function too."""
    try:
        yield
    except pydantic.ValidationError as error:
        raise SpecError.from_pydantic(what, error) from error


class Options(BaseModel):
    """Frozen options that are given in code; invalid ones raise the project's own errors."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    @pydantic.model_validator(mode="wrap")
    @classmethod
    def _refused_in_a_sentence(cls, given: Any, handler: pydantic.ModelWrapValidatorHandler[Self]) -> Self:
        with in_a_sentence(f"The {cls.__name__} of {cls.__module__.rpartition('.')[2]}"):
            return handler(given)


@dataclass(frozen=True)
class Tagged(Generic[M]):
    """How one kind of spec is written down: `tag` is the key that names the class. Annotates a field of a model."""

    registry: Registry[type[M]]
    tag: str

    def read(self, given: Any) -> M:
        """The spec that plain data describes; options left out take their defaults."""
        if isinstance(given, BaseModel):
            return given  # type: ignore[return-value]
        named = given.get(self.tag) if isinstance(given, Mapping) else None
        if not isinstance(named, str):
            there = "it has none" if named is None else f"it is {named!r:.80}"
            raise SpecError(
                f"The spec of a {self.registry.kind} needs a {self.tag}, and {there}. "
                f"There is: {', '.join(sorted(self.registry))}."
            )
        name, entry = named, self.registry[named]
        options = {key: value for key, value in given.items() if key != self.tag}
        for option in options:
            if option not in _names(entry):
                raise UnknownName(f"option of the {self.registry.kind} {name!r}", str(option), _names(entry))
        try:
            return entry(**options)
        except pydantic.ValidationError as error:
            raise SpecError.from_pydantic(f"The {self.registry.kind} {name!r}", error) from error

    def options(self, name: str) -> list[str]:
        """The options of the spec of that name."""
        return _names(self.registry[name])

    def write(self, spec: M) -> dict[str, Any]:
        """Tag and every option, defaults included, in a fixed order: equal specs give equal data."""
        return {self.tag: self.registry.name_of(type(spec)), **spec.model_dump(mode="json", by_alias=True)}

    def __get_pydantic_core_schema__(self, _source: Any, _handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.read, serialization=core_schema.plain_serializer_function_ser_schema(self.write)
        )


def _names(entry: type[BaseModel]) -> list[str]:
    published: Mapping[str, str] = getattr(entry, "published_names", {})
    return [field.alias or name for name, field in entry.model_fields.items()] + list(published)
