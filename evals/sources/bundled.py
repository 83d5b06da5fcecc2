"""The collections that ship with Rankbook, and the catalogue of those that can be downloaded."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from core.errors import InputError, SpecError, UnknownName
from core.types import Flaw, Item, Query, Row
from evals.sources.base import Source, sources
from evals.sources.beir import MAX_CARD, BeirSource
from evals.sources.folder import FolderSource
from evals.types import Exclusion, Label, Span

_PACKAGE = Path(__file__).resolve().parents[1]


def datasets_root() -> Path:
    """`evals/bundled` in a wheel, `datasets` beside the packages in a checkout.

    The catalogue file tells our folder from site-packages/datasets, the Hugging Face library.
    """
    roots = (_PACKAGE / "bundled", _PACKAGE.parent / "datasets")
    for root in roots:
        if (root / "catalog.toml").is_file():
            return root
    tried = " and ".join(str(root) for root in roots)
    raise InputError(f"The collections that ship with Rankbook are missing (looked in {tried}). Install it again.")


def is_collection(path: Path) -> bool:
    """Whether a folder has the layout of bundled collections, documents/ with labels or a card, or BEIR's layout."""
    is_complete = (path / "queries.jsonl").exists() or (path / "qrels").is_dir() or (path / "README.md").exists()
    return ((path / "documents").is_dir() and is_complete) or (path / "corpus.jsonl").is_file()


def bundled_names() -> list[str]:
    folders = (path for path in datasets_root().iterdir() if path.is_dir())
    return sorted(path.name for path in folders if (path / "documents").is_dir() or is_collection(path))


def bundled_path(name: str) -> Path:
    if name not in bundled_names():
        raise UnknownName("bundled collection", name, bundled_names())
    return datasets_root() / name


def collection_at(path: Path) -> Source:
    """The source of a folder in one of the two layouts of bundled collections."""
    if not (path / "documents").is_dir():
        return BeirSource(path=path)
    queries, labels = path / "queries.jsonl", path / "qrels"
    return FolderSource(
        path=path / "documents",
        id_from="stem",
        folder_field="area",
        queries_path=queries if queries.is_file() else None,
        labels_path=labels if labels.is_dir() else None,
    )


@sources.register("bundled")
class BundledSource(Source):
    """A collection that ships with Rankbook: its documents, queries, judgements and its card."""

    kind: ClassVar[str] = "bundled"
    name: str = Field(description="Its name, such as handbook.")

    def items(self) -> Iterator[Row[Item] | Flaw]:
        return self._files().items()

    def queries(self) -> Iterator[Row[Query] | Flaw]:
        return self._files().queries()

    def labels(self) -> Iterator[Row[Label] | Flaw]:
        return self._files().labels()

    def spans(self) -> Iterator[Row[Span] | Flaw]:
        return self._files().spans()

    def exclusions(self) -> Iterator[Row[Exclusion] | Flaw]:
        return self._files().exclusions()

    def card(self) -> str:
        path = bundled_path(self.name) / "README.md"
        return path.read_bytes()[:MAX_CARD].decode("utf-8", "replace") if path.is_file() else ""

    def size(self) -> int | None:
        return self._files().size()

    def wishes(self) -> dict[str, Any]:
        wishes = bundled_path(self.name) / "plan.toml"
        return tomllib.loads(wishes.read_text(encoding="utf-8")) if wishes.is_file() else {}

    def _files(self) -> Source:
        return collection_at(bundled_path(self.name))


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
