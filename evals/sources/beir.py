"""BEIR's layout, a folder or a zip: corpus.jsonl, queries.jsonl, qrels/<split>.tsv, spans.jsonl and exclusions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, ClassVar, TypeVar

from pydantic import Field

from core.errors import InputError, SpecError
from core.types import Flaw, Item, Query, Row
from evals.sources.base import Source, sources
from evals.sources.files import ArchiveLimits, Tree, opened_tree
from evals.sources.rows import (
    EXCLUSION_FILES,
    SAMPLE,
    extrapolated,
    item_rows,
    query_rows,
    read_exclusions,
    read_json_lines,
    read_qrels,
    span_row,
)
from evals.types import Exclusion, Label, Span

T = TypeVar("T")
CARDS = ("README.md", "SOURCE.md", "DATASET.md", "README.txt")
MAX_CARD = 2**20
WISHES, MAX_WISHES = "rankbook.json", 2**16  # how it wants to be loaded


@sources.register("beir")
class BeirSource(Source):
    """A folder or zip as the BEIR benchmark lays it out; every file below qrels/ is a split."""

    kind: ClassVar[str] = "beir"
    path: Path = Field(description="The folder or the .zip that holds corpus.jsonl (or corpus.jsonl.gz).")
    limits: ArchiveLimits = Field(default=ArchiveLimits(), description="How much may be unpacked from a zip or a .gz.")

    def items(self) -> Iterator[Row[Item] | Flaw]:
        return self._rows("corpus.jsonl", item_rows)

    def queries(self) -> Iterator[Row[Query] | Flaw]:
        return self._rows("queries.jsonl", query_rows)

    def spans(self) -> Iterator[Row[Span] | Flaw]:
        return self._rows("spans.jsonl", lambda row: iter((span_row(row),)))

    def labels(self) -> Iterator[Row[Label] | Flaw]:
        with opened_tree(self.path, self.limits) as tree:
            for name, split in qrels_files(tree, root_of(tree, self.path)):
                if split not in EXCLUSION_FILES:
                    with tree.open(name) as stream:
                        yield from read_qrels(stream, tree.place(name), split)

    def exclusions(self) -> Iterator[Row[Exclusion] | Flaw]:
        with opened_tree(self.path, self.limits) as tree:
            for name, split in qrels_files(tree, root_of(tree, self.path)):
                if split in EXCLUSION_FILES:
                    with tree.open(name) as stream:
                        yield from read_exclusions(stream, tree.place(name))

    def card(self) -> str:
        with opened_tree(self.path, self.limits) as tree:
            names, root = set(tree.names()), root_of(tree, self.path)
            for name in (root + card for card in CARDS):
                if name in names:
                    with tree.open(name) as stream:
                        return stream.read(MAX_CARD).decode("utf-8", "replace")
        return ""

    def wishes(self) -> dict[str, Any]:
        """The language that `evals.collections.export_beir` wrote down beside; nothing where the folder is somebody
        else's."""
        with suppress(InputError, OSError), opened_tree(self.path, self.limits) as tree:
            name = root_of(tree, self.path) + WISHES
            if name in tree.names():
                with tree.open(name) as stream:
                    return _wishes(stream.read(MAX_WISHES), tree.place(name))
        return {}  # a folder that cannot be read is told in a sentence when its rows are

    def size(self) -> int | None:
        """As many lines as the beginning of a corpus lets expect; a .gz tells its length only when it is read."""
        with suppress(InputError, OSError), opened_tree(self.path, self.limits) as tree:
            name = root_of(tree, self.path) + "corpus.jsonl"
            if name in tree.names():
                with tree.open(name) as stream:
                    sample = stream.read(SAMPLE)
                return extrapolated(sample.count(b"\n"), len(sample), tree.size(name))
        return None  # said in a sentence when the rows are read

    def _rows(
        self, file: str, read: Callable[[Row[dict[str, Any]]], Iterator[Row[T] | Flaw]]
    ) -> Iterator[Row[T] | Flaw]:
        with opened_tree(self.path, self.limits) as tree:
            name = _find(tree, root_of(tree, self.path) + file)
            if name is None:
                _explain_absence(tree, root_of(tree, self.path), file, self.path)
                return
            with tree.open(name) as stream:
                yield from json_records(stream, tree.place(name), read)


def _wishes(written: bytes, file: str) -> dict[str, Any]:
    """Only what is known: the file may come from anywhere, and from a later version."""
    try:
        told = json.loads(written)
    except (ValueError, RecursionError) as error:
        raise SpecError(f"{file} is not JSON ({error}). Mend it, or remove it and name the language.") from error
    language = told.get("language") if isinstance(told, dict) else None
    if language is not None and not isinstance(language, str):
        raise SpecError(f'The language in {file} is {language!r:.80}. Give it as in "german", or remove the file.')
    return {"language": language} if language else {}


def json_records(
    stream: BinaryIO, file: str, read: Callable[[Row[dict[str, Any]]], Iterator[Row[T] | Flaw]]
) -> Iterator[Row[T] | Flaw]:
    """Every object of a JSONL file, through `read`."""
    for row in read_json_lines(stream, file):
        if isinstance(row, Flaw):
            yield row
        else:
            yield from read(row)


def holds_corpus(tree: Tree) -> bool:
    return any(PurePosixPath(name).name in ("corpus.jsonl", "corpus.jsonl.gz") for name in tree.names())


def root_of(tree: Tree, path: Path) -> str:
    """Where corpus.jsonl lies: BEIR's own archives have one folder named after the collection around everything."""
    found = [name for name in tree.names() if PurePosixPath(name).name in ("corpus.jsonl", "corpus.jsonl.gz")]
    if not found:
        there = ", ".join(tree.names()[:8]) or "nothing"
        message = f"corpus.jsonl was expected (or corpus.jsonl.gz), beside queries.jsonl and qrels/; there is: {there}."
        raise InputError(message, path=path)
    shallowest = min(found, key=lambda name: (name.count("/"), name))
    return shallowest[: shallowest.rfind("/") + 1]


def qrels_files(tree: Tree, root: str) -> list[tuple[str, str]]:
    """(file, split) for every judgement file, splits in bytewise order."""
    folder = f"{root}qrels/"
    names = [name for name in tree.names() if name.startswith(folder) and name.endswith((".tsv", ".tsv.gz"))]
    return [(name, name.removeprefix(folder).removesuffix(".gz").removesuffix(".tsv")) for name in names]


def _find(tree: Tree, name: str) -> str | None:
    names = set(tree.names())
    return next((candidate for candidate in (name, f"{name}.gz") if candidate in names), None)


def _explain_absence(tree: Tree, root: str, file: str, path: Path) -> None:
    """A collection without queries is fine; judgements without queries mean that a file is missing."""
    if file == "queries.jsonl" and qrels_files(tree, root):
        raise InputError(
            "queries.jsonl was expected: there are judgements in qrels/, and no queries for them.", path=path
        )
