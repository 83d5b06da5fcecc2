"""What a cell is: options as TOML, and one way to run that gives plain values. The kinds are registered by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from core.registry import Registry
from core.variant import Variant
from evals.announcing import searched
from evals.evaluation import Opened
from evals.metric_names import Metric
from evals.references import known_names
from workbench.book.context import CellContext, Reference, variant_meant
from workbench.book.output import Output
from workbench.book.shared import Shared


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
    def python(self, told: Told) -> str:
        """The same in Python, with a `lab` of evals.lab at hand."""

    @property
    def references(self) -> tuple[Reference, ...]:
        """The variants that it names."""
        return ()

    async def searches(self, context: CellContext) -> list[Variant]:
        """The variants that it may take a search with."""
        return context.variants(self.references, await context.ground(self))

    def queries(self, context: CellContext, ground: Opened) -> list[str]:
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


class Told:
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
