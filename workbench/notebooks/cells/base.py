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
from workbench.notebooks.shared import SharedOptions

Reference = str | dict[str, Any]


OpenCollections = dict[tuple[str, str], EvalContext]  # by collection and query set


class CollectionOptions(Protocol):
    """The options that a cell takes from the notebook where it leaves them out."""

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
    """What cells run with. `collections` are those that are open so far."""

    store: Store
    shared: SharedOptions
    folder: Path = Path()
    resources: Resources | None = None
    cancellation: asyncio.Event | None = None
    listener: Listener = nobody
    collections: OpenCollections = field(default_factory=dict)

    async def open(self, spec: CollectionOptions) -> EvalContext:
        """The cell's collection, with its queries."""
        collection = spec.collection or self.shared.collection
        if collection is None:
            raise SpecError(
                'No collection is named. Write collection = "handbook" in this cell, or once for all in a cell of the '
                "kind notebook at the top."
            )
        key = collection, spec.query_set or self.shared.query_set
        if key not in self.collections:
            opened = await open_eval(self.store, *key, resources=self.resources)
            self.collections[key] = replace(opened, context=replace(opened.context, cancellation=self.cancellation))
        return self.collections[key]

    def split(self, spec: CollectionOptions, opened: EvalContext) -> QuerySplit:
        """The labelled queries that are reported."""
        return opened.split(self.split_name(spec, opened))

    def split_name(self, spec: CollectionOptions, opened: EvalContext) -> str:
        return spec.split or self.shared.split or default_split(opened.labelled)

    def seed(self, spec: CollectionOptions) -> int:
        return self.shared.seed if spec.seed is None else spec.seed

    def rules(self, spec: CollectionOptions) -> Rules:
        return Rules(seed=self.seed(spec))

    def variants(self, references: Iterable[Reference], opened: EvalContext) -> list[Variant]:
        return [self.variant(each, opened) for each in references]

    def variant(self, reference: Reference, opened: EvalContext) -> Variant:
        """The variant of a name or a table. A bare leg searches the collection's first chunk set."""
        return resolve_reference(reference, self.shared, self.folder, opened.view.default_chunk_set)

    def file(self, reference: str) -> Path:
        """A path, which is relative to the notebook's folder."""
        return self.folder / Path(reference).expanduser()


def resolve_reference(reference: Reference, shared: SharedOptions, folder: Path, chunks: str | None = None) -> Variant:
    """A variant that the notebook itself defines, or one that `evals.variants` knows."""
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

    icon: ClassVar[str] = ":material/data_object:"  # by its Material name
    place: ClassVar[int] = 100  # among the kinds that are offered, from 0; equal ones by name
    example: ClassVar[str] = ""  # a source to begin with
    version: ClassVar[int] = 1  # raise it when an unchanged cell shows something else than before

    title: str = Field("", max_length=300, description="What stands above the output.")
    collection: str | None = Field(None, min_length=1, description="Another collection than the notebook's.")
    query_set: str | None = Field(None, min_length=1, description="Another query set than the notebook's.")
    split: str | None = Field(None, min_length=1, description="Other labelled queries than the notebook's.")
    seed: int | None = Field(None, ge=0, description="Another seed than the notebook's.")

    @abstractmethod
    async def run(self, context: CellContext) -> Output:
        """What the cell shows. Whatever goes wrong is an error of core's tree, in a sentence."""

    @abstractmethod
    def python(self, export: PythonExport) -> str:
        """The cell as Python code, which finds a `lab` of evals.lab."""

    @property
    def references(self) -> tuple[Reference, ...]:
        """The variants that it names."""
        return ()

    async def searches(self, context: CellContext) -> list[Variant]:
        """The variants that it may search with."""
        return context.variants(self.references, await context.open(self))

    def queries(self, context: CellContext, opened: EvalContext) -> list[str]:
        """The queries that each variant is asked, repeated as often as it is. Fails where running the cell would."""
        return searched(context.split(self, opened))

    @property
    def asks_labels(self) -> bool:
        """Whether its output depends on queries and labels."""
        return True

    def check(self, shared: SharedOptions, folder: Path) -> None:
        """Refuse mistakes that show without asking the database."""
        for reference in self.references:
            resolve_reference(reference, shared, folder)

    async def resolved(self, context: CellContext) -> dict[str, Any]:
        """Everything that its output depends on: its options, and what the names in them stand for right now."""
        opened = await context.open(self)
        options = self.model_dump(mode="json", by_alias=True, exclude={"title"})
        ids = [f"{each.name} {each.id}" for each in context.variants(self.references, opened)]
        split = context.split_name(self, opened) if self.asks_labels else ""
        return {**options, "variants meant": ids, "split": split, "seed": context.seed(self)}


