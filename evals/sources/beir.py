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
from evals.sources.files import ArchiveLimits, Tree, open_tree
from evals.sources.json_lines import read_json_lines
from evals.sources.rows import (
    EXCLUSION_FILES,
    SAMPLE,
    extrapolate,
    item_rows,
    query_rows,
    read_exclusions,
    read_qrels,
    span_row,
)
from evals.types import Exclusion, Label, Span

T = TypeVar("T")
CARDS = ("README.md", "SOURCE.md", "DATASET.md", "README.txt")
MAX_CARD = 2**20
WISHES, MAX_WISHES = "rankbook.json", 2**16  # how the collection is to be loaded


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
        with open_tree(self.path, self.limits) as tree:
            for name, split in qrels_files(tree, root_of(tree, self.path)):
                if split not in EXCLUSION_FILES:
                    with tree.open(name) as stream:
                        yield from read_qrels(stream, tree.place(name), split)

    def exclusions(self) -> Iterator[Row[Exclusion] | Flaw]:
        with open_tree(self.path, self.limits) as tree:
            for name, split in qrels_files(tree, root_of(tree, self.path)):
                if split in EXCLUSION_FILES:
                    with tree.open(name) as stream:
                        yield from read_exclusions(stream, tree.place(name))

    def card(self) -> str:
        with open_tree(self.path, self.limits) as tree:
            names, root = set(tree.names()), root_of(tree, self.path)
            for name in (root + card for card in CARDS):
                if name in names:
                    with tree.open(name) as stream:
                        return stream.read(MAX_CARD).decode("utf-8", "replace")
        return ""

    def wishes(self) -> dict[str, Any]:
        """The language that `evals.collections.export_beir` wrote; other fields may be of a later version."""
        with suppress(InputError, OSError), open_tree(self.path, self.limits) as tree:
            name = root_of(tree, self.path) + WISHES
            if name not in tree.names():
                return {}
            with tree.open(name) as stream:
                try:
                    wishes = json.loads(stream.read(MAX_WISHES))
                except (ValueError, RecursionError) as error:
                    message = f"{tree.place(name)} is not JSON ({error}). Mend it, or remove it and name the language."
                    raise SpecError(message) from error
            language = wishes.get("language") if isinstance(wishes, dict) else None
            if language is not None and not isinstance(language, str):
                message = f"The language in {tree.place(name)} is {language!r:.80}."
                raise SpecError(f'{message} Give it as in "german", or remove the file.')
            return {"language": language} if language else {}
        return {}  # an unreadable folder is refused when its rows are read

    def size(self) -> int | None:
        """The number of lines, estimated from the beginning of the corpus; None for a .gz."""
        with suppress(InputError, OSError), open_tree(self.path, self.limits) as tree:
            name = root_of(tree, self.path) + "corpus.jsonl"
            if name in tree.names():
                with tree.open(name) as stream:
                    sample = stream.read(SAMPLE)
                return extrapolate(sample.count(b"\n"), len(sample), tree.size(name))
        return None  # errors are raised when the rows are read

    def _rows(
        self, file: str, read: Callable[[Row[dict[str, Any]]], Iterator[Row[T] | Flaw]]
    ) -> Iterator[Row[T] | Flaw]:
        with open_tree(self.path, self.limits) as tree:
            root, names = root_of(tree, self.path), set(tree.names())
            name = next((name for name in (root + file, f"{root}{file}.gz") if name in names), None)
            if name is None:  # a collection without queries is fine; judgements without queries mean a missing file
                if file == "queries.jsonl" and qrels_files(tree, root):
                    message = "queries.jsonl was expected: there are judgements in qrels/, and no queries for them."
                    raise InputError(message, path=self.path)
                return
            with tree.open(name) as stream:
                yield from json_records(stream, tree.place(name), read)


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
    """The folder of corpus.jsonl: BEIR's own archives have a folder with the collection's name around everything."""
    corpora = [name for name in tree.names() if PurePosixPath(name).name in ("corpus.jsonl", "corpus.jsonl.gz")]
    if not corpora:
        there = ", ".join(tree.names()[:8]) or "nothing"
        message = f"corpus.jsonl was expected (or corpus.jsonl.gz), beside queries.jsonl and qrels/; there is: {there}."
        raise InputError(message, path=path)
    shallowest = min(corpora, key=lambda name: (name.count("/"), name))
    return shallowest[: shallowest.rfind("/") + 1]


def qrels_files(tree: Tree, root: str) -> list[tuple[str, str]]:
    """(file, split) for every judgement file, splits in bytewise order."""
    folder = f"{root}qrels/"
    names = [name for name in tree.names() if name.startswith(folder) and name.endswith((".tsv", ".tsv.gz"))]
    return [(name, name.removeprefix(folder).removesuffix(".gz").removesuffix(".tsv")) for name in names]
