"""Kept variants and notebooks: files of the home, saved with the store and put back beside what is there.

A name never leads out of its folder, and nothing is written over.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from core import atomic_files
from core.errors import InputError
from evals.backup.form import LARGEST_FILE, HomeFile

Folder = Literal["notebooks", "variants"]
Folders = Mapping[Folder, Path]
ENDINGS: Final[dict[Folder, str]] = {"notebooks": ".md", "variants": ".toml"}
LONGEST_NAME: Final = 200  # bytes; file systems allow 255, and another may be put beside
_NAME: Final = re.compile(r"[^\x00-\x1f\x7f/\\:*?\"<>|.\s][^\x00-\x1f\x7f/\\:*?\"<>|]*")


@dataclass(frozen=True, slots=True)
class Found:
    """A file as it is saved."""

    folder: Folder
    name: str
    content: bytes


def found_in(folders: Folders) -> list[Found]:
    """What lies in the folders themselves. Links are not followed: what they lead to is not the home's."""
    found = []
    for folder, path in folders.items():
        for each in sorted(path.glob(f"*{ENDINGS[folder]}")) if path.is_dir() else ():
            if each.is_symlink() or not each.is_file() or not fits(folder, each.name):
                continue
            if each.stat().st_size > LARGEST_FILE:
                raise InputError(f"It is larger than the {LARGEST_FILE:,} bytes that a backup takes.", path=each)
            found.append(Found(folder, each.name, each.read_bytes()))
    return found


def fits(folder: Folder, name: str) -> bool:
    """Whether it is a plain file's name, with the folder's ending."""
    try:
        short = len(name.encode()) <= LONGEST_NAME
    except UnicodeEncodeError:
        return False
    return short and name.endswith(ENDINGS[folder]) and _NAME.fullmatch(name) is not None


def check(files: Sequence[HomeFile], path: Path) -> None:
    """Refuse names that lead anywhere, before anything is written."""
    for each in files:
        if not fits(each.folder, each.name):
            raise InputError(
                f"{each.name!r:.80} is no name for a file in {each.folder}; it was not touched.", path=path
            )


def put(folder: Path, name: str, content: bytes) -> Path | None:
    """The file in its folder; beside one of that name that says something else; nowhere where it is there already."""
    folder.mkdir(parents=True, exist_ok=True)
    path, number = folder / name, 1
    stem, ending = path.stem, path.suffix
    while True:
        if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
            return None
        if not os.path.lexists(path) and _created(path, content):
            return path
        mark = "-restored" if number == 1 else f"-restored-{number}"
        path, number = folder / f"{stem}{mark}{ending}", number + 1


def _created(path: Path, content: bytes) -> bool:
    """Whole or not at all. False where another came first."""
    try:
        atomic_files.create_whole(path, content)
    except FileExistsError:
        return False
    return True
