"""Notebooks on disk: read as they are, written whole or not at all, and never over somebody else's change in silence.

Owns the folder side; what stands in a notebook is not looked at here.
"""

from __future__ import annotations

import hashlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from core import atomic_files
from core.errors import InputError, UnknownName
from core.small_files import read_small
from evals.sources.bundled import datasets_root
from workbench.book.document import Notebook

ENDING = ".md"
LARGEST = 16 * 2**20  # bytes of a notebook; its cells and prose are somebody's own words
STARTER = Path(__file__).with_name("starter.md")
_saving = threading.Lock()  # two windows of one workbench, where files cannot be locked


class ChangedOnDisk(InputError):
    """The file is not what it was when it was opened, and nothing was written. Both versions are here.

    `text` is what the file holds now, None where it is gone; `unsaved` is the notebook that was to be saved.
    """

    def __init__(self, path: Path, text: str | None, unsaved: Notebook) -> None:
        self.text, self.unsaved = text, unsaved
        what = "was removed" if text is None else "was changed by somebody else"
        super().__init__(
            f"The notebook {what} since it was opened, so it was not written over. Read it again, or save this one "
            "under another name.",
            path=path,
        )


@dataclass(frozen=True, slots=True)
class NotebookFile:
    """A notebook with its place, and the digest of what stood there when it was read or written."""

    path: Path
    notebook: Notebook
    digest: bytes

    @property
    def changed_on_disk(self) -> bool:
        return _digest_at(self.path) != self.digest


def opened(path: Path, *, like: Notebook | None = None) -> NotebookFile:
    """The notebook in a file. `like` is an earlier state of it, whose identities are kept."""
    content = _content(path)
    if content is None:
        raise InputError("There is no notebook here. Begin one with `rankbook notebook new`.", path=path)
    return NotebookFile(path, Notebook.parse(_text(content, path), like=like), _digest(content))


def saved(file: NotebookFile, notebook: Notebook) -> NotebookFile:
    """The file with that notebook in it; refused where somebody else changed it meanwhile."""
    content = notebook.text.encode()
    path = file.path.resolve()  # a link stays one, and what it points to is written
    try:
        with _saving, atomic_files.locked(path):  # other processes look and write between our look and our writing
            there = _content(path)
            if there is None or _digest(there) != file.digest:
                raise ChangedOnDisk(file.path, None if there is None else there.decode("utf-8", "replace"), notebook)
            if not os.access(path, os.W_OK):
                raise InputError("The notebook may not be written. Save it under another name.", path=file.path)
            if content != there:
                atomic_files.write_whole(path, content)
    except OSError as error:
        raise InputError(f"The notebook cannot be written ({error.strerror or error}).", path=path) from error
    return NotebookFile(file.path, notebook, _digest(content))


def created(path: Path, notebook: Notebook) -> NotebookFile:
    """A new file with that notebook in it; one that is there is left alone."""
    content = notebook.text.encode()
    try:
        atomic_files.create_whole(path, content)
    except FileExistsError as error:
        raise InputError("There is a file of that name already, and it was left alone. Take another.", path=path) from (
            error
        )
    except OSError as error:
        raise InputError(f"The notebook cannot be written ({error.strerror}).", path=path) from error
    return NotebookFile(path, notebook, _digest(content))


def _content(path: Path) -> bytes | None:
    try:
        return read_small(path, "The notebook", LARGEST)
    except FileNotFoundError:
        return None


def _text(content: bytes, path: Path) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError("The notebook is not UTF-8.", path=path, line=line) from error


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


def _digest_at(path: Path) -> bytes | None:
    content = _content(path)
    return None if content is None else _digest(content)


# -- what ships --------------------------------------------------------------------------------------------------------


def shipped_folder() -> Path:
    return datasets_root() / "notebooks"


def shipped_names() -> list[str]:
    """The finished notebooks that come with Rankbook."""
    return sorted(path.stem for path in shipped_folder().glob(f"*{ENDING}"))


def shipped(name: str) -> Path:
    if name not in shipped_names():
        raise UnknownName("notebook that ships", name, shipped_names())
    return shipped_folder() / f"{name}{ENDING}"


def meant(reference: str) -> Path:
    """A file, with or without its ending, or one that ships. Files come first: a notebook is made to be one's own."""
    path = Path(reference).expanduser()
    for each in (path, path.with_name(f"{path.name}{ENDING}") if path.name else path):
        if each.is_file():
            return each
    if reference in shipped_names():
        return shipped(reference)
    raise InputError(
        f"There is no such file, and no notebook of that name ships. There is: {', '.join(shipped_names())}.",
        path=reference,
    )
