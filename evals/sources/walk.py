"""Files below a folder, in bytewise order of their paths, without leaving the folder. Holds one directory at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from core.errors import InputError
from core.types import Flaw, Place


def printable(path: Path | str) -> str:
    """A path as it can be stored and shown, even if its bytes are not UTF-8."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def walk(root: Path, suffixes: tuple[str, ...], passed: Callable[[str], None] | None = None) -> Iterator[Path | Flaw]:
    """Hidden files and folders are passed over; a link that leads out of the folder, or to a folder, is a Flaw.

    `passed` is called with the path of each file of another ending.
    """
    home, pending = root.resolve(), [iter(_sorted(root))]
    while pending:
        entry = next(pending[-1], None)
        if entry is None:
            pending.pop()
        elif entry.is_symlink() and (problem := _link_problem(entry, home, suffixes)):
            yield Flaw(Place(printable(entry.path)), problem)
        elif entry.is_dir(follow_symlinks=False):
            try:
                pending.append(iter(_sorted(Path(entry.path))))
            except InputError as error:
                yield Flaw(Place(printable(entry.path)), error.message)
        elif not entry.is_file():
            continue
        elif entry.name.lower().endswith(suffixes):
            yield _named(Path(entry.path))
        elif passed is not None:
            passed(printable(entry.path))


def ending(name: str) -> str:
    """How a file's name ends, in lower case; empty where it has no ending."""
    return Path(name).suffix.lower()


def matches(parts: tuple[str, ...], glob: str) -> bool:
    """Whether a path below a folder is of that glob, or lies in a folder that is.

    Without a slash inside, a glob is about any one name on the path; with one, about the path from the top, where
    `**` stands for any number of folders.
    """
    pattern = tuple(part for part in glob.split("/") if part and part != ".")
    if len(pattern) < 2 and not glob.startswith("/"):
        return bool(pattern) and any(fnmatchcase(part, pattern[0]) for part in parts)
    reached = _skipping({0}, pattern)
    for part in parts:
        any_folder = {at for at in reached if pattern[at] == "**"}
        by_name = {at + 1 for at in reached - any_folder if fnmatchcase(part, pattern[at])}
        reached = _skipping(any_folder | by_name, pattern)
        if len(pattern) in reached:
            return True
    return False


def _skipping(reached: set[int], pattern: tuple[str, ...]) -> set[int]:
    """With the places after each `**`, which may stand for no folder."""
    further = set(reached)
    for at, part in enumerate(pattern):
        if at in further and part == "**":
            further.add(at + 1)
    return further


def _sorted(folder: Path) -> list[os.DirEntry[str]]:
    """A folder sorts as its name and a slash, which makes the walk's order that of whole paths."""
    try:
        with os.scandir(folder) as entries:
            seen = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        raise InputError(f"The folder cannot be read: {error.strerror or error}.", path=printable(folder)) from error
    return sorted(
        seen, key=lambda entry: os.fsencode(entry.name + ("/" if entry.is_dir(follow_symlinks=False) else ""))
    )


def _link_problem(entry: os.DirEntry[str], home: Path, suffixes: tuple[str, ...]) -> str:
    try:
        target = Path(entry.path).resolve(strict=True)
    except (OSError, RuntimeError):
        return "The link leads nowhere. It was left out." if entry.name.lower().endswith(suffixes) else ""
    if not target.is_dir() and not entry.name.lower().endswith(suffixes):
        return ""
    if not target.is_relative_to(home):
        return "The link leads out of the folder. It was not followed."
    return "The link leads to a folder that is read anyway. It was not followed." if target.is_dir() else ""


def _named(path: Path) -> Path | Flaw:
    if printable(path) == str(path):
        return path
    return Flaw(Place(printable(path)), "The file's name is not UTF-8, so it cannot be an id. Rename it.")
