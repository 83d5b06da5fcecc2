"""A variant: every option of a retrieval pipeline as data, with the id that its options give it.

Field names and defaults are part of the id, and must not change.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import BaseModel, ConfigDict, Field, model_validator

from core.chunking import Chunker
from core.chunking.base import CHUNKERS
from core.chunking.builtin import SentenceChunker
from core.errors import SpecError, UnknownName
from core.expansion import Expansion
from core.expansion.base import EXPANSIONS
from core.filters import Filter
from core.fusion import Fusion
from core.fusion.base import FUSIONS, LegRanking, total
from core.fusion.rank_based import RrfFusion
from core.fusion.score_based import LinearFusion
from core.legs import Leg, legs
from core.packing import Packing
from core.registry import Tagged
from core.rerank import Reranker
from core.rerank.base import RERANKERS
from core.routing import Routing
from core.store.names import ITEMS
from core.toml_io import file_text, inline_text, read_toml, table_text
from core.types import Hit


class LateChunking(BaseModel):
    """Evidence chunks of the retrieved items: where they come from, how they are embedded, how many are kept."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    strategy: Literal["late", "precomputed", "mixed"] = Field(
        "late", description="Make chunks now, use the stored chunk set `stored`, or that where an item has such chunks."
    )
    chunker: Annotated[Chunker, CHUNKERS] = Field(
        default_factory=SentenceChunker, description="The chunker of chunks that are made now."
    )
    stored: str = Field("default", description="The chunk set that stored chunks are taken from.")
    pooling: Literal["chunk", "tokens"] = Field(
        "chunk", description="Embed each chunk, or pool the whole text's tokens."
    )
    include_headers: bool = Field(True, description="Whether title and heading path are embedded with a chunk.")
    text_share: float = Field(
        0.2, ge=0, le=1, description="What word overlap counts beside vector similarity; at 1 nothing is embedded."
    )
    per_item_cap: int = Field(3, ge=1, description="The most chunks of one item.")
    top_k_chunks: int = Field(12, ge=1, description="How many chunks of all items come out.")
    use_cache: bool = Field(True, description="Whether chunks made before may be used again.")
    write_cache: bool = Field(True, description="Whether chunks made now are kept.")
    ttl_seconds: float | None = Field(None, gt=0, description="How long kept chunks are believed.")


LEGS = Tagged(legs, "kind")
MIN_SCORE_HELP = (
    "Results below it are dropped. Scores are relative, at most 1; above it may be a roll-up's sum, a fusion without a "
    "greatest score, such as linear without normalisation, and the marks of an endpoint that reranks."
)


