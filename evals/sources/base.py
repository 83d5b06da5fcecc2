"""The contract of sources of labelled collections, and their registry.

A source reads files row by row and says where each row stands. It does not clean texts, compare labels with documents
or use the database: `evals.labels.label_checks` and the ingest do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from core.registry import Registry
from core.types import Flaw, Item, Query, Row
from evals.types import Exclusion, Label, Span


def _split_text(value: Any) -> Any:
    """The parts of `a,b`, as it is written on a command line; any other value unchanged."""
    if not isinstance(value, str):
        return value
    return [part for each in value.split(",") if (part := each.strip())]


Texts = Annotated[tuple[str, ...], BeforeValidator(_split_text)]
"""Several texts, also accepted as one text with commas between them."""


class Source(BaseModel, ABC):
    """A labelled collection in files. Every iterator streams, and a bad row costs that row alone.

    A missing file raises InputError when its iterator is first advanced. Each method may be called any number of times.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: ClassVar[str]

    @abstractmethod
    def items(self) -> Iterator[Row[Item] | Flaw]:
        """The documents, in the order in which they are stored."""

    def queries(self) -> Iterator[Row[Query] | Flaw]:
        """The queries, of all splits."""
        return iter(())

    def labels(self) -> Iterator[Row[Label] | Flaw]:
        """The judgements, split by split."""
        return iter(())

    def spans(self) -> Iterator[Row[Span] | Flaw]:
        """The passages that answer, as character offsets into an item's text."""
        return iter(())

    def exclusions(self) -> Iterator[Row[Exclusion] | Flaw]:
        """Documents that one query's ranking leaves out, such as the document that it was written from."""
        return iter(())

    def card(self) -> str:
        """The collection's own description in Markdown, or nothing."""
        return ""

    def size(self) -> int | None:
        """About how many documents there are, if that is quick to estimate: for the time left on screen."""
        return None

    def as_loaded(self, origin: Mapping[str, Any]) -> Source:  # noqa: ARG002 - most can be read in one way only
        """This source, reading documents as it did when the collection of that origin was loaded."""
        return self

    def wishes(self) -> dict[str, Any]:
        """Fields of `evals.collections.load.LoadPlan` that the collection itself asks for."""
        return {}

    def spec(self) -> dict[str, Any]:
        """This source as plain data that `source_from` turns back into an equal source."""
        return {"kind": self.kind, **self.model_dump(mode="json", exclude_defaults=True)}


sources: Registry[type[Source]] = Registry("source")
