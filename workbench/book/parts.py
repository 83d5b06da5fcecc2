"""What a notebook is made of: prose as it stands, and cells, each the very characters of its file.

Owns how a cell's source is put between fences and taken from them. Knows nothing of what cells mean.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, replace

_OPENING = re.compile(r"\ufeff?(?P<indent> {0,3})(?P<fence>`{3,}|~{3,})(?P<info>[^\r\n]*)(?P<end>\r\n|\r|\n)?\Z")
_ENDS = re.compile(r"\r\n|\r|\n")
NOTE = "note"


@dataclass(frozen=True, slots=True)
class Prose:
    """Markdown between cells. `id` is its identity within a session."""

    id: str
    text: str

    @property
    def kind(self) -> str:
        return NOTE

    @property
    def blank(self) -> bool:
        return not self.text.strip()


@dataclass(frozen=True, slots=True)
class Cell:
    """A fenced cell: the opening line, the lines between, the closing line (empty where nobody closed it)."""

    id: str
    kind: str
    name: str
    opening: str
    body: str
    closing: str

    @property
    def text(self) -> str:
        return f"{self.opening}{self.body}{self.closing}"

    @property
    def source(self) -> str:
        """The lines between, as they are without the fence's indentation; they end in plain line feeds."""
        indent = len(_parts(self.opening)["indent"])
        return re.sub(rf"(?m)^ {{1,{indent}}}", "", unified(self.body)) if indent else unified(self.body)

    @property
    def closed(self) -> bool:
        return bool(self.closing)


Part = Prose | Cell


def unified(text: str) -> str:
    return _ENDS.sub("\n", text)


def _parts(opening: str) -> re.Match[str]:
    found = _OPENING.match(opening)
    if found is None:
        raise ValueError(f"{opening!r} opens no fence")  # a mistake of ours: the parser said that it does
    return found


def written(kind: str, source: str, name: str = "", *, identity: str = "", end: str = "\n") -> Cell:
    """A new cell, between a fence that is long enough."""
    cell = Cell(identity, kind, name, f"```{f'{kind} {name}'.strip()}{end}", "", f"```{end}")
    return with_source(cell, source)


def with_source(cell: Cell, source: str) -> Cell:
    """The cell with other lines between its fences, which grow where one of the lines would end the cell."""
    source = unified(source)
    if source and not source.endswith("\n"):
        source += "\n"
    if source == cell.source:
        return cell
    found = _parts(cell.opening)
    end, indent, fence = found["end"] or "\n", found["indent"], found["fence"]
    longest = max((len(run) for run in re.findall(rf"(?m)^ {{0,3}}({re.escape(fence[0])}+)[ \t]*$", source)), default=0)
    longer = fence[0] * max(len(fence), longest + 1)
    opening = cell.opening if longer == fence and found["end"] else _opened(cell.opening, fence, longer, end)
    closing = cell.closing
    if closing and longer != fence:
        closing = re.sub(rf"{re.escape(fence[0])}+", longer, closing, count=1)
    body = re.sub(r"(?m)^(?=.)", indent, source).replace("\n", end)
    return replace(cell, opening=opening, body=body, closing=closing)


def _opened(opening: str, fence: str, longer: str, end: str) -> str:
    return f"{_ENDS.sub('', opening.replace(fence, longer, 1))}{end}"


def finished(cell: Cell) -> Cell:
    """Closed, with a line's end behind it, so that something can follow."""
    found = _parts(cell.opening)
    end = found["end"] or "\n"
    if not cell.closed:
        opening = cell.opening if found["end"] else f"{cell.opening}{end}"
        body = cell.body if not cell.body or _ENDS.search(cell.body[-1]) else f"{cell.body}{end}"
        return replace(cell, opening=opening, body=body, closing=f"{found['indent']}{found['fence']}{end}")
    return cell if _ENDS.search(cell.closing[-1]) else replace(cell, closing=f"{cell.closing}{end}")


def named(part: Part, taken: set[str]) -> Part:
    """With an identity that is equal wherever the same text is read: a cell's name, or a digest of what it says."""
    if isinstance(part, Cell) and part.name:
        base = part.name
    else:
        content = part.text if isinstance(part, Prose) else part.source
        base = hashlib.blake2s(f"{part.kind}\n{content}".encode(errors="replace"), digest_size=4).hexdigest()
    identity, number = base, 2
    while identity in taken:
        identity, number = f"{base}-{number}", number + 1
    taken.add(identity)
    return replace(part, id=identity)
