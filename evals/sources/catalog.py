"""The catalogue of well-known public collections: data in datasets/catalog.toml, typed here."""

from __future__ import annotations

import tomllib
from functools import cache

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from core.errors import SpecError, UnknownName
from evals.sources.bundled import datasets_root


class CatalogEntry(BaseModel):
    """A public collection that `rankbook data add NAME` fetches through ir_datasets."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str = Field(pattern=r"^[a-z0-9-]+$", description="The name to add it by.")
    ir_datasets: str = Field(description="Its id on ir-datasets.com.")
    title: str = Field(description="What it is called in papers.")
    documents: int = Field(gt=0, description="Documents or passages.")
    queries: int = Field(gt=0, description="Queries that this id gives.")
    download_mb: float | None = Field(default=None, gt=0, description="About how much is downloaded, in megabytes.")
    licence: str = Field(default="see source", description="The licence, where the publisher states one plainly.")
    note: str = Field(description="What it is good for, in a line.")


@cache
def catalog() -> tuple[CatalogEntry, ...]:
    """Every entry, in the order of the file."""
    path = datasets_root() / "catalog.toml"
    try:
        entries = tomllib.loads(path.read_text(encoding="utf-8")).get("collection", [])
        return TypeAdapter(tuple[CatalogEntry, ...]).validate_python(entries)
    except ValidationError as error:
        raise SpecError.from_pydantic(f"The catalogue {path}", error) from error
    except tomllib.TOMLDecodeError as error:
        raise SpecError(f"The catalogue {path} is not valid TOML: {error}.") from error


def catalog_entry(name: str) -> CatalogEntry:
    entries = {entry.name: entry for entry in catalog()}
    if name not in entries:
        raise UnknownName("public collection in the catalogue", name, entries)
    return entries[name]
