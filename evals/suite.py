"""A suite: what is to be measured, as one TOML file. Collections x variants x metrics, how to tune, and a gate.

Owns the file's form and what variants it stands for. It runs nothing: `suite_run` does.
"""

from __future__ import annotations

import tomllib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

import pydantic
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from core.errors import InputError, SpecError, UnknownName
from core.fusion import Fusion
from core.fusion.linear import LinearFusion
from core.fusion.rrf import RrfFusion
from core.fusion.spec import FUSIONS
from core.presets import preset
from core.variant import Variant
from evals.gate import Gate
from evals.grids import varied
from evals.metrics import Metric

METRICS = ("ndcg@10", "recall@100", "mrr@10")


class Target(BaseModel):
    """What is searched, and which labelled queries are asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(min_length=1, description="The collection.")
    query_set: str = Field("default", min_length=1, description="Which of its query sets.")
    split: str = Field("test", min_length=1, description="Which split of that is reported; 'all' for every one.")


class Grid(BaseModel):
    """Variants that differ from a base in some fields."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    base: str = Field(description="A variant of this suite by its name, or a preset.")
    vary: dict[str, list[Any]] = Field(description="Fields and their values: { 'fusion.k' = [10, 60] }.")


class Tune(BaseModel):
    """A variant whose weights are looked for on one split, before the reported one is looked at."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field("tuned", min_length=1, description="What the variant is called that comes of it.")
    base: str = Field(description="The variant of this suite, by its name, or the preset whose legs get weights.")
    split: str = Field("train", min_length=1, description="Where weights are looked for; never the reported split.")
    metric: str = Field("ndcg@10", description="What is to be best.")
    steps: int = Field(20, ge=2, le=100, description="Into how many parts the weights' sum is cut.")
    fusions: tuple[Annotated[Fusion, FUSIONS], ...] = Field(
        (RrfFusion(), LinearFusion()), min_length=1, description="Among which fusions the choice is made."
    )
    per_kind: bool = Field(False, description="Whether each kind of query gets weights of its own.")


class Suite(BaseModel):
    """The whole file. Unknown keys are refused, with the nearest that is known."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: str = Field("suite", min_length=1, max_length=200, description="What people call it.")
    description: str = Field("", description="What it is to answer, in a sentence.")
    targets: tuple[Target, ...] = Field(alias="collection", min_length=1, description="The collections.")
    variants: tuple[dict[str, Any], ...] = Field(
        (), alias="variant", description="Each a preset, a file, or a variant as it stands, with changes."
    )
    grids: tuple[Grid, ...] = Field((), alias="grid", description="Variants that differ in some fields.")
    tune: tuple[Tune, ...] = Field((), description="Variants whose weights are looked for.")
    metrics: tuple[str, ...] = Field(METRICS, min_length=1, description="The first is the one that decides.")
    baseline: str | None = Field(None, description="The variant that all others are compared with; else the first.")
    as_shipped: bool = Field(
        False, description="Ask for no more results than a variant gives; else as many as the deepest metric needs."
    )
    time_live: int = Field(50, ge=0, description="How many queries are timed through the whole pipeline, one by one.")
    seed: int = Field(0, ge=0, description="For every interval, permutation and fold.")
    gate: Gate | None = Field(None, description="What must hold, or the suite fails.")

    _folder: Path = PrivateAttr(default=Path())

    @model_validator(mode="after")
    def _knows_its_metrics(self) -> Self:
        for name in (*self.metrics, *(tune.metric for tune in self.tune)):
            Metric.parse(name)
        for tune in self.tune:
            if tune.split in {target.split for target in self.targets}:
                raise SpecError(
                    f"{tune.name!r} would be tuned on {tune.split!r}, which is reported too: such a score says "
                    "nothing. Tune on another split."
                )
        return self

    @classmethod
    def from_toml(cls, text: str, *, path: Path | None = None) -> Self:
        try:
            data = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise InputError(f"This is not TOML: {error}.", path=path) from error
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in data:
            if key not in known:
                raise UnknownName("key of a suite", key, known)
        try:
            suite = cls(**data)
        except pydantic.ValidationError as error:
            raise SpecError.from_pydantic(f"The suite {path or data.get('name', '')!s}", error) from error
        suite._folder = path.parent if path else Path()
        return suite

    @classmethod
    def from_file(cls, path: Path) -> Self:
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"The suite cannot be read ({error}).", path=path) from error
        return cls.from_toml(text, path=path)

    def all_variants(self) -> list[Variant]:
        """Every variant that is there before tuning, in the order of the file, each name once."""
        given = [self._variant(entry) for entry in self.variants]
        by_name = {variant.name: variant for variant in given}
        given += [made for grid in self.grids for made in varied(self._named(grid.base, by_name), grid.vary)]
        twice = [name for name, count in Counter(variant.name for variant in given).items() if count > 1]
        if twice:
            raise SpecError(f"{self.name!r} has several variants called {twice[0]!r}. Give each a name of its own.")
        if not given and not self.tune:
            raise SpecError(f"{self.name!r} has no variant. Add a [[variant]] with a preset, a file, or legs.")
        return given

    def base_of(self, tune: Tune) -> Variant:
        return self._named(tune.base, {variant.name: variant for variant in self.all_variants()})

    def _variant(self, entry: Mapping[str, Any]) -> Variant:
        """A preset or a file with what is changed of it, or a variant as it stands."""
        changes = {key: value for key, value in entry.items() if key not in ("preset", "file")}
        if "preset" in entry and "file" in entry:
            raise SpecError(f"A variant of {self.name!r} names a preset and a file. Keep one of them.")
        if "preset" in entry:
            base = preset(str(entry["preset"]))
        elif "file" in entry:
            base = Variant.from_file(self._folder / str(entry["file"]))
        else:
            return Variant.from_data(changes)
        return Variant.from_data({**base.to_data(), **changes}) if changes else base

    def _named(self, name: str, known: Mapping[str, Variant]) -> Variant:
        if name in known:
            return known[name]
        try:
            return preset(name)
        except UnknownName as error:
            raise UnknownName("variant of this suite, and no preset,", name, [*known, *error.known]) from None