class PythonExport:
    """How cells become Python code: references, splits and seeds as arguments, and the variants that are `used`."""

    def __init__(self, shared: SharedOptions, folder: Path) -> None:
        self.shared, self.folder = shared, folder
        self.used: dict[str, Variant] = {}  # by the name under which the code calls them

    def reference(self, reference: Reference) -> str:
        """A name that means the same everywhere stays a name; any other variant is written out."""
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
        return resolve_reference(reference, self.shared, self.folder)

    def several(self, references: Iterable[Reference]) -> str:
        return f"[{', '.join(map(self.reference, references))}]"

    def lab(self, spec: CellSpec) -> str:
        """The lab of the cell's collection; one of another collection than the notebook's is opened in place."""
        collection, queries = spec.collection, spec.query_set
        if collection in (None, self.shared.collection) and queries in (None, self.shared.query_set):
            return "lab"
        name = collection or self.shared.collection or "handbook"
        return f"Lab({name!r}, query_set={(queries or self.shared.query_set)!r})"

    def split(self, spec: CellSpec) -> str | None:
        return spec.split or self.shared.split

    def seed(self, spec: CellSpec) -> int:
        return self.shared.seed if spec.seed is None else spec.seed

    def rules(self, spec: CellSpec) -> str | None:
        """As an argument; None for the default rules."""
        return f"Rules(seed={self.seed(spec)})" if self.seed(spec) else None


def call(function: str, *arguments: str, **options: str | None) -> str:
    """A call as Python writes it, options that are None left out."""
    parts = [*arguments, *(f"{key}={value}" for key, value in options.items() if value is not None)]
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
    return tuple(map(known_metric, names))


kinds: Registry[type[CellSpec]] = Registry("kind of cell")


def ordered_kinds() -> list[str]:
    """The kinds in the order in which they are offered."""
    return sorted(kinds, key=lambda kind: (kinds[kind].place, kind))


@dataclass(frozen=True, slots=True)
class CellQuery:
    """A query with its labels, if it has any."""

    text: str
    id: str | None = None
    grades: Mapping[str, int] = field(default_factory=dict)

    @property
    def labelled(self) -> bool:
        """Whether a document is known to answer it."""
        return any(grade > 0 for grade in self.grades.values())

    @property
    def keywords(self) -> list[str]:
        """The words that are marked in results."""
        return content_words(self.text)


def find_query(opened: EvalContext, query: str | None, query_id: str | None) -> CellQuery:
    """The query of that text or id. Typed text that is a labelled query's is that query."""
    every = QuerySplit.of(opened.labelled, ALL)
    if query_id is not None:
        known = {each.id: each for each in opened.labelled.queries}
        if query_id not in known:
            raise UnknownName("query", query_id, known)
        return CellQuery(known[query_id].text, query_id, every.grades.get(query_id, {}))
    text = query or ""
    same = next((each for each in every.queries.values() if each.text == text), None)
    return CellQuery(text) if same is None else CellQuery(text, same.id, every.grades.get(same.id, {}))


def exactly_one(**options: object) -> None:
    """Refuse none and several."""
    present = [name for name, value in options.items() if value is not None]
    if len(present) != 1:
        problem = f"{' and '.join(present)} are there" if present else "none is there"
        raise SpecError(f"Give one of {', '.join(options)}: {problem}.")
