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
    """One's own folder, which need not be there yet."""

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
        return created(self.folder / f"{name}{ENDING}", notebook)

    def free(self, name: str) -> str:
        """This name, or with a number behind it where there is such a notebook already."""
        taken, made, number = {*self.own(), *shipped_names()}, name, 2
        while made in taken:
            made, number = f"{name}-{number}", number + 1
        return made


def shelf() -> NotebookFolder:
    """The one that this process was started with."""
    chosen = os.environ.get(FOLDER)
    return NotebookFolder(Path(chosen).expanduser().absolute() if chosen else home() / "notebooks")


def shelf_of(path: Path) -> Path | None:
    """The folder that a file makes the shelf; none for what ships, which stands beside every shelf."""
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


def example(kind: str, ground: EvalContext | None = None) -> str:
    """Of that kind of cell. Without a collection it is about the demo."""
    if kind == NOTE:
        return TEXT
    source = kinds[kind].example
    if ground is None:
        return source
    options = read(source)
    changes: dict[tuple[str | int, ...], Any] = {
        (name,): value for name, value in _fitting(options, ground).items() if value != options.get(name)
    }
    return put(source, changes) if changes else source


def _fitting(options: dict[str, Any], ground: EvalContext) -> dict[str, Any]:
    """What of the example this collection would refuse, or not know, otherwise."""
    made = dict(options)
    labelled, embedded = ground.labelled, bool(ground.view.embedding_sets)
    if "query" in made and labelled.queries and ground.view.name != "handbook":
        made["query"] = labelled.queries[0].text
    if made.get("looked_on") not in (None, *labelled.splits) and labelled.splits:
        made["looked_on"] = next(iter(labelled.splits))
    if embedded:
        return made
    for name in ("variants", "legs"):
        if name in made:
            made[name] = list(dict.fromkeys(_wordly(each) for each in made[name]))
    for name in ("variant", "one", "other"):
        if name in made:
            made[name] = _wordly(made[name])
    if made.get("one") is not None and made.get("one") == made.get("other"):
        made["one"] = "fulltext"
    return made


def _wordly(name: str) -> str:
    """A leg that needs no vectors, in the place of what does."""
    return {"vector": "fulltext", "hybrid-retriever": "bm25"}.get(name, name)
