"""References to variants (a preset, a leg, a file, a kept variant), and kept variants as TOML files."""

from __future__ import annotations

import re
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from core import atomic_files, presets
from core.errors import InputError, RankbookError, SpecError, StoreError, UnknownName
from core.home import home
from core.legs import Leg, legs
from core.small_files import read_small
from core.store.trash_entries import TrashEntry, new_id, not_in_trash, restore_conflict, retention
from core.toml_io import LARGEST_FILE, file_text
from core.variant import LEGS, Variant

Reference = Variant | Leg | Path | str | Mapping[str, Any]
HERE = Path()


def resolve_variant(
    reference: Reference, *, chunks: str | None = None, model: str | None = None, folder: Path = HERE
) -> Variant:
    """The variant that a reference stands for. `chunks` and `model` are for bare legs; paths are from `folder`.

    Names come before files, so that a name means the same in every folder: a file called bm25 is "./bm25". Data is a
    leg, by its kind; a whole variant; or a preset, a kept one or a file with changes:
    {"preset": "local-rag", "top_k": 5}.
    """
    leg = leg_of(reference)
    if leg is not None:
        searched = {"chunks": chunks, "model": model}
        made = Variant.of_leg(leg, **{key: value for key, value in searched.items() if value is not None})
        return made.but(name=leg.label) if leg.label else made
    match reference:
        case Variant():
            return reference
        case Mapping():
            return _of_data(reference, folder)
        case Path():
            return Variant.from_file(folder / reference.expanduser())
        case str():
            if (named := _named(reference)) is not None:
                return named
            path = folder / Path(reference).expanduser()
            if path.suffix == ".toml" or path.is_file():
                return Variant.from_file(path)
            raise UnknownName(
                "variant, preset or leg", reference, every_name(), way_out="Or give the path of a variant's TOML file."
            )
    raise SpecError(
        f"{reference!r:.80} is no variant. Give a Variant, a leg, the name of a preset or a leg, the path of a TOML "
        "file, or a dictionary."
    )


def leg_of(reference: object) -> Leg | None:
    """The bare leg that is meant, by itself, its kind's name or its options; None where it is something else."""
    if isinstance(reference, Leg):
        return reference
    if isinstance(reference, str) and reference in legs:
        return legs[reference]()
    if isinstance(reference, Mapping) and "kind" in reference:
        return LEGS.read(reference)
    return None


def run_file(reference: object, *, known: Sequence[str] = (), folder: Path = HERE) -> Path | None:
    """The file of another engine's run that is meant; None of a variant: their names, and `known` ones, come first."""
    if not isinstance(reference, str) or reference in (*every_name(), *known):
        return None
    path = folder / Path(reference).expanduser()
    return path if path.suffix != ".toml" and path.is_file() else None


def known_names() -> list[str]:
    """The names that mean the same on every machine: presets and legs."""
    return [*presets.names(), *legs]


def every_name() -> list[str]:
    """The same, and the variants that are kept on this machine."""
    return [*known_names(), *names()]


def _of_data(data: Mapping[str, Any], folder: Path) -> Variant:
    """A whole variant, or another one with changes."""
    if "preset" in data and "file" in data:
        raise SpecError("A variant names a preset and a file. Keep one of them.")
    changes = {key: value for key, value in data.items() if key not in ("preset", "file")}
    if len(changes) == len(data):
        return Variant.from_data(data)
    if "preset" in data:
        name = str(data["preset"])
        base = _named(name) or presets.preset(name)
    else:
        base = Variant.from_file(folder / Path(str(data["file"])).expanduser())
    return Variant.from_data({**base.to_data(), **changes}) if changes else base


def _named(name: str) -> Variant | None:
    """A preset, or what is kept under that name."""
    if name in presets.names():
        return presets.preset(name)
    kept = find(name)
    return kept.valid() if kept else None


# -- weights -----------------------------------------------------------------------------------------------------------


def hybrid_of(references: Sequence[Reference], chunks: str) -> Variant:
    """Bare legs as one variant."""
    found = []
    for each in references:
        leg = leg_of(each)
        if leg is None:
            raise SpecError(f"{each!r:.80} is no leg. Weights are looked for among legs, or those of one variant.")
        found.append(leg)
    if len(found) < 2:
        raise SpecError("One leg has no weights to look for. Give two to four.")
    made = Variant(legs=tuple(found), chunks=chunks)
    return made.but(name=" + ".join(made.leg_names))