class Rollup(BaseModel):
    """How chunks become items: the best chunk stands for its item, with its own score or the sum of the best n."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    method: Literal["best", "sum"] = Field("best", description="An item's score: its best chunk's, or a sum.")
    of_best: int = Field(3, ge=1, description="How many chunks the sum adds, best first.")

    def of(self, hits: Sequence[Hit]) -> Hit:
        """The hit that stands for an item, of its hits, best first."""
        if self.method == "best":
            return hits[0]
        return replace(hits[0], score=total(hit.score for hit in hits[: self.of_best]))


class Variant(BaseModel):
    """Legs, fusion and all that follows, in the order in which it is done."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    name: str = Field("unnamed", min_length=1, max_length=200, description="What people call it.")
    description: str = Field("", description="What it is for, in a sentence.")
    chunks: str = Field("default", description="Which chunk set is searched; 'items' for whole documents.")
    model: str | None = Field(None, description="Which embedding set of it; by default the first there is.")
    top_k: int = Field(10, ge=1, le=10_000, description="How many results come out.")
    overfetch: int = Field(3, ge=1, le=100, description="Each leg fetches top_k x overfetch, unless it says otherwise.")
    expand: Annotated[Expansion, EXPANSIONS] | None = Field(None, description="What is added to the query.")
    route: Routing | None = Field(None, description="Weights by the query's kind.")
    filter: Filter | None = Field(None, description="Which items may be found, by their metadata.")
    legs: tuple[Annotated[Leg, LEGS], ...] = Field(alias="leg", min_length=1, description="The ways to recall.")
    fusion: Annotated[Fusion, FUSIONS] = Field(
        default_factory=RrfFusion, description="How the legs' rankings become one."
    )
    fused_depth: int | None = Field(None, ge=1, description="How many fused candidates go on; by default all.")
    rollup: Rollup | None = Field(None, description="Whether chunks are rolled up to their items.")
    per_item_cap: int | None = Field(
        None, ge=1, le=10_000, description="The most chunks of one item, its best; by default any number."
    )
    late: LateChunking | None = Field(None, description="Evidence chunks made of the items found, at query time.")
    parents: Literal["none", "replace", "annotate"] = Field("none", description="What a child chunk's parent does.")
    parents_after_rerank: bool = Field(False, description="Whether parents come in after the reranking.")
    rerank: Annotated[Reranker, RERANKERS] | None = Field(None, description="A second look at the best.")
    min_score: float = Field(0.0, ge=0, description=MIN_SCORE_HELP)
    pack: Packing | None = Field(None, description="How results become the context of an answer.")

    @property
    def id(self) -> str:
        """SHA-256 of what the variant does: its canonical JSON without name and description."""
        content = self.model_dump(mode="json", by_alias=True, exclude={"name", "description"})
        return hashlib.sha256(json.dumps(content, sort_keys=True, ensure_ascii=False).encode()).hexdigest()

    @property
    def leg_names(self) -> tuple[str, ...]:
        """Each leg by its label, or by its kind where that is enough."""
        return tuple(leg.label or legs.name_of(type(leg)) for leg in self.legs)

    def depth_of(self, leg: Leg) -> int:
        return leg.depth or self.top_k * self.overfetch

    @property
    def least_score(self) -> float | None:
        """The least score that a result can have before `min_score` applies, where ranks and weights determine it."""
        if self.rerank or self.expand or self.route or (self.rollup and self.rollup.method == "sum"):
            return None
        rankings = [LegRanking(name, leg.weight, (), leg.bounds) for name, leg in self._named()]
        return self.fusion.floor(rankings, [self.depth_of(leg) for leg in self.legs])

    def but(self, **changes: Any) -> Self:
        """The same with other options, validated like a new variant."""
        try:
            return type(self)(**{**dict(self), **changes})
        except pydantic.ValidationError as error:
            raise SpecError.from_pydantic(f"The variant {self.name!r}", error) from error

    def at_depth(self, depth: int) -> Self:
        """The same with every leg fetching so many candidates."""
        try:
            legs = tuple(type(leg).model_validate({**dict(leg), "depth": depth}) for leg in self.legs)
        except pydantic.ValidationError as error:
            raise SpecError.from_pydantic(f"The depth of the legs of {self.name!r}", error) from error
        return self.but(legs=legs)

    def weighted(self, weights: Mapping[str, float], **changes: Any) -> Self:
        """The same with these weights by leg, and other changes; without its routing, which would replace them."""
        legs = tuple(leg.model_copy(update={"weight": weights[name]}) for name, leg in self._named())
        return self.but(**{"legs": legs, "route": None, **changes})

    def _named(self) -> zip[tuple[str, Leg]]:
        return zip(self.leg_names, self.legs, strict=True)

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        twice = [name for name, count in Counter(self.leg_names).items() if count > 1]
        if twice:
            raise SpecError(f"{self.name!r} has several legs called {twice[0]!r}. Give each a `label` of its own.")
        whole = self.chunks == ITEMS
        if self.late and not whole:
            raise SpecError(
                f"{self.name!r}: late chunking makes chunks of items. Set chunks = 'items', or drop `late`."
            )
        if whole and (self.parents != "none" or self.rollup):
            which = "rollup" if self.rollup else f"parents = {self.parents!r}"
            raise SpecError(f"{self.name!r}: {which} needs chunks, and chunks = 'items' has none. Name a chunk set.")
        if self.per_item_cap and (whole or self.rollup):
            why = "rollup leaves one chunk of an item" if self.rollup else "chunks = 'items' has no chunks to count"
            raise SpecError(f"{self.name!r}: {why}, so per_item_cap has nothing to do. Drop one of the two.")
        # Of nothing, a fusion makes nothing; but it refuses legs that it could never fuse.
        self.fusion.fuse([LegRanking(name, leg.weight, (), leg.bounds) for name, leg in self._named()])
        if self.route:
            self.route.check({name: leg.weight for name, leg in self._named()})
        return self

    @classmethod
    def of_leg(cls, leg: Leg, **options: Any) -> Self:
        """One leg by itself, whose own scores stand."""
        name = legs.name_of(type(leg))
        return cls(name=name, legs=(leg,), fusion=LinearFusion(normalize="none"), overfetch=1, **options)

    # -- reading and writing -----------------------------------------------------------------------------------------

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        """A variant from plain data, refused in a sentence that names the nearest valid key."""
        known = [field.alias or name for name, field in cls.model_fields.items()]
        for key in data:
            if key not in known:
                raise UnknownName("key of a variant", str(key), known)
        try:
            return cls(**data)
        except pydantic.ValidationError as error:
            raise SpecError.from_pydantic(f"The variant {data.get('name', 'unnamed')!r}", error) from error

    @classmethod
    def from_toml(cls, text: str, *, path: Path | str | None = None) -> Self:
        return cls.from_data(read_toml(text, path=path))

    @classmethod
    def from_file(cls, path: Path) -> Self:
        return cls.from_toml(file_text(path, "The variant"), path=path)

    def to_data(self) -> dict[str, Any]:
        """What differs from the defaults, in the order of the fields, with the legs last, as TOML wants tables."""
        written = self.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
        return {key: value for key, value in written.items() if key != "leg"} | {"leg": written["leg"]}

    def to_toml(self) -> str:
        """TOML that reads back as an equal variant; refused where it cannot, as TOML has no word for "none"."""
        import tomlkit

        document = tomlkit.document()
        for key, value in self.to_data().items():
            if key == "leg":
                tables = tomlkit.aot()
                for leg in value:
                    tables.append(table_text(leg))
                document.append("leg", tables)
            else:
                document.append(key, inline_text(value))
        written = tomlkit.dumps(document)
        if type(self).from_toml(written) != self:
            raise SpecError(
                f"{self.name!r} sets an option to none whose default is something else, which TOML cannot say. Give it "
                "a value, such as a large top_k for all."
            )
        return written
