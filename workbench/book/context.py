"""What a cell runs with: the store, what its notebook shares, where files are meant from, and who listens or stops it.

Owns the way from names to collections, splits and variants; nothing is searched or scored here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from core.errors import InputError, SpecError, UnknownName
from core.resources import Resources
from core.store.engine import Store
from core.store.progress import Listener, nobody
from core.variant import Variant
from evals import evaluation
from evals.evaluation import Opened
from evals.references import variant_of
from evals.splits import Split
from evals.statistics.verdicts import Rules
from workbench.book.shared import Shared

Reference = str | dict[str, Any]


class Meant(Protocol):
    """What of a cell's options the notebook's stand in for."""

    @property
    def collection(self) -> str | None: ...
    @property
    def query_set(self) -> str | None: ...
    @property
    def split(self) -> str | None: ...
    @property
    def seed(self) -> int | None: ...


@dataclass(frozen=True, slots=True)
class CellContext:
    """One run of a notebook. `grounds` are the collections it has opened so far."""

    store: Store
    shared: Shared
    folder: Path = Path()
    resources: Resources | None = None
    cancellation: asyncio.Event | None = None
    listener: Listener = nobody
    grounds: dict[tuple[str, str], Opened] = field(default_factory=dict)

    async def ground(self, spec: Meant) -> Opened:
        """The collection that the cell is about, with its queries."""
        collection = spec.collection or self.shared.collection
        if collection is None:
            raise SpecError(
                'No collection is named. Write collection = "handbook" in this cell, or once for all in a cell of the '
                "kind notebook at the top."
            )
        key = collection, spec.query_set or self.shared.query_set
        if key not in self.grounds:
            made = await evaluation.opened(self.store, *key, resources=self.resources)
            self.grounds[key] = replace(made, context=replace(made.context, cancellation=self.cancellation))
        return self.grounds[key]

    def split(self, spec: Meant, ground: Opened) -> Split:
        """The labelled queries that are reported."""
        return ground.split(self.split_name(spec, ground))

    def split_name(self, spec: Meant, ground: Opened) -> str:
        return spec.split or self.shared.split or evaluation.every(ground.labelled)

    def seed(self, spec: Meant) -> int:
        return self.shared.seed if spec.seed is None else spec.seed

    def rules(self, spec: Meant) -> Rules:
        return Rules(seed=self.seed(spec))

    def variants(self, references: Iterable[Reference], ground: Opened) -> list[Variant]:
        return [self.variant(each, ground) for each in references]

    def variant(self, reference: Reference, ground: Opened) -> Variant:
        """What a name or a table stands for here: a bare leg searches the first chunk set."""
        return variant_meant(reference, self.shared, self.folder, ground.view.finest)

    def file(self, reference: str) -> Path:
        """A path as the notebook means it."""
        return self.folder / Path(reference).expanduser()


def variant_meant(reference: Reference, shared: Shared, folder: Path, chunks: str | None = None) -> Variant:
    """A variant of the notebook's own by its name, or whatever `evals.references` knows."""
    own: Mapping[str, dict[str, Any]] = {each["name"]: each for each in shared.variants}
    if isinstance(reference, str) and reference in own:
        return variant_of(own[reference], chunks=chunks, folder=folder)
    try:
        return variant_of(reference, chunks=chunks, folder=folder)
    except UnknownName as error:
        if not isinstance(reference, str):
            raise
        known = [*own, *error.known]
        raise UnknownName("variant, preset or leg", reference, known, way_out="Or give a TOML file's path.") from None
    except RecursionError:
        raise InputError("A variant's filter is nested too deeply.") from None
