"""Any collection of the ir_datasets package, by id. It downloads, and any failure becomes one sentence."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any, ClassVar

from pydantic import Field

from core.errors import InputError, RankbookError, UnknownName
from core.types import Flaw, Item, Place, Query, Row
from evals.sources.base import Source, sources
from evals.sources.rows import label_row, plain
from evals.types import Label

_HOST = re.compile(r"https?://([^/\s'\"]+)|host='([^']+)'")
_UNREACHED = re.compile(r"Max retries|ConnectionError|ConnectTimeout|Failed to resolve|Name or service|timed out")
TEXT_FIELDS = ("text", "body", "abstract")
_SPLITS = ("train", "dev", "valid", "validation", "test")


@sources.register("ir_datasets")
class IrDatasetsSource(Source):
    """A public collection by its ir_datasets id, such as beir/scifact (all splits) or beir/scifact/test (one)."""

    kind: ClassVar[str] = "ir_datasets"
    id: str = Field(pattern=r"^[\w./-]+$", description="The id on ir-datasets.com.")
    timeout: float = Field(default=15.0, gt=0, description="Seconds to wait for the server before giving up.")

    def items(self) -> Iterator[Row[Item] | Flaw]:
        with self._loaded() as package, download_errors(self.id, "documents"):
            for number, document in enumerate(package.load(self.id).docs_iter(), 1):
                fields = document._asdict()
                title = fields["title"] if isinstance(fields.get("title"), str) else ""
                used = {"doc_id", "title", *TEXT_FIELDS}
                text = next((fields[name] for name in TEXT_FIELDS if isinstance(fields.get(name), str)), None)
                if text is None:  # the collection's own idea of the text, which has the title inside it
                    text, title, used = document.default_text(), "", {"doc_id"}
                metadata = _scalars(fields, used)
                item = Item(str(document.doc_id), text, title, metadata)
                yield Row(item, Place(f"ir_datasets:{self.id}/docs", number))

    def queries(self) -> Iterator[Row[Query] | Flaw]:
        with self._loaded() as package, download_errors(self.id, "queries"):
            dataset = package.load(self.id)
            parts = [dataset] if dataset.has_queries() else [package.load(part) for part in self._parts(package)]
            seen: set[str] = set()
            for part in parts:
                for query in part.queries_iter() if part.has_queries() else ():
                    if query.query_id not in seen:  # the splits of some collections share their topics
                        seen.add(query.query_id)
                        metadata = _scalars(query._asdict(), {"query_id", "text"})
                        value = Query(str(query.query_id), query.default_text(), metadata=metadata)
                        yield Row(value, Place(f"ir_datasets:{self.id}/queries", len(seen)))

    def labels(self) -> Iterator[Row[Label] | Flaw]:
        with self._loaded() as package, download_errors(self.id, "judgements"):
            whole = package.load(self.id)
            for part in [self.id] if whole.has_qrels() else self._parts(package):
                dataset = package.load(part)
                place = f"ir_datasets:{part}/qrels"
                for number, qrel in enumerate(dataset.qrels_iter() if dataset.has_qrels() else (), 1):
                    yield label_row(qrel.query_id, qrel.doc_id, qrel.relevance, split_of(part), Place(place, number))

    def _parts(self, package: Any) -> list[str]:
        """The splits right below this id, where it has no judgements itself."""
        return [f"{self.id}/{split}" for split in _SPLITS if f"{self.id}/{split}" in package.registry]

    @contextmanager
    def _loaded(self) -> Iterator[Any]:
        try:
            # ir_datasets reads these at each download; values that the user has set are kept.
            os.environ.setdefault("IR_DATASETS_DL_TRIES", "1")
            os.environ.setdefault("IR_DATASETS_DL_TIMEOUT", str(self.timeout))
            import ir_datasets
        except Exception as error:  # its import also makes folders and reads files
            message = f"The package ir_datasets cannot be loaded ({_first_line(error)}). Run: pip install ir-datasets"
            raise InputError(message) from error
        if self.id not in ir_datasets.registry:
            # There are some 2,000 ids, so only the nearest are named.
            near = get_close_matches(self.id, list(ir_datasets.registry), n=8, cutoff=0.5)
            way_out = "These are the nearest; all ids are listed at https://ir-datasets.com."
            raise UnknownName("ir_datasets collection", self.id, near, way_out=way_out)
        yield ir_datasets


@contextmanager
def download_errors(name: str, what: str) -> Iterator[None]:
    """Turn any failure of a download into an InputError that says what to do."""
    try:
        yield
    except (RankbookError, GeneratorExit):
        raise
    except Exception as error:  # requests, hash checks, archives and parsers all fail in their own ways
        raise InputError(
            f"The {what} of {name!r} could not be fetched: {_first_line(error)}. Check the network connection and the "
            f"notes at https://ir-datasets.com/{name.partition('/')[0]}, then try again; or download the collection "
            "elsewhere and add its files."
        ) from error


def split_of(dataset_id: str) -> str:
    last = dataset_id.rsplit("/", maxsplit=1)[-1]
    return last if last in _SPLITS else "test"


def _scalars(fields: dict[str, Any], used: set[str]) -> dict[str, Any]:
    usable = (str, int, float, bool, list, tuple, dict)
    return {
        name: plain(value)
        for name, value in fields.items()
        if name not in used and isinstance(value, usable) and value != ""
    }


def _first_line(error: Exception) -> str:
    """The reason, short: requests reports a failed connection in several lines of nested objects."""
    host = _HOST.search(str(error))
    if host and _UNREACHED.search(str(error)):
        return f"{host[1] or host[2]} cannot be reached"
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:160].rstrip(".")