# -- kept variants -----------------------------------------------------------------------------------------------------

UNNAMED: Final = Variant.model_fields["name"].default
LONGEST_STEM: Final = 60
UNSURE: Final = 1_000_000_000  # nanoseconds within which two changes may get one time stamp from a disk
MOST_KNOWN: Final = 500
NOTES: Final = TypeAdapter(TrashEntry)  # of a variant in the trash


@dataclass(frozen=True, slots=True)
class SavedVariant:
    """A kept variant with its text; `variant` is None where the text is not valid, and `problem` says why."""

    name: str
    path: Path
    text: str
    variant: Variant | None
    problem: str = ""
    trash_entry: TrashEntry | None = None  # where it was moved to, of one that was dropped

    def valid(self) -> Variant:
        if self.variant is None:
            raise InputError(f"The kept variant {self.name!r} is not valid. {self.problem}", path=self.path)
        return self.variant


_known: Final[dict[Path, tuple[tuple[int, ...], SavedVariant]]] = {}
_lock: Final = threading.Lock()


def folder() -> Path:
    return home() / "variants"


def listed() -> list[SavedVariant]:
    """All of them, by name."""
    return sorted(_read(), key=lambda each: (each.name.lower(), each.name))


def names() -> list[str]:
    return [each.name for each in listed()]


def find(name: str) -> SavedVariant | None:
    return next((each for each in _read() if each.name == name), None)


def get(name: str) -> SavedVariant:
    found = find(name)
    if found is None:
        raise UnknownName("kept variant", name, names(), way_out="`rankbook variant keep` keeps one.")
    return found


def keep(text: str, *, over: str | None = None) -> SavedVariant:
    """Keep the TOML under the variant's own name; `over` is the name of a kept one that it replaces."""
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


def drop(name: str, *, by: str = "") -> SavedVariant:
    """Move it into the trash. `restore` brings it back from there."""
    kept = get(name)
    if not kept.path.is_file():
        raise InputError("It is not a plain file, so it could not come back. Remove it yourself.", path=kept.path)
    now = datetime.now(UTC)
    size = len(kept.text.encode())
    entry = TrashEntry(new_id(), "variant", name, "", 1, size, by, now, now + retention(), {"file": kept.path.name})
    text, notes = _trash_files(entry.id)
    _write(notes, NOTES.dump_json(entry, indent=1).decode())
    try:
        _move(kept.path, text)
    except OSError as error:
        notes.unlink(missing_ok=True)
        raise InputError(f"The kept variant {name!r} cannot be deleted ({error.strerror}).", path=kept.path) from error
    return replace(kept, trash_entry=entry)


def put_back(before: SavedVariant) -> None:
    """Write the file as it was before, over whatever is there now."""
    _write(before.path, before.text)


def free_name(name: str) -> str:
    """The name, or the name with the first number by which it is free."""
    taken = {*presets.names(), *legs, *names(), UNNAMED}
    stem, number = name, 1
    while name in taken:
        number += 1
        name = f"{stem} {number}"
    return name


# -- the trash ---------------------------------------------------------------------------------------------------------


def trash_folder() -> Path:
    return home() / "trash" / "variants"


def in_trash() -> list[TrashEntry]:
    """Those in the trash, newest first. A file without its notes does not count, nor notes without their file."""
    entries = [entry for path in trash_folder().glob("*.json") if (entry := _read_note(path)) is not None]
    return sorted(entries, key=lambda each: (each.deleted_at, each.id), reverse=True)


def restore(entry: TrashEntry, *, name: str | None = None) -> SavedVariant:
    """Out of the trash, as the file that it was, or under another `name`. A name that is taken is refused."""
    text, notes = _trash_files(entry.id)
    try:
        written = read_small(text, "The variant", LARGEST_FILE).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        raise not_in_trash(entry) from None
    if name is not None and name != entry.name:
        _own_name(name)
        written = _with_name(written, name, text)
    wanted = name or entry.name
    if find(wanted) is not None:
        raise restore_conflict(entry, f"A variant called {wanted!r} is kept again.")
    path = folder() / str(entry.details["file"])
    if path.exists():
        path = _free_path(wanted)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _move(text, path)
    except FileNotFoundError:  # another process brought it back at this moment
        raise not_in_trash(entry) from None
    except OSError as error:
        raise InputError(f"The variant cannot be brought back ({error.strerror}).", path=path) from error
    if written != path.read_bytes().decode("utf-8", "surrogateescape"):
        _write(path, written)
    notes.unlink(missing_ok=True)
    return get(wanted)


