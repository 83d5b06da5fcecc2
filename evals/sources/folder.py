"""A folder of Markdown, text and HTML files as a collection: a file is a document, its front matter the metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from core.errors import InputError
from core.types import Flaw, Item, Place, Query, Row
from evals.labels import Exclusion, Label
from evals.sources.base import Source, sources
from evals.sources.beir import json_records
from evals.sources.front_matter import split_front_matter
from evals.sources.html_text import html_to_text
from evals.sources.qrels import EXCLUSION_FILES, read_exclusions, read_qrels
from evals.sources.records import query_rows
from evals.sources.trees import exists, open_file
from evals.sources.walk import printable, walk

MAX_FILE = 32 * 2**20
_HTML = (".html", ".htm")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*)$")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)")


@sources.register("folder")
class FolderSource(Source):
    """Markdown, text and HTML files below a folder, one document each, sorted by path."""

    kind: ClassVar[str] = "folder"
    path: Path = Field(description="The folder; it is read with all folders below it, hidden ones excepted.")
    suffixes: tuple[str, ...] = Field(
        default=(".md", ".markdown", ".txt", ".html", ".htm"),
        min_length=1,
        description="Endings of the files that are read.",
    )
    id_from: Literal["path", "stem", "file"] = Field(
        default="path",
        description="What names a document: its path below the folder without the ending, the file's name without the "
        "ending (stem), or the whole path (file).",
    )
    folder_field: str | None = Field(
        default="folder", description="Metadata field for the first folder on a document's path; null leaves it out."
    )
    queries_path: Path | None = Field(default=None, description="A JSONL file of queries, as BEIR has it.")
    labels_path: Path | None = Field(default=None, description="A folder with a qrels TSV for each split.")

    def items(self) -> Iterator[Row[Item] | Flaw]:
        require_folder(self.path, f"a folder with files that end in {', '.join(self.suffixes)}")
        empty = True
        for found in walk(self.path, tuple(suffix.lower() for suffix in self.suffixes)):
            empty = False
            yield from (found,) if isinstance(found, Flaw) else self._document(found)
        if empty:
            message = f"There is no file that ends in {', '.join(self.suffixes)} here."
            raise InputError(message, path=self.path)

    def queries(self) -> Iterator[Row[Query] | Flaw]:
        if self.queries_path is not None:
            with open_file(self.queries_path) as stream:
                yield from json_records(stream, str(self.queries_path), query_rows)

    def labels(self) -> Iterator[Row[Label] | Flaw]:
        for path in self._qrels():
            if path.stem not in EXCLUSION_FILES:
                with open_file(path) as stream:
                    yield from read_qrels(stream, str(path), path.stem)

    def exclusions(self) -> Iterator[Row[Exclusion] | Flaw]:
        for path in self._qrels():
            if path.stem in EXCLUSION_FILES:
                with open_file(path) as stream:
                    yield from read_exclusions(stream, str(path))

    def size(self) -> int | None:
        return sum(isinstance(found, Path) for found in walk(self.path, self.suffixes)) if self.path.is_dir() else None

    def _qrels(self) -> list[Path]:
        if self.labels_path is None:
            return []
        require_folder(self.labels_path, "a folder with a .tsv file for each split")
        return sorted(self.labels_path.glob("*.tsv"))

    def _document(self, path: Path) -> Iterator[Row[Item] | Flaw]:
        place = Place(str(path))
        try:
            with open_file(path) as stream:
                raw = stream.read(MAX_FILE + 1)
        except InputError as error:
            yield Flaw(place, error.message)
            return
        if len(raw) > MAX_FILE:
            yield Flaw(place, f"The file is larger than {MAX_FILE:,} bytes. Split it, or give it as JSONL.")
            return
        text, problem = decode_document(raw)
        document, trouble = self._read(path, text)
        yield Row(document, place)
        yield from (Flaw(place, message, "cleaned", document.id) for message in (problem, trouble) if message)

    def _read(self, path: Path, source: str) -> tuple[Item, str]:
        metadata, body, problem = split_front_matter(source)
        trouble = f"The front matter is not valid YAML and was left out: {problem}." if problem else ""
        title = ""
        if path.name.lower().endswith(_HTML):
            title, body, problem = html_to_text(body)
            trouble = trouble or (f"The HTML is malformed; its tags were stripped: {problem}." if problem else "")
        given = metadata.pop("title", None)
        title = str(given) if given is not None else title or first_heading(body) or _words(path.stem)
        relative = path.relative_to(self.path)
        if self.folder_field and len(relative.parts) > 1:
            metadata.setdefault(self.folder_field, relative.parts[0])
        return Item(self._id(relative), body, title, metadata), trouble

    def _id(self, relative: Path) -> str:
        whole = relative.as_posix()
        return {"file": whole, "stem": relative.stem, "path": whole[: len(whole) - len(relative.suffix)]}[self.id_from]


def require_folder(path: Path, what: str) -> None:
    if not exists(path) or not path.is_dir():
        state = "This is not a folder" if exists(path) else "There is nothing here"
        raise InputError(f"{state}; {what} was expected. Check the path.", path=printable(path))


def decode_document(raw: bytes) -> tuple[str, str]:
    """UTF-8, with replacement where it is not, and what to say about that."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return raw.decode("utf-8", "replace"), f"Bytes that are not UTF-8, first on line {line}, became U+FFFD."


def first_heading(text: str) -> str:
    """The first Markdown heading outside a fenced block."""
    fenced = False
    for line in text.splitlines():
        fenced ^= bool(_FENCE.match(line))
        if not fenced and line.lstrip().startswith("#") and (heading := _HEADING.match(line)):
            return _without_closing(heading[1].strip())
    return ""


def _without_closing(heading: str) -> str:
    """`Title ##` is `Title`, and `C#` stays `C#`."""
    bare = heading.rstrip("#")
    return bare.rstrip() if bare != heading and (not bare or bare[-1] in " \t") else heading


def _words(stem: str) -> str:
    return " ".join(re.split(r"[-_\s]+", stem)).strip() or stem
