"""The TOML file of a suite, its grids and their variants."""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Self

import pydantic
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_validator, model_validator

from core.errors import SpecError, UnknownName
from core.expansion.base import EXPANSIONS
from core.fusion import Fusion
from core.fusion.base import FUSIONS
from core.fusion.rank_based import RrfFusion
from core.fusion.score_based import LinearFusion
from core.registry import Tagged
from core.rerank.base import RERANKERS
from core.toml_io import file_text, read_toml
from core.variant import Variant
from evals.measures import METRICS, Metric, cut_off
from evals.statistics.verdicts import Rules
from evals.suites.gate import Gate
from evals.tuning.tuner import TuningProcedure
from evals.types import ALL
from evals.variants import resolve_variant

STAGES: Mapping[str, Tagged[Any]] = {"expand": EXPANSIONS, "fusion": FUSIONS, "rerank": RERANKERS}
LARGEST = 10_000  # variants: more is a slip


def varied(base: Variant, fields: Mapping[str, Sequence[Any]]) -> list[Variant]:
    """The base with every combination of the values, the last field changing quickest.

    A field is written as in TOML, with dots: `top_k`, `fusion.k`, `rerank.depth`; for a leg `leg.<its name>.weight`.
    Another method, as of `fusion.method`, begins with its own defaults, and options that it lacks are not varied for
    it. Each variant is named after what it was given: "hybrid, fusion.k=10".
    """
    for field, values in fields.items():
        if not isinstance(values, Sequence) or isinstance(values, str) or not values:
            raise SpecError(f"The grid's field {field!r} needs a list of values, and has {values!r:.80}.")
    count = 1
    for values in fields.values():
        count *= len(values)
    if count > LARGEST:
        raise SpecError(f"The grid over {', '.join(fields)} has {count:,} variants; at most {LARGEST:,} are made.")
    points: dict[str, dict[str, Any]] = {}
    for chosen in product(*fields.values()):
        point = _without_strange_options(dict(zip(fields, chosen, strict=True)), fields)
        points.setdefault(json.dumps(point, default=str), point)
    methods = [f"{stage}.{tagged.tag}" for stage, tagged in STAGES.items()]
    variants = []
    for point in points.values():
        changed = copy.deepcopy(base.to_data())
        for field in sorted(point, key=lambda field: field not in methods):  # which decide what else there is to vary
            _set_field(base, changed, field, point[field])
        values = ", ".join(f"{field.removeprefix('leg.')}={value}" for field, value in point.items())
        variants.append(Variant.from_data({**changed, "name": f"{base.name}, {values}" if values else base.name}))
    return variants


