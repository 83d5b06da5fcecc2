"""Files that a browser sends: kept in a folder for a while, and what kind of source they make."""

from __future__ import annotations

import re
import shutil
import time
import uuid
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Protocol

from core.errors import InputError
from core.home import home, make_private
from core.store.names import checked
from evals.labels.label_files import LABEL_NAME, is_query_file
from evals.sources import readers
from evals.sources.files import ArchiveLimits
from evals.sources.table_files import TABLE_SUFFIXES

KEPT_FOR: Final = 24 * 3600  # seconds that what nobody wants any more stays


def new_folder(folder: Path) -> Path:
    """A new folder in one of ours."""
    make_private(home())
    make_private(folder)
    made = folder / uuid.uuid4().hex
    made.mkdir(mode=0o700)
    return made


def sweep_folder(folder: Path, wanted: Collection[str] = ()) -> None:
    """Away with what came a day ago, but for the names that are still wanted."""
    if not folder.is_dir():
        return
    for lot in folder.iterdir():
        if lot.name not in wanted and time.time() - lot.stat().st_mtime > KEPT_FOR:
            shutil.rmtree(lot, ignore_errors=True)


MOST_FILES: Final = 2000
MOST_BYTES: Final = 2 * 2**30  # all files of one upload together
LONGEST_NAME: Final = 200  # bytes; file systems allow 255
CORPUS: Final = ("corpus.jsonl", "corpus.jsonl.gz")
# Smaller than what a file on this machine may hold: whoever uploads need not be its owner.
UNPACKED: Final = ArchiveLimits(entries=5000, total_bytes=8 * 2**30)
LIMITS: Final = tuple(f"limits.{name}={value}" for name, value in UNPACKED.model_dump().items())
_BLOCK: Final = 2**20
_STAGED: Final = re.compile("[0-9a-f]{32}")


class Uploaded(Protocol):
    """A file as the browser sent it."""

    @property
    def name(self) -> str: ...

    def read(self, size: int = -1, /) -> bytes: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...


@dataclass(frozen=True, slots=True)
class SourceSpec:
    """What `rankbook data add` is given: FROM, --as and each --option."""

    origin: str
    kind: str | None = None
    options: tuple[str, ...] = ()


def folder() -> Path:
    return home() / "uploads"


def holds(path: str) -> bool:
    """Whether the path is one of ours. What is ours is thrown away some time, so that no other may seem to be."""
    return bool(_staged_as(path))


def _staged_as(path: str) -> str:
    """The name of the staged folder that it is, or lies in, wherever its dots and links lead; else nothing."""
    try:
        inside = Path(path).resolve().relative_to(folder().resolve()).parts
    except (ValueError, OSError):
        return ""
    return inside[0] if inside and _STAGED.fullmatch(inside[0]) else ""


def told(sentence: str) -> str:
    """With the names of uploaded files as whoever sent them knows them, not as they lie here."""
    return re.sub(rf"{re.escape(str(folder()))}/{_STAGED.pattern}/(?:qrels/)?", "", sentence)


def stage(files: Sequence[Uploaded], most: int = MOST_BYTES) -> Path:
    """The files in a new folder, whole or not at all. Sees to what is refused before anything is read."""
    names = [_name(file.name) for file in files]
    if len(files) > MOST_FILES:
        raise InputError(f"{len(files):,} files were uploaded; {MOST_FILES:,} are allowed. Pack them into one .zip.")
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise InputError(f"The file name {repeated[0]!r} was uploaded twice. Leave one of them out, or rename it.")
    made = new_folder(folder())
    try:
        left = most
        for name, file in zip(names, files, strict=True):
            left = _copy(file, made / name, left)
    except BaseException:
        discard(made)
        raise
    return made


