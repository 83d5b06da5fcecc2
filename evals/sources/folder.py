"""A folder of documents as a collection: each file is a document, read by the reader of its ending.

Owns which files are documents, their ids, and the notes about files left out; `evals.sources.readers` owns the reading.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from core.errors import InputError, SpecError
from core.types import Flaw, Item, Place, Query, Row
from evals.sources import readers
from evals.sources.base import Source, Texts, sources
from evals.sources.beir import json_records
from evals.sources.files import ending, exists, matches, open_file, printable, walk
from evals.sources.readers.worker import IsolatedReaders
from evals.sources.rows import EXCLUSION_FILES, query_rows, read_exclusions, read_qrels
from evals.types import Exclusion, Label

MAX_FILE = 32 * 2**20
MOST_ENDINGS = 500  # that are counted singly
# What Sphinx, MkDocs and Jekyll generate or keep with the pages: copies of sources, styles, templates, lists.
THEME_FOLDERS = frozenset({"_sources", "_static", "_templates", "_themes", "_layouts"})
THEME_FILES = ("search.html", "genindex.html", "genindex-*.html", "py-modindex.html", "modindex.html", "404.html")


@sources.register("folder")
class FolderSource(Source):
    """Documents below a folder, one a file, sorted by path: Markdown, text, HTML, reStructuredText, AsciiDoc, more."""

    kind: ClassVar[str] = "folder"
    path: Path = Field(description="The folder; it is read with all folders below it, hidden ones excepted.")
    suffixes: Texts | None = Field(
        default=None,
        description="Endings of the files that are read, as in .md,.rst; by default all that there is a reader for. "
        "One that has no reader of its own is read as text.",
    )
    include: Texts = Field(
        default=(), description="Globs of the files that are read, as in guide/**,*.md; all others are left out."
    )
    exclude: Texts = Field(
        default=(), description="Globs of files and folders that are left out, as in drafts,*.tmp.md."
    )
    theme_files: bool = Field(
        default=False,
        description="Whether to read what documentation tools keep beside the pages too: _sources, _static, "
        "_templates, search.html, genindex.html and their like.",
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
    reader: int = Field(
        default=readers.NEWEST,
        ge=readers.FIRST,
        le=readers.NEWEST,
        description="How files are read: 2 takes the main part of HTML pages and reads reStructuredText, AsciiDoc and "
        "more; 1 is how collections were loaded before, which they keep.",
    )

    @field_validator("suffixes")
    @classmethod
    def _dotted(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        if value is not None and not value:
            raise ValueError("at least one ending was expected, as in .md")
        return value and tuple(f".{suffix.lower().lstrip('.')}" for suffix in value)

    @property
    def endings(self) -> tuple[str, ...]:
        """The endings of files that are read on this machine."""
        if self.suffixes is not None:
            return self.suffixes
        return readers.FIRST_SUFFIXES if self.reader == readers.FIRST else readers.suffixes()

    def items(self) -> Iterator[Row[Item] | Flaw]:
        """Notes on files left out, then the documents, so that a preview of the first rows has the notes too."""
        require_folder(self.path, f"a folder with files that end in {', '.join(self.endings)}")
        # Endings that a person names must have their readers installed; by default those without one are left out.
        missing = [suffix for suffix in self.suffixes or () if _missing_extra(suffix)]
        if missing and self.reader > readers.FIRST:
            way_in = f"pip install 'rankbook[{_missing_extra(missing[0])}]'"
            message = f"Files that end in {', '.join(missing)} are read with an extra: {way_in}."
            raise InputError(message, path=printable(self.path))
        left_out, ids = LeftOut(), set()
        for file in self._files(left_out):
            left_out.documents += 1
            if isinstance(file, Path):
                name = self._id(relative := file.relative_to(self.path))
                if name in ids:
                    left_out.same_id.append(printable(relative))
                ids.add(name)
        notes = left_out.sentences(self.reader)
        if not left_out.documents:
            message = f"There is no file that ends in {', '.join(self.endings)} here."
            raise InputError(" ".join((message, *notes)), path=printable(self.path))
        yield from (Flaw(Place(printable(self.path)), note, "noted") for note in notes)
        with IsolatedReaders() as isolated:
            for file in self._files():
                yield from (file,) if isinstance(file, Flaw) else self._document(file, isolated)

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
        return sum(isinstance(file, Path) for file in self._files()) if self.path.is_dir() else None

    def ids(self) -> Iterator[str]:
        """The ids of the documents, without reading any."""
        yield from (self._id(file.relative_to(self.path)) for file in self._files() if isinstance(file, Path))

    def spec(self) -> dict[str, Any]:
        """With an absolute path, and with the reader's number, because a later version may have another default."""
        return {**super().spec(), "path": str(self.path.absolute()), "reader": self.reader}

    def as_loaded(self, origin: Mapping[str, Any]) -> FolderSource:
        """This source with the reader that the collection was loaded by: the first, if its origin names none."""
        kept = origin.get("reader", readers.FIRST)
        if not isinstance(kept, int) or kept == self.reader:
            return self
        if "reader" in self.model_fields_set:
            if origin.get("kind") != self.kind:
                return self
            raise SpecError(
                f"This collection was loaded by reader {kept}, and reader={self.reader} was given. Leave the option "
                "out, or change the reader with `rankbook data reload NAME --reader`, which says first what changes."
            )
        return self.model_copy(update={"reader": min(kept, readers.NEWEST)})

    # -- which files -------------------------------------------------------------------------------------------------

    def _files(self, left_out: LeftOut | None = None) -> Iterator[Path | Flaw]:
        """The files of documents; the others are counted in `left_out`."""
        counted = left_out or LeftOut()

        def skipped(path: str) -> None:
            if self._is_chosen(Path(path).relative_to(printable(self.path)).parts):
                counted.add_ending(ending(path))
            else:
                counted.by_globs += 1

        for file in walk(self.path, self.endings, skipped):
            parts = file.relative_to(self.path).parts if isinstance(file, Path) else ()
            if isinstance(file, Flaw):
                yield file
            elif not self._is_chosen(parts):
                counted.by_globs += 1
            elif self.reader > readers.FIRST and not self.theme_files and (theme := theme_part(parts)):
                counted.theme[theme] += 1
            else:
                yield file

    def _is_chosen(self, parts: tuple[str, ...]) -> bool:
        if any(matches(parts, glob) for glob in self.exclude):
            return False
        return not self.include or any(matches(parts, glob) for glob in self.include)

    def _qrels(self) -> list[Path]:
        if self.labels_path is None:
            return []
        require_folder(self.labels_path, "a folder with a .tsv file for each split")
        return sorted(self.labels_path.glob("*.tsv"))

    # -- one file ----------------------------------------------------------------------------------------------------

    def _document(self, path: Path, isolated: IsolatedReaders) -> Iterator[Row[Item] | Flaw]:
        place = Place(str(path))
        try:
            with open_file(path) as stream:
                raw = stream.read(MAX_FILE + 1)
            document = self._read(path.name, raw, isolated)
        except InputError as error:
            yield Flaw(place, error.message)
            return
        relative, metadata = path.relative_to(self.path), dict(document.metadata)
        if self.folder_field and len(relative.parts) > 1:
            metadata.setdefault(self.folder_field, relative.parts[0])
        title = document.title
        if title is None:
            title = " ".join(re.split(r"[-_\s]+", path.stem)).strip() or path.stem
        item = Item(self._id(relative), document.text, title, metadata)
        yield Row(item, place)
        yield from (Flaw(place, note, "cleaned", item.id) for note in document.notes)

    def _read(self, name: str, raw: bytes, isolated: IsolatedReaders) -> readers.ReadDocument:
        if len(raw) > MAX_FILE:
            raise InputError(f"The file is larger than {MAX_FILE:,} bytes. Split it, or give it as JSONL.")
        if self.reader == readers.FIRST:
            return readers.read_first(name, raw)
        kind = readers.by_suffix().get(ending(name), "markdown")
        reader = readers.readers[kind]
        return isolated.read(kind, raw) if reader.isolated else reader().read(raw)

    def _id(self, relative: Path) -> str:
        whole = relative.as_posix()
        return {"file": whole, "stem": relative.stem, "path": whole[: len(whole) - len(relative.suffix)]}[self.id_from]