def _without_strange_options(chosen: Mapping[str, Any], fields: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The point without the options that only other methods of the same grid have: `fusion.k` where it is linear."""
    left = dict(chosen)
    for stage, tagged in STAGES.items():
        method = f"{stage}.{tagged.tag}"
        if method not in chosen:
            continue
        known = tagged.options(str(chosen[method]))
        others = {option for each in fields[method] for option in tagged.options(str(each))}
        for field in chosen:
            option = field.removeprefix(f"{stage}.").partition(".")[0]
            if field.startswith(f"{stage}.") and option not in known and option in others:
                del left[field]
    return left


def _set_field(base: Variant, changed: dict[str, Any], field: str, value: Any) -> None:
    """Set the option that the dots lead to; tables on the way that the base leaves to their defaults are made."""
    first, *path = field.split(".")
    place: Any = changed
    if first in STAGES and path == [STAGES[first].tag]:  # of the base's own method, with the base's options
        own, tag = getattr(base, first), STAGES[first].tag
        written = {} if own is None else STAGES[first].write(own)
        changed[first] = written if written.get(tag) == value else {tag: value}
        return
    if first == "leg":
        if len(path) < 2:
            raise SpecError(f"The grid's field {field!r} does not say what of which leg: leg.<name>.<option>.")
        leg, *path = path
        if leg not in base.leg_names:
            raise UnknownName(f"leg of {base.name!r}", leg, base.leg_names)
        place = changed["leg"][base.leg_names.index(leg)]
    else:
        path = [first, *path]
    for part in path[:-1]:
        place = _table(base, place, part, field)
    place[path[-1]] = value


def _table(base: Variant, place: dict[str, Any], part: str, field: str) -> dict[str, Any]:
    """The table of that name; where the base leaves it to its default, the default as it would be written."""
    if part not in place:
        written = base.model_dump(mode="json", by_alias=True)
        if not isinstance(written.get(part), dict):
            raise SpecError(f"The grid's field {field!r} is within {part!r}, which {base.name!r} does not have.")
        place[part] = {key: value for key, value in written[part].items() if value is not None}
    inner = place[part]
    if not isinstance(inner, dict):
        raise SpecError(f"The grid's field {field!r} is within {part!r}, which is no table in {base.name!r}.")
    return inner


class SuiteTarget(BaseModel):
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

    @field_validator("vary", mode="before")
    @classmethod
    def _dots_without_quotes(cls, given: Any) -> Any:
        """TOML reads `fusion.k = [10, 60]` as a table within a table."""
        return dict(_flat(given)) if isinstance(given, Mapping) else given


def _flat(given: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in given.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value


class Tune(BaseModel):
    """A variant whose weights are tuned on one split, before the reported one is scored."""

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
    even_so: bool = Field(False, description="Whether the weights are taken although labels are too few to trust them.")
    procedure: TuningProcedure = Field(TuningProcedure(), description="Folds, repeats, and how few labels are too few.")


class Foreign(BaseModel):
    """A run of another engine, that joins the table as an equal."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    file: str = Field(min_length=1, description="TREC's run format, CSV, TSV, JSONL or Parquet.")
    collection: str = Field(min_length=1, description="Of which collection of this suite.")


class Suite(BaseModel):
    """The whole file. Unknown keys are refused, with the nearest that is known."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: str = Field("suite", min_length=1, max_length=200, description="What people call it.")
    description: str = Field("", description="What it is to answer, in a sentence.")
    targets: tuple[SuiteTarget, ...] = Field(alias="collection", min_length=1, description="The collections.")
    variants: tuple[dict[str, Any], ...] = Field(
        (),
        alias="variant",
        description="Each a preset, a file or a leg with what is changed of it, or a variant as it stands.",
    )
    grids: tuple[Grid, ...] = Field((), alias="grid", description="Variants that differ in some fields.")
    tune: tuple[Tune, ...] = Field((), description="Variants whose weights are looked for.")
    runs: tuple[Foreign, ...] = Field((), alias="run", description="Runs of other engines, from files.")
    metrics: tuple[str, ...] = Field(METRICS, min_length=1, description="The first is the one that decides.")
    baseline: str | None = Field(
        None, description="What all others are compared with, a variant or a kept run; else the first variant."
    )
    as_shipped: bool = Field(
        True, description="Score what ships; false makes deep runs, asked for as much as the deepest metric counts."
    )
    time_live: int = Field(50, ge=0, description="How many queries are timed through the whole pipeline, one by one.")
    seed: int = Field(0, ge=0, description="For every interval, permutation and fold.")
    rules: Rules = Field(Rules(), description="How differences are judged: the level, what counts as a tie.")
    gate: Gate | None = Field(None, description="What must hold, or the suite fails.")

    _folder: Path = PrivateAttr(default=Path())

    @model_validator(mode="after")
    def _knows_its_metrics(self) -> Self:
        for name in self.metrics:
            Metric.parse(name)
        for tune in self.tune:
            cut_off(tune.metric)  # refuses one that no weights can be looked for by
        for tune in self.tune:
            for target in self.targets:
                if ALL in (tune.split, target.split) or tune.split == target.split:
                    raise SpecError(
                        f"{tune.name!r} would be tuned on {tune.split!r}, and {target.split!r} of {target.name!r} is "
                        "reported: a score over queries that weights were chosen by says nothing. Take two splits "
                        "that share no query."
                    )
        for run in self.runs:
            if run.collection not in {target.name for target in self.targets}:
                raise UnknownName("collection of this suite", run.collection, [each.name for each in self.targets])
        return self

    @classmethod
    def from_toml(cls, text: str, *, path: Path | None = None) -> Self:
        data = read_toml(text, path=path)
        known = [field.alias or name for name, field in cls.model_fields.items()]
        if unknown := [key for key in data if key not in known]:
            raise UnknownName("key of a suite", unknown[0], known)
        try:
            suite = cls(**data)
        except pydantic.ValidationError as error:
            raise SpecError.from_pydantic(f"The suite {path or data.get('name', '')!s}", error) from error
        suite._folder = path.parent if path else Path()
        return suite

    @classmethod
    def from_file(cls, path: Path) -> Self:
        return cls.from_toml(file_text(path, "The suite"), path=path)

    @property
    def judged_by(self) -> Rules:
        """The rules, by the suite's seed unless they have one of their own."""
        return (
            self.rules if "seed" in self.rules.model_fields_set else self.rules.model_copy(update={"seed": self.seed})
        )

    def procedure_of(self, tune: Tune) -> TuningProcedure:
        """The same of a tuning's folds."""
        given = tune.procedure
        return given if "seed" in given.model_fields_set else given.model_copy(update={"seed": self.seed})

    def files_of(self, target: SuiteTarget) -> list[Path]:
        """The runs of other engines over that collection; a path is from the suite's own folder."""
        return [self._folder / Path(run.file).expanduser() for run in self.runs if run.collection == target.name]

    def all_variants(self) -> list[Variant]:
        """Every variant that is there before tuning, in the order of the file, each name once."""
        given = [resolve_variant(entry, folder=self._folder) for entry in self.variants]
        by_name = {variant.name: variant for variant in given}
        given += [made for grid in self.grids for made in varied(self._named(grid.base, by_name), grid.vary)]
        named = [*(variant.name for variant in given), *(tune.name for tune in self.tune)]
        twice = [name for name, count in Counter(named).items() if count > 1]
        if twice:
            raise SpecError(f"{self.name!r} has several variants called {twice[0]!r}. Give each a name of its own.")
        if not given and not self.tune:
            raise SpecError(f"{self.name!r} has no variant. Add a [[variant]] with a preset, a file, or legs.")
        return given

    def cells(self) -> frozenset[str]:
        """The ids of the variants that only a grid has."""
        given = {resolve_variant(entry, folder=self._folder).id for entry in self.variants}
        return frozenset(each.id for each in self.all_variants() if each.id not in given)

    def base_of(self, tune: Tune) -> Variant:
        return self._named(tune.base, {variant.name: variant for variant in self.all_variants()})

    def _named(self, name: str, known: Mapping[str, Variant]) -> Variant:
        if name in known:
            return known[name]
        try:
            return resolve_variant(name, folder=self._folder)
        except UnknownName as error:
            raise UnknownName("variant of this suite, preset or leg", name, [*known, *error.known]) from None