def destroy(entry: TrashEntry) -> None:
    """The file for good."""
    text, notes = _trash_files(entry.id)
    try:
        text.unlink()
    except FileNotFoundError:
        raise not_in_trash(entry) from None
    notes.unlink(missing_ok=True)


def expire() -> list[TrashEntry]:
    """Destroy those that have lain in the trash for their time; which."""
    expired = [each for each in in_trash() if each.expired]
    for each in expired:
        with suppress(StoreError):  # another process did so at this moment
            destroy(each)
    return expired


def _move(source: Path, target: Path) -> None:
    """Also from one disk to another. The target of a link is copied, and stays where it is."""
    if source.is_symlink():
        shutil.copyfile(source, target)
        source.unlink()
    else:
        shutil.move(source, target)


def _trash_files(identity: str) -> tuple[Path, Path]:
    """The variant's own text, and the notes about it."""
    return trash_folder() / f"{identity}.toml", trash_folder() / f"{identity}.json"


def _read_note(notes: Path) -> TrashEntry | None:
    try:
        entry = NOTES.validate_json(read_small(notes, "The note", LARGEST_FILE))
    except (InputError, OSError, ValueError):
        return None
    file = str(entry.details.get("file"))
    sound = entry.id == notes.stem and Path(file).name == file and file.endswith(".toml")
    sound &= None not in (entry.deleted_at.tzinfo, entry.until.tzinfo)
    return entry if sound and notes.with_suffix(".toml").is_file() else None


def _with_name(text: str, name: str, path: Path) -> str:
    """The text with another name, and everything else as it was written."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        if "name" in document:
            document["name"] = name
            made = tomlkit.dumps(document)
        else:
            made = f"name = {tomlkit.item(name).as_string()}\n{text}"
        variant = Variant.from_toml(made)
    except (TOMLKitError, RankbookError, RecursionError) as error:
        raise InputError(f"It is not valid, so it cannot be given another name. {error}", path=path) from error
    if variant.name != name:
        raise InputError(f"The name {name!r} cannot be written into it. Free the old name first.", path=path)
    return made


# -- files -------------------------------------------------------------------------------------------------------------


def _read() -> Iterator[SavedVariant]:
    """Each file under a name of its own: the variant's name, or the file's where that is taken."""
    taken = {*presets.names(), *legs}
    for path in sorted(folder().glob("*.toml")):
        kept = _kept(path)
        name = next(each for each in (kept.name, path.stem, path.name) if each not in taken or each == path.name)
        taken.add(name)
        variant = kept.variant.but(name=name) if kept.variant and kept.variant.name != name else kept.variant
        yield SavedVariant(name, path, kept.text, variant, kept.problem)


def _kept(path: Path) -> SavedVariant:
    """The file as it was read before, unless it changed since. One that changed just now is read again: it may change
    once more within the resolution of the disk's clock.
    """
    try:
        found = path.stat()
    except (OSError, ValueError) as error:
        return SavedVariant(path.stem, path, "", None, f"It cannot be read ({getattr(error, 'strerror', error)}).")
    stamp = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)
    with _lock:
        if (known := _known.get(path)) is not None and known[0] == stamp:
            return known[1]
    kept = _parsed(path)
    with _lock:
        _known.pop(path, None)
        if time.time_ns() - found.st_mtime_ns > UNSURE:
            _known[path] = stamp, kept
        while len(_known) > MOST_KNOWN:
            _known.pop(next(iter(_known)))
    return kept


def _parsed(path: Path) -> SavedVariant:
    try:
        text = file_text(path, "It")
    except InputError as error:
        return SavedVariant(path.stem, path, "", None, error.message)
    try:
        variant = Variant.from_toml(text)
    except (RankbookError, RecursionError) as error:
        return SavedVariant(path.stem, path, text, None, str(error) or "It is nested too deeply to be read.")
    return SavedVariant(path.stem if variant.name == UNNAMED else variant.name, path, text, variant)


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
    """The whole text or nothing."""
    try:
        written = text.encode("utf-8")
        path.parent.mkdir(parents=True, exist_ok=True)
        atomic_files.write_whole(path, written, mode=0o600)
    except (OSError, UnicodeEncodeError) as error:
        why = "it holds half a character" if isinstance(error, UnicodeEncodeError) else error.strerror
        raise InputError(f"The variant cannot be kept ({why}).", path=path) from error
