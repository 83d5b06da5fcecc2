"""The contract of cells and their registry; what a cell works with, and the query that several kinds share."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field

from core.context import Resources
from core.errors import InputError, SpecError, UnknownName
from core.expansion.base import content_words
from core.progress import Listener, nobody
from core.registry import Registry
from core.store.engine import Store
from core.variant import Variant
from evals.evaluation.context import EvalContext, default_split, open_eval
from evals.evaluation.cost_notice import searched
from evals.measures import Metric
from evals.presentation.types import Output
from evals.statistics.verdicts import Rules
from evals.types import ALL, QuerySplit
from evals.variants import known_names, resolve_variant
from workbench.notebooks.shared import Shared

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
    grounds: dict[tuple[str, str], EvalContext] = field(default_factory=dict)

    async def ground(self, spec: Meant) -> EvalContext:
        """The collection that the cell is about, with its queries."""
        collection = spec.collection or self.shared.collection
        if collection is None:
            raise SpecError(
                'No collection is named. Write collection = "handbook" in this cell, or once for all in a cell of the '
                "kind notebook at the top."
            )
        key = collection, spec.query_set or self.shared.query_set
        if key not in self.grounds:
            made = await open_eval(self.store, *key, resources=self.resources)
            self.grounds[key] = replace(made, context=replace(made.context, cancellation=self.cancellation))
        return self.grounds[key]

    def split(self, spec: Meant, ground: EvalContext) -> QuerySplit:
        """The labelled queries that are reported."""
        return ground.split(self.split_name(spec, ground))

    def split_name(self, spec: Meant, ground: EvalContext) -> str:
        return spec.split or self.shared.split or default_split(ground.labelled)

    def seed(self, spec: Meant) -> int:
        return self.shared.seed if spec.seed is None else spec.seed

    def rules(self, spec: Meant) -> Rules:
        return Rules(seed=self.seed(spec))

    def variants(self, references: Iterable[Reference], ground: EvalContext) -> list[Variant]:
        return [self.variant(each, ground) for each in references]

    def variant(self, reference: Reference, ground: EvalContext) -> Variant:
        """What a name or a table stands for here: a bare leg searches the first chunk set."""
        return variant_meant(reference, self.shared, self.folder, ground.view.default_chunk_set)

    def file(self, reference: str) -> Path:
        """A path as the notebook means it."""
        return self.folder / Path(reference).expanduser()


def variant_meant(reference: Reference, shared: Shared, folder: Path, chunks: str | None = None) -> Variant:
    """A variant of the notebook's own by its name, or whatever `evals.variants` knows."""
    own: Mapping[str, dict[str, Any]] = {each["name"]: each for each in shared.variants}
    if isinstance(reference, str) and reference in own:
        return resolve_variant(own[reference], chunks=chunks, folder=folder)
    try:
        return resolve_variant(reference, chunks=chunks, folder=folder)
    except UnknownName as error:
        if not isinstance(reference, str):
            raise
        known = [*own, *error.known]
        raise UnknownName("variant, preset or leg", reference, known, way_out="Or give a TOML file's path.") from None
    except RecursionError:
        raise InputError("A variant's filter is nested too deeply.") from None


class CellSpec(BaseModel, ABC):
    """One kind of cell. Class docstring and descriptions are its documentation, its form and its error text."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    example: ClassVar[str] = ""  # a source to begin with
    version: ClassVar[int] = 1  # to be raised where an equal cell over equal ground comes to show something else

    title: str = Field("", max_length=300, description="What stands above the output.")
    collection: str | None = Field(None, min_length=1, description="Another collection than the notebook's.")
    query_set: str | None = Field(None, min_length=1, description="Another query set than the notebook's.")
    split: str | None = Field(None, min_length=1, description="Other labelled queries than the notebook's.")
    seed: int | None = Field(None, ge=0, description="Another seed than the notebook's.")

    @abstractmethod
    async def run(self, context: CellContext) -> Output:
        """Do it. Whatever goes wrong is an error of core's tree, in a sentence."""

    @abstractmethod
    def python(self, told: PythonExport) -> str:
        """The same in Python, with a `lab` of evals.lab at hand."""

    @property
    def references(self) -> tuple[Reference, ...]:
        """The variants that it names."""
        return ()

    async def searches(self, context: CellContext) -> list[Variant]:
        """The variants that it may take a search with."""
        return context.variants(self.references, await context.ground(self))

    def queries(self, context: CellContext, ground: EvalContext) -> list[str]:
        """What each of them is searched for, as often as it is. Refused where running the cell is, or will be."""
        return searched(context.split(self, ground))

    @property
    def asks_labels(self) -> bool:
        """Whether a change of queries or labels changes what it shows."""
        return True

    def check(self, shared: Shared, folder: Path) -> None:
        """Refuse what can be seen to be wrong without asking the database."""
        for reference in self.references:
            variant_meant(reference, shared, folder)

    async def resolved(self, context: CellContext) -> dict[str, Any]:
        """What it asks and what its names stand for: all that its output comes of, but for what cells share."""
        ground = await context.ground(self)
        options = self.model_dump(mode="json", by_alias=True, exclude={"title"})
        ids = [f"{each.name} {each.id}" for each in context.variants(self.references, ground)]
        split = context.split_name(self, ground) if self.asks_labels else ""
        return {**options, "variants meant": ids, "split": split, "seed": context.seed(self)}


