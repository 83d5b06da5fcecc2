"""Files of notebooks: read, saved, listed in their folder, and the examples that come along."""

from __future__ import annotations

import hashlib
import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from core import atomic_files
from core.errors import InputError, UnknownName
from core.home import home
from core.small_files import read_small
from evals.evaluation.context import EvalContext
from evals.sources.bundled import datasets_root
from workbench.notebooks.cells import kinds
from workbench.notebooks.document import NOTE, Notebook
from workbench.services.toml_edit import put, read

ENDING = ".md"
LARGEST = 16 * 2**20  # bytes of a notebook, which people write by hand
STARTER = Path(__file__).with_name("starter.md")
_saving = threading.Lock()  # two windows of one workbench, where files cannot be locked


class ChangedOnDisk(InputError):
    """The file has changed since it was read, and nothing was written.

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
    """A notebook, its path, and the digest of the file as it was read or written."""

    path: Path
    notebook: Notebook
    digest: bytes

    @property
    def changed_on_disk(self) -> bool:
        content = _content(self.path)
        return content is None or _digest(content) != self.digest


def read_notebook(path: Path, *, like: Notebook | None = None) -> NotebookFile:
    """The notebook in a file. `like` is an earlier state of it, whose identities are kept."""
    content = _content(path)
    if content is None:
        raise InputError("There is no notebook here. Begin one with `rankbook notebook new`.", path=path)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise InputError("The notebook is not UTF-8.", path=path, line=line) from error
    return NotebookFile(path, Notebook.parse(text, like=like), _digest(content))


def save_notebook(file: NotebookFile, notebook: Notebook) -> NotebookFile:
    """Write the notebook into the file; refused where another program changed it meanwhile."""
    content = notebook.text.encode()
    path = file.path.resolve()  # a link stays one, and what it points to is written
    try:
        with _saving, atomic_files.locked(path):  # other processes look and write between our look and our writing
            on_disk = _content(path)
            if on_disk is None or _digest(on_disk) != file.digest:
                text = None if on_disk is None else on_disk.decode("utf-8", "replace")
                raise ChangedOnDisk(file.path, text, notebook)
            if not os.access(path, os.W_OK):
                raise InputError("The notebook may not be written. Save it under another name.", path=file.path)
            if content != on_disk:
                atomic_files.write_whole(path, content)
    except OSError as error:
        raise InputError(f"The notebook cannot be written ({error.strerror or error}).", path=path) from error
    return NotebookFile(file.path, notebook, _digest(content))


def create_notebook(path: Path, notebook: Notebook) -> NotebookFile:
    """A new file with that notebook in it. A file that is there is left alone."""
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


def _digest(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=16).digest()


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


def find_notebook(reference: str) -> Path:
    """A file, with or without its ending, or one that ships. Files come first."""
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


FOLDER = "RANKBOOK_NOTEBOOKS"
LONGEST = 120  # bytes: a file's name has room for 255 almost everywhere
_REFUSED = re.compile(r"[\x00-\x1f\x7f/\\:*?\"<>|]|^\.|^\s|\s$|\.$")


@dataclass(frozen=True, slots=True)
class NotebookPath:
    """A notebook's file. One that ships is only read."""

    name: str
    path: Path
    shipped: bool = False


@dataclass(frozen=True, slots=True)
class NotebookFolder:
    """The folder of one's own notebooks, which need not exist yet."""

    folder: Path

    def own(self) -> list[str]:
        """The notebooks that lie in the folder itself."""
        try:
            return sorted(path.stem for path in self.folder.glob(f"*{ENDING}") if path.is_file() and _fits(path.stem))
        except OSError as error:
            raise InputError(f"The folder of notebooks cannot be read ({error.strerror}).", path=self.folder) from error

    def find(self, name: str) -> NotebookPath:
        """One's own by that name, or the one that ships."""
        if _fits(name) and (path := self.folder / f"{name}{ENDING}").is_file():
            return NotebookPath(name, path)
        if name in shipped_names():
            return NotebookPath(name, shipped(name), shipped=True)
        raise UnknownName("notebook", name, [*self.own(), *shipped_names()])

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
        return create_notebook(self.folder / f"{name}{ENDING}", notebook)

    def free(self, name: str) -> str:
        """This name, or with a number behind it where there is such a notebook already."""
        taken, free, number = {*self.own(), *shipped_names()}, name, 2
        while free in taken:
            free, number = f"{name}-{number}", number + 1
        return free


def own_folder() -> NotebookFolder:
    """The folder that this process was started with."""
    chosen = os.environ.get(FOLDER)
    return NotebookFolder(Path(chosen).expanduser().absolute() if chosen else home() / "notebooks")


def folder_of(path: Path) -> Path | None:
    """The folder that becomes one's own when this file is opened; none for what ships."""
    if path.parent.resolve() == shipped_folder().resolve():
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


TEXT = "Write what you want to remember: a question, what you expect, what you found.\n"
WITHOUT_VECTORS = {"vector": "fulltext", "hybrid-retriever": "bm25"}  # what takes their place


def example(kind: str, opened: EvalContext | None = None) -> str:
    """A source of that kind of cell to begin with, fit for the collection; without one it is about the demo."""
    if kind == NOTE:
        return TEXT
    source = kinds[kind].example
    if opened is None:
        return source
    options = read(source)
    fit, labelled = dict(options), opened.labelled
    if "query" in fit and labelled.queries and opened.view.name != "handbook":
        fit["query"] = labelled.queries[0].text
    if fit.get("looked_on") not in (None, *labelled.splits) and labelled.splits:
        fit["looked_on"] = next(iter(labelled.splits))
    if not opened.view.embedding_sets:
        for name in fit.keys() & {"variants", "legs"}:
            fit[name] = list(dict.fromkeys(WITHOUT_VECTORS.get(each, each) for each in fit[name]))
        for name in fit.keys() & {"variant", "one", "other"}:
            fit[name] = WITHOUT_VECTORS.get(fit[name], fit[name])
        if fit.get("one") is not None and fit.get("one") == fit.get("other"):
            fit["one"] = "fulltext"
    changes: dict[tuple[str | int, ...], Any] = {
        (name,): value for name, value in fit.items() if value != options.get(name)
    }
    return put(source, changes) if changes else source
