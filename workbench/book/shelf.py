"""The folder of somebody's notebooks, and beside it those that ship: names in, files out.

Owns what a name may be: it comes from an address bar, and never leads out of the folder. Reads no notebook.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from core.errors import InputError, UnknownName
from core.store.home import home
from workbench.book import files
from workbench.book.document import Notebook
from workbench.book.files import ENDING, NotebookFile

FOLDER = "RANKBOOK_NOTEBOOKS"
LONGEST = 120  # bytes: a file's name has room for 255 almost everywhere
_REFUSED = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|]|^\.|^\s|\s$|\.$")


@dataclass(frozen=True, slots=True)
class Found:
    """A notebook's file. One that ships is only read."""

    name: str
    path: Path
    shipped: bool = False


@dataclass(frozen=True, slots=True)
class Shelf:
    """One's own folder, which need not be there yet."""

    folder: Path

    def own(self) -> list[str]:
        """The notebooks that lie in the folder itself."""
        try:
            return sorted(path.stem for path in self.folder.glob(f"*{ENDING}") if path.is_file() and _fits(path.stem))
        except OSError as error:
            raise InputError(f"The folder of notebooks cannot be read ({error.strerror}).", path=self.folder) from error

    def find(self, name: str) -> Found:
        """One's own by that name, or the one that ships."""
        if _fits(name) and (path := self.folder / f"{name}{ENDING}").is_file():
            return Found(name, path)
        if name in files.shipped_names():
            return Found(name, files.shipped(name), shipped=True)
        raise UnknownName("notebook", name, [*self.own(), *files.shipped_names()])

    def create(self, name: str, notebook: Notebook) -> NotebookFile:
        """A new one of that name; one that is there is left alone."""
        name = name.strip().removesuffix(ENDING)
        if not _fits(name):
            raise InputError(
                f"{name[:80]!r} cannot be a notebook's name: it becomes a file's. Take letters, digits, - and _."
            )
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"The folder of notebooks cannot be made ({error.strerror}).", path=self.folder) from error
        return files.created(self.folder / f"{name}{ENDING}", notebook)

    def free(self, name: str) -> str:
        """This name, or with a number behind it where there is such a notebook already."""
        taken, made, number = {*self.own(), *files.shipped_names()}, name, 2
        while made in taken:
            made, number = f"{name}-{number}", number + 1
        return made


def shelf() -> Shelf:
    """The one that this process was started with."""
    chosen = os.environ.get(FOLDER)
    return Shelf(Path(chosen).expanduser().absolute() if chosen else home() / "notebooks")


def shelf_of(path: Path) -> Path | None:
    """The folder that a file makes the shelf; none for what ships, which stands beside every shelf."""
    if path.parent.resolve() == files.shipped_folder().resolve():
        return None
    if path.suffix != ENDING or not _fits(path.stem):
        raise InputError(f"Notebooks are opened by names that end in {ENDING}. Give the file such a name.", path=path)
    return path.parent.absolute()


def address_of(path: Path) -> str:
    """The page of that notebook, as an address has it."""
    return f"/notebook?notebook={quote(path.stem)}"


def _fits(name: str) -> bool:
    try:
        return bool(name) and len(name.encode()) <= LONGEST and not _REFUSED.search(name)
    except UnicodeEncodeError:
        return False