class PythonExport:
    """What an exported notebook needs of a cell: its references as Python, its split and seed as arguments."""

    def __init__(self, shared: Shared, folder: Path) -> None:
        self.shared, self.folder = shared, folder
        self.used: dict[str, Variant] = {}  # what has to be written out, by the name under which it is called

    def reference(self, reference: Reference) -> str:
        """A name stays a name; whatever this notebook or a file says is written out, and called by its name."""
        variant = self.variant(reference)
        own = {each["name"] for each in self.shared.variants}
        if isinstance(reference, str) and reference not in own and reference in known_names():
            return repr(reference)
        if isinstance(reference, Mapping) and "kind" in reference:
            return repr(dict(reference))
        name, number = variant.name, 2
        while self.used.get(name, variant) != variant:
            name, number = f"{variant.name} ({number})", number + 1
        self.used[name] = variant
        return f"variants[{name!r}]"

    def variant(self, reference: Reference) -> Variant:
        return variant_meant(reference, self.shared, self.folder)

    def several(self, references: Iterable[Reference]) -> str:
        return f"[{', '.join(map(self.reference, references))}]"

    def lab(self, spec: CellSpec) -> str:
        """The lab that the cell is about; another than the notebook's is opened in place."""
        collection, queries = spec.collection, spec.query_set
        if collection in (None, self.shared.collection) and queries in (None, self.shared.query_set):
            return "lab"
        named = collection or self.shared.collection or "handbook"
        return f"Lab({named!r}, query_set={(queries or self.shared.query_set)!r})"

    def split(self, spec: CellSpec) -> str | None:
        return spec.split or self.shared.split

    def seed(self, spec: CellSpec) -> int:
        return self.shared.seed if spec.seed is None else spec.seed

    def rules(self, spec: CellSpec) -> str | None:
        """As an argument, where they are not the usual ones."""
        return f"Rules(seed={self.seed(spec)})" if self.seed(spec) else None


def call(function: str, *given: str, **options: str | None) -> str:
    """A call as Python writes it, options that are None left out."""
    named = [f"{key}={value}" for key, value in options.items() if value is not None]
    parts = [*given, *named]
    short = f"{function}({', '.join(parts)})"
    if len(short) <= 100 and "\n" not in short:
        return short
    inner = "".join(f"    {part},\n" for part in parts)
    return f"{function}(\n{inner})"


def literal(value: object) -> str | None:
    """A value as an argument; None where it is left to the default."""
    return None if value is None else repr(value)


def known_metric(name: str) -> str:
    """The name, if it is a metric's."""
    Metric.parse(name)
    return name


def known_metrics(names: tuple[str, ...]) -> tuple[str, ...]:
    for name in names:
        known_metric(name)
    return names


kinds: Registry[type[CellSpec]] = Registry("kind of cell")


@dataclass(frozen=True, slots=True)
class CellQuery:
    """A query with what its labels say, which is nothing for one that was typed."""

    text: str
    id: str | None = None
    grades: Mapping[str, int] = field(default_factory=dict)

    @property
    def labelled(self) -> bool:
        """Whether a document is known to answer it."""
        return any(grade > 0 for grade in self.grades.values())

    @property
    def keywords(self) -> list[str]:
        """The words to be marked in what was found."""
        return content_words(self.text)


def asked(ground: EvalContext, query: str | None, query_id: str | None) -> CellQuery:
    """The one that is meant; typed text that is a labelled query's is that query."""
    every = QuerySplit.of(ground.labelled, ALL)
    if query_id is not None:
        known = {each.id: each for each in ground.labelled.queries}
        if query_id not in known:
            raise UnknownName("query", query_id, known)
        return CellQuery(known[query_id].text, query_id, every.grades.get(query_id, {}))
    text = query or ""
    same = next((each for each in every.queries.values() if each.text == text), None)
    return CellQuery(text) if same is None else CellQuery(text, same.id, every.grades.get(same.id, {}))


def exactly_one(**given: object) -> None:
    """Refuse none and several."""
    named = [name for name, value in given.items() if value is not None]
    if len(named) != 1:
        choices = ", ".join(given)
        said = f"{' and '.join(named)} are there" if named else "none is there"
        raise SpecError(f"Give one of {choices}: {said}.")