def _name(given: str) -> str:
    """The last part of a name, or a refusal."""
    name = PurePosixPath(given.replace("\\", "/")).name
    if not name or name.startswith(".") or len(name.encode()) > LONGEST_NAME:
        raise InputError(f"A file cannot be called {given!r:.80} here. Rename it.")
    return checked(name.strip(), what="The file name", room=LONGEST_NAME)


def _copy(file: Uploaded, path: Path, left: int) -> int:
    """How many bytes may still come after it."""
    file.seek(0)
    with path.open("xb") as out:
        while block := file.read(_BLOCK):
            left -= len(block)
            if left < 0:
                raise InputError(
                    "The files are larger together than an upload may be. Copy them to this machine, and give "
                    "the path.",
                    path=path.name,
                )
            out.write(block)
    return left


def taken_for(staged: Path) -> SourceSpec:
    """What the files of a folder are together."""
    names = sorted(path.name for path in staged.iterdir() if path.is_file())
    if any(name.lower() in CORPUS for name in names) or (staged / "qrels").is_dir():
        return _beir(staged, names)
    if all(name.lower().endswith(readers.suffixes(available=False)) for name in names):
        return SourceSpec(str(staged), "folder")
    if len(names) == 1:
        packed = names[0].lower().endswith(".zip")
        return SourceSpec(str(staged / names[0]), "beir" if packed else None, LIMITS if packed else ())
    return _tables(staged, names)


def _beir(staged: Path, names: Sequence[str]) -> SourceSpec:
    """BEIR's layout, whose judgements stand in a folder of their own; a browser sends files without folders."""
    qrels = staged / "qrels"
    for name in names:
        if name.lower().endswith((".tsv", ".tsv.gz")):
            qrels.mkdir(exist_ok=True)
            (staged / name).rename(qrels / name)
    return SourceSpec(str(staged), "beir", LIMITS)


def _tables(staged: Path, names: Sequence[str]) -> SourceSpec:
    """A table of documents with those of queries and labels, told apart by their names."""
    strange = [name for name in names if not name.lower().endswith(TABLE_SUFFIXES)]
    labels = [name for name in names if LABEL_NAME.search(name)]
    queries = [name for name in names if is_query_file(name)]
    documents = [name for name in names if name not in labels and name not in queries]
    if strange or len(documents) != 1 or len(queries) > 1 or len(labels) > 1:
        raise InputError(
            f"What these files are together cannot be told: {_listed(names)}. What is understood: one .zip as BEIR has "
            "it; corpus.jsonl with queries.jsonl and judgements as .tsv; documents "
            f"({', '.join(readers.suffixes(available=False))}); or one table of "
            f"documents ({', '.join(TABLE_SUFFIXES[:6])}), with one of queries (`queries` in its name) and one of "
            "labels (`labels` or `qrels` in its name) where there are such."
        )
    options = [f"queries_path={staged / name}" for name in queries]
    options += [f"labels_path={staged / name}" for name in labels]
    return SourceSpec(str(staged / documents[0]), "tabular", tuple(options))


def _listed(names: Iterable[str]) -> str:
    told = [repr(name) for name in names]
    return ", ".join(told[:8]) + (f" and {len(told) - 8} more" if len(told) > 8 else "")


def suggested_name(origin: str) -> str:
    """What a collection of these files may be called, until somebody says otherwise."""
    path = Path(origin)
    stem = path.name.split(".")[0] if not path.is_dir() else path.name
    if holds(origin) and (path.is_dir() or stem.lower() in {"corpus", "documents"}):
        return ""
    return re.sub(r"[^\w-]+", "-", stem, flags=re.UNICODE).strip("-")[:40]


def discard(staged: Path) -> None:
    """Away with a staged folder, or the one that a staged file lies in. What is not ours is left alone."""
    if name := _staged_as(str(staged)):
        shutil.rmtree(folder() / name, ignore_errors=True)


def sweep(wanted: Collection[str]) -> None:
    """Away with what was uploaded a day ago and is not among the paths that are still wanted."""
    sweep_folder(folder(), {_staged_as(path) for path in wanted})