@dataclass
class LeftOut:
    """Files of a folder that are not documents, counted by the reason."""

    documents: int = 0
    endings: Counter[str] = field(default_factory=Counter)
    theme: Counter[str] = field(default_factory=Counter)
    by_globs: int = 0
    same_id: list[str] = field(default_factory=list)

    def add_ending(self, suffix: str) -> None:
        """Count a file of an ending that is not read; beyond `MOST_ENDINGS`, other endings are counted together."""
        named = printable(suffix) or "without an ending"
        self.endings[named if named in self.endings or len(self.endings) < MOST_ENDINGS else "of other endings"] += 1

    def sentences(self, reader: int) -> tuple[str, ...]:
        """Sentences that say what is left out, and how to have it read."""
        extra = {suffix: count for suffix, count in self.endings.items() if _missing_extra(suffix)}
        known = readers.suffixes() if reader == readers.FIRST else ()
        newer = {suffix: count for suffix, count in self.endings.items() if suffix in known}
        others = {suffix: count for suffix, count in self.endings.items() if suffix not in extra | newer}
        notes = []
        if newer:
            notes.append(
                f"Not read: {_counted(newer)}. The collection keeps the reader that it was loaded by; "
                "`rankbook data reload NAME --reader` changes to one that reads them."
            )
        if extra:
            way_in = f"pip install 'rankbook[{_missing_extra(next(iter(extra)))}]'"
            notes.append(f"Not read: {_counted(extra)}. They are read with an extra: {way_in}.")
        if others:
            notes.append(
                f"Not read: {_counted(others)}. A text format is read where it is named: -o suffixes=.md,.log."
            )
        if self.theme:
            names = ", ".join(f"{name} ({count:,})" for name, count in sorted(self.theme.items()))
            notes.append(f"Left out as files of a theme or a tool: {names}. With -o theme_files=true they are read.")
        if self.by_globs:
            notes.append(f"Left out by include and exclude: {self.by_globs:,} files.")
        if self.same_id:
            notes.append(
                f"Left out because a file before it has the same id: {self.same_id[0]} ({len(self.same_id):,} in all). "
                "Loaded as a new collection with -o id_from=file, each has an id of its own."
            )
        return tuple(notes)


def _counted(endings: Mapping[str, int]) -> str:
    """`12 .png, 3 .svg`, the commonest first."""
    ordered = sorted(endings.items(), key=lambda pair: (-pair[1], pair[0]))
    return ", ".join(f"{count:,} {suffix}" for suffix, count in ordered)


def _missing_extra(suffix: str) -> str:
    """The extra to install for an ending; empty if its reader is installed, or if there is none."""
    name = readers.by_suffix().get(suffix)
    return readers.readers[name].extra if name and not readers.readers[name].available() else ""


def theme_part(parts: tuple[str, ...]) -> str:
    """The first folder on a path that a documentation tool generates, or else such a file's name; empty otherwise."""
    folder = next((part for part in parts[:-1] if part in THEME_FOLDERS), "")
    return folder or (parts[-1] if any(matches(parts[-1:], glob) for glob in THEME_FILES) else "")


def require_folder(path: Path, what: str) -> None:
    if not exists(path) or not path.is_dir():
        state = "This is not a folder" if exists(path) else "There is nothing here"
        raise InputError(f"{state}; {what} was expected. Check the path.", path=printable(path))
