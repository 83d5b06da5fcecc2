"""What a source of labelled collections is, and the registry of them.

Owns the contract only: a source reads somebody's files, row by row, and says where each row stood. It neither cleans
texts, nor compares labels with documents, nor touches the database: `evals.labels.label_checks` and the ingest do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar

from pydantic import BaseModel, BeforeValidator, ConfigDict

from core.registry import Registry
from core.types import Flaw, Item, Query, Row
from evals.types import Exclusion, Label, Span


def _parted(value: Any) -> Any:
    """`a,b` as a command line gives it; everything else as it is."""
    if not isinstance(value, str):
        return value
    return [part for each in value.split(",") if (part := each.strip())]


Texts = Annotated[tuple[str, ...], BeforeValidator(_parted)]
"""Several texts, which may also be given as one with commas between them."""


class Source(BaseModel, ABC):
    """A labelled collection as it lies in files. Every iterator streams, and one bad row costs that row alone.

    A missing file raises InputError when its iterator is first advanced. Iterators may be taken again and again.
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
        """Documents to be taken out of the ranking of one query, such as the one it was written from."""
        return iter(())

    def card(self) -> str:
        """The collection's own description in Markdown, or nothing."""
        return ""

    def size(self) -> int | None:
        """About how many documents there are, where that is quick to tell: for the time left on screen."""
        return None

    def as_loaded(self, origin: Mapping[str, Any]) -> Source:  # noqa: ARG002 - most can be read in one way only
        """This source, read as the collection of that origin was: its documents keep their texts."""
        return self

    def wishes(self) -> dict[str, Any]:
        """How the collection wants to be loaded (fields of `library.Plan`), where whoever made it said so."""
        return {}

    def spec(self) -> dict[str, Any]:
        """This source as plain data that `source_from` turns back into an equal source."""
        return {"kind": self.kind, **self.model_dump(mode="json", exclude_defaults=True)}


sources: Registry[type[Source]] = Registry("source")
