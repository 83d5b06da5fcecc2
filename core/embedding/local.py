"""A model that is a folder of this machine: what tells its state, so that vectors of two states are never mixed."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path

from core.errors import EmbeddingError

DIGITS = 8
WHAT_COUNTS = {".bin", ".json", ".model", ".safetensors", ".txt"}  # weights, options, vocabularies; no read-me, no code


def split(name: str) -> tuple[str, str]:
    """`/models/mine#1a2b3c4d` as the folder and the state that it was in; a name without a state has none."""
    found = re.fullmatch(rf"(.+)#([0-9a-f]{{{DIGITS}}})", name, re.DOTALL)
    return (found[1], found[2]) if found else (name, "")


def folder_of(name: str) -> Path | None:
    """The folder that a model's name stands for, where there is one."""
    folder = Path(name).expanduser()
    return folder.resolve() if folder.is_dir() else None


def looks_like_a_path(name: str) -> bool:
    """A name of the hub is `model` or `owner/model`."""
    return Path(name).is_absolute() or name.startswith((".", "~")) or "\\" in name or name.count("/") > 1


def state(folder: Path) -> str:
    """Some digits that change when the weights, the options or the vocabulary do."""
    whole = hashlib.sha256()
    for file in _files(folder):
        facts = file.stat()
        part = _hash(file, facts.st_size, facts.st_mtime_ns)
        whole.update(f"{file.relative_to(folder).as_posix()}\0{facts.st_size}\0{part}\n".encode())
    return whole.hexdigest()[:DIGITS]


def _files(folder: Path) -> list[Path]:
    found = (file for file in folder.rglob("*") if file.suffix in WHAT_COUNTS and file.is_file())
    return sorted(file for file in found if not any(part.startswith(".") for part in file.relative_to(folder).parts))


@cache
def _hash(file: Path, _size: int, _changed: int) -> str:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        raise EmbeddingError(f"The model's file {file} cannot be read ({error.strerror}).") from error


def check(folder: Path | None, name: str, expected: str) -> Path:
    """The folder in the state that was asked for, or a refusal: its vectors would not go with those that are stored."""
    if folder is None:
        raise EmbeddingError(f"There is no folder {name!r} with a model any more. Put it back, or embed with another.")
    found = state(folder)
    if found != expected:
        raise EmbeddingError(
            f"The model in {folder} has changed: it was #{expected} when its vectors were made, and is #{found} now. "
            f"Put the former files back, or embed once more with what is there: rankbook data embed COLLECTION {folder}"
        )
    return folder
