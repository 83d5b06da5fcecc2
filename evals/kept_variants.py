"""Variants that somebody keeps: TOML files in the home's folder `variants`, made when the first is kept.

Owns their names and their files. A file is kept as it was written, comments and all; one that is not valid is listed
with what is wrong with it, and stands in nobody's way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from core import atomic_files, presets
from core.errors import InputError, RankbookError, SpecError, UnknownName
from core.legs import legs
from core.store.home import home
from core.variant import Variant

UNNAMED: Final = Variant.model_fields["name"].default
LONGEST_STEM: Final = 60


@dataclass(frozen=True, slots=True)
class Kept:
    """A kept variant with its text; `variant` is None where the text is not valid, and `problem` says why."""

    name: str
    path: Path
    text: str
    variant: Variant | None
    problem: str = ""

    def valid(self) -> Variant:
        if self.variant is None:
            raise InputError(f"The kept variant {self.name!r} is not valid. {self.problem}", path=self.path)
        return self.variant


def folder() -> Path:
    return home() / "variants"


def listed() -> list[Kept]:
    """All of them, by name."""
    return sorted(_read(), key=lambda each: (each.name.lower(), each.name))


def names() -> list[str]:
    return [each.name for each in listed()]


def find(name: str) -> Kept | None:
    return next((each for each in _read() if each.name == name), None)


def get(name: str) -> Kept:
    found = find(name)
    if found is None:
        raise UnknownName("kept variant", name, names(), way_out="`rankbook variant keep` keeps one.")
    return found


def keep(text: str, *, over: str | None = None) -> Kept:
    """Keep the TOML under the name that it says; `over` names the kept one whose place it takes, renamed or not."""
    variant = Variant.from_toml(text)
    name = _own_name(variant.name)
    old = get(over) if over is not None else None
    if (there := find(name)) is not None and (old is None or there.path != old.path):
        raise SpecError(
            f"A variant called {name!r} is kept already. Give this one another name, or overwrite that one."
        )
    path = old.path if old else _free_path(name)
    _write(path, text)
    return get(name)


def drop(name: str) -> Kept:
    """Delete it. What comes back holds its text: `put_back` undoes this."""
    gone = get(name)
    try:
        gone.path.unlink()
    except OSError as error:
        raise InputError(f"The kept variant {name!r} cannot be deleted ({error.strerror}).", path=gone.path) from error
    return gone


def put_back(before: Kept) -> None:
    """The file as it was, whatever stands there now."""
    _write(before.path, before.text)


def free_name(name: str) -> str:
    """The name, or the name with the first number that makes it nobody's yet."""
    taken = {*presets.names(), *legs, *names(), UNNAMED}
    stem, number = name, 1
    while name in taken:
        number += 1
        name = f"{stem} {number}"
    return name


# -- files -------------------------------------------------------------------------------------------------------------


def _read() -> Iterator[Kept]:
    """Each file under a name of its own: what it says, or what it is called where that is somebody else's."""
    taken = {*presets.names(), *legs}
    for path in sorted(folder().glob("*.toml")):
        kept = _kept(path)
        name = next(each for each in (kept.name, path.stem, path.name) if each not in taken or each == path.name)
        taken.add(name)
        variant = kept.variant.but(name=name) if kept.variant and kept.variant.name != name else kept.variant
        yield Kept(name, path, kept.text, variant, kept.problem)


def _kept(path: Path) -> Kept:
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else error.strerror
        return Kept(path.stem, path, "", None, f"It cannot be read ({why}).")
    try:
        variant = Variant.from_toml(text)
    except (RankbookError, RecursionError) as error:
        return Kept(path.stem, path, text, None, str(error) or "It is nested too deeply to be read.")
    return Kept(path.stem if variant.name == UNNAMED else variant.name, path, text, variant)


def _own_name(name: str) -> str:
    if name == UNNAMED or not name.strip():
        raise SpecError('A variant that is kept needs a name. Give it one: name = "...".')
    if name in presets.names() or name in legs:
        what = "a preset" if name in presets.names() else "a leg"
        raise SpecError(f"{name!r} is {what}, and stays one. Give your variant another name.")
    return name


def _free_path(name: str) -> Path:
    stem = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:LONGEST_STEM] or "variant"
    path, number = folder() / f"{stem}.toml", 1
    while path.exists():
        number += 1
        path = folder() / f"{stem}-{number}.toml"
    return path


def _write(path: Path, text: str) -> None:
    """All of it or nothing, whatever happens meanwhile."""
    try:
        written = text.encode("utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write_whole(path, written, mode=0o600)
    except (OSError, UnicodeEncodeError) as error:
        why = "it holds half a character" if isinstance(error, UnicodeEncodeError) else error.strerror
        raise InputError(f"The variant cannot be kept ({why}).", path=path) from error
