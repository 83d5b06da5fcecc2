"""A notebook as a Markdown document: its parts, read and written without losing a character."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher, get_close_matches
from typing import Self

from core.errors import InputError, UnknownName
from workbench.notebooks import markdown
from workbench.notebooks.cells import kinds
from workbench.notebooks.shared import HEADER

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
    match = _OPENING.match(opening)
    if match is None:
        raise ValueError(f"{opening!r} opens no fence")  # a mistake of ours: the parser said that it does
    return match


def new_cell(kind: str, source: str, name: str = "", *, identity: str = "", end: str = "\n") -> Cell:
    """A new cell. Its fence is longer than any in the source."""
    cell = Cell(identity, kind, name, f"```{f'{kind} {name}'.strip()}{end}", "", f"```{end}")
    return with_source(cell, source)


def with_source(cell: Cell, source: str) -> Cell:
    """The cell with other lines between its fences, which grow where one of the lines would end the cell."""
    source = unified(source)
    if source and not source.endswith("\n"):
        source += "\n"
    if source == cell.source:
        return cell
    parts = _parts(cell.opening)
    end, indent, fence = parts["end"] or "\n", parts["indent"], parts["fence"]
    longest = max((len(run) for run in re.findall(rf"(?m)^ {{0,3}}({re.escape(fence[0])}+)[ \t]*$", source)), default=0)
    longer = fence[0] * max(len(fence), longest + 1)
    opening, closing = cell.opening, cell.closing
    if longer != fence or not parts["end"]:
        opening = _ENDS.sub("", opening.replace(fence, longer, 1)) + end
    if closing and longer != fence:
        closing = re.sub(rf"{re.escape(fence[0])}+", longer, closing, count=1)
    body = re.sub(r"(?m)^(?=.)", indent, source).replace("\n", end)
    return replace(cell, opening=opening, body=body, closing=closing)


def finished(cell: Cell) -> Cell:
    """The cell closed and with a line's end, so that something can follow it."""
    parts = _parts(cell.opening)
    end = parts["end"] or "\n"
    if not cell.closed:
        opening = cell.opening if parts["end"] else f"{cell.opening}{end}"
        body = cell.body if not cell.body or _ENDS.search(cell.body[-1]) else f"{cell.body}{end}"
        return replace(cell, opening=opening, body=body, closing=f"{parts['indent']}{parts['fence']}{end}")
    return cell if _ENDS.search(cell.closing[-1]) else replace(cell, closing=f"{cell.closing}{end}")


def named(part: Part, taken: set[str]) -> Part:
    """With an identity that is the same wherever this text is read: a cell's name, or a digest of its text."""
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


SIMILAR = 0.8  # how similar to a kind a word must be to be taken for a misspelt one
NAME = re.compile(r"[\w-]+\Z")


@dataclass(frozen=True, slots=True)
class Notebook:
    """The whole document. Every change gives a new one; the parts that it leaves alone keep text and identity."""

    parts: tuple[Part, ...] = ()

    @classmethod
    def parse(cls, text: str, *, like: Notebook | None = None) -> Self:
        """Parts that stand in `like`, an earlier state of the same document, keep their identities."""
        parts = tuple(_read(text))
        kept = _matched(like.parts, parts) if like else {}
        taken = set(kept.values())
        return cls(tuple(replace(p, id=kept[at]) if at in kept else named(p, taken) for at, p in enumerate(parts)))

    @property
    def text(self) -> str:
        return "".join(part.text for part in self.parts)

    @property
    def title(self) -> str:
        """The first heading of the prose."""
        titles = (markdown.title(part.text) for part in self.parts if isinstance(part, Prose))
        return next(filter(None, titles), "")

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells that run, in order. The command line counts them from 1."""
        return tuple(part for part in self.parts if isinstance(part, Cell) and part.kind != HEADER)

    @property
    def headers(self) -> tuple[Cell, ...]:
        """The cells with the options that all others share. There should be one, before all others, or none."""
        return tuple(part for part in self.parts if isinstance(part, Cell) and part.kind == HEADER)

    @property
    def shown(self) -> tuple[Part, ...]:
        """Without the prose that is nothing but blank lines."""
        return tuple(part for part in self.parts if isinstance(part, Cell) or not part.blank)

    def __getitem__(self, identity: str) -> Part:
        return self.parts[self._place(identity)]

    def cell(self, reference: str) -> Cell:
        """A cell by its number, from 1, its name or its identity."""
        cells = self.cells
        if reference.isdecimal() and 1 <= int(reference) <= len(cells):
            return cells[int(reference) - 1]
        for cell in cells:
            if reference in (cell.id, cell.name):
                return cell
        known = [cell.name or str(number) for number, cell in enumerate(cells, start=1)]
        raise UnknownName("cell of this notebook", reference, known, way_out="Cells are counted from 1.")

    def line_of(self, identity: str) -> int:
        """The line on which the part begins, from 1."""
        before = self.parts[: self._place(identity)]
        return 1 + len(markdown.lines("".join(part.text for part in before)))

    @property
    def doubts(self) -> tuple[tuple[int, str], ...]:
        """Fences that look like misspelt cells and so do not run, by line."""
        doubts = []
        for block in markdown.blocks(self.text):
            word = block.info.split()[0] if block.info else ""
            near = get_close_matches(word.lower(), [*kinds, HEADER], n=1, cutoff=SIMILAR)
            if near and not _is_cell(block.info):
                doubts.append(
                    (block.start + 1, f"{word!r} is no kind of cell, so it does not run. Meant: {near[0]!r}?")
                )
        return tuple(doubts)

    # -- changes -----------------------------------------------------------------------------------------------------

    def insert(self, kind: str, source: str, *, name: str = "", before: str | None = None) -> tuple[Self, str]:
        """The notebook with a new cell or note, before another part or at the end; and the new one's identity."""
        if kind not in (*kinds, HEADER, NOTE):
            raise UnknownName("kind of cell", kind, [*kinds, HEADER, NOTE])
        if name and not NAME.match(name):
            raise InputError(f"A cell's name is letters, digits, - and _, which {name!r:.80} is not.")
        end = self._line_end
        if kind == NOTE:
            new: Part = Prose("", source if source.endswith("\n") else f"{source}{end}")
        else:
            new = new_cell(kind, source, name, end=end)
        part = named(new, {each.id for each in self.parts})
        return self._with(self.parts, part, before), part.id

    def duplicate(self, identity: str) -> tuple[Self, str]:
        """The notebook with a copy of the part right behind it, and the copy's identity. A copy has no name."""
        part, place = self[identity], self._place(identity)
        follower = self.parts[place + 1].id if place + 1 < len(self.parts) else None
        source = part.text if isinstance(part, Prose) else part.source
        return self.insert(part.kind, source, before=follower)

    def move(self, identity: str, *, before: str | None = None) -> Self:
        """The notebook with the part before another, or at the end."""
        if identity == before:
            return self
        part = self[identity]
        others = tuple(each for each in self.parts if each.id != identity)
        return self._with(_apart(others, self._place(identity)), part, before)

    def delete(self, identity: str) -> Self:
        place = self._place(identity)
        return self._checked(_apart((*self.parts[:place], *self.parts[place + 1 :]), place))

    def replace(self, identity: str, source: str) -> Self:
        """The notebook with another source of a cell, or another text as prose, which may hold cells of its own."""
        part, place = self[identity], self._place(identity)
        before, after = self.parts[:place], self.parts[place + 1 :]
        if isinstance(part, Cell):
            return self._checked((*before, with_source(part, source), *after))
        if after and not source.endswith(("\n", "\r")):
            source += self._line_end
        changed = Notebook((*before, Prose(identity, source), *after))
        return type(self).parse(changed.text, like=changed)

    @property
    def _line_end(self) -> str:
        first = next(iter(markdown.lines(self.text)), "")
        return first[len(first.rstrip("\r\n")) :] or "\n"

    def _place(self, identity: str) -> int:
        for place, part in enumerate(self.parts):
            if part.id == identity:
                return place
        raise UnknownName("part of this notebook", identity, [part.id for part in self.parts])

    def _with(self, parts: tuple[Part, ...], part: Part, before: str | None) -> Self:
        """The part put in before another, with blank lines around it."""
        place = len(parts) if before is None else [each.id for each in parts].index(self[before].id)
        head, tail = parts[:place], parts[place:]
        if head and isinstance(head[-1], Cell):
            head = (*head[:-1], finished(head[-1]))
        if tail and isinstance(part, Cell):
            part = finished(part)
        joined: list[Part] = [*head]
        for each in (part, *tail[:1]):
            if joined and (blank := _blank(joined[-1].text, each.text, self._line_end)):
                joined.append(named(Prose("", blank), {one.id for one in (*parts, part, *joined)}))
            joined.append(each)
        return self._checked((*joined, *tail[1:]))

    def _checked(self, parts: Sequence[Part]) -> Self:
        """These parts, if they are the same cells when read again: a fence or comment left open would swallow some."""
        notebook = type(self)(tuple(part for part in parts if part.text))
        if _cells(notebook.parts) != _cells(tuple(_read(notebook.text))):
            raise InputError(
                "The prose above leaves a fence or an HTML comment open, which would swallow the cell. Close it first."
            )
        return notebook


# -- reading -----------------------------------------------------------------------------------------------------------


def _is_cell(info: str) -> bool:
    words = info.split()
    known = bool(words) and (words[0] in kinds or words[0] == HEADER)
    return known and len(words) <= 2 and all(NAME.match(word) for word in words[1:])


def _read(text: str) -> Iterator[Part]:
    lines, at = markdown.lines(text), 0
    for block in markdown.blocks(text):
        if not _is_cell(block.info):
            continue
        if block.start > at:
            yield Prose("", "".join(lines[at : block.start]))
        kind, *name = block.info.split()
        opening, *body = lines[block.start : block.end]
        fence = re.search(r"`{3,}|~{3,}", opening)
        mark = fence[0] if fence else "```"
        closing = re.compile(rf" {{0,3}}{re.escape(mark[0])}{{{len(mark)},}}[ \t]*[\r\n]*\Z")
        closed = bool(body) and closing.match(body[-1]) is not None
        yield Cell("", kind, "".join(name), opening, "".join(body[:-1] if closed else body), body[-1] if closed else "")
        at = block.end
    if at < len(lines):
        yield Prose("", "".join(lines[at:]))


def _cells(parts: Sequence[Part]) -> list[tuple[str, str, str]]:
    return [(part.kind, part.name, part.source) for part in parts if isinstance(part, Cell)]


def _matched(old: Sequence[Part], new: Sequence[Part]) -> dict[int, str]:
    """New parts that are old ones, with their identities: equal texts in order, then equal kinds between equal ones."""
    signs = [[(part.kind, unified(part.text)) for part in parts] for parts in (old, new)]
    kept: dict[int, str] = {}
    for what, a, b, c, d in SequenceMatcher(a=signs[0], b=signs[1], autojunk=False).get_opcodes():
        if what == "equal":
            kept |= {c + at: old[a + at].id for at in range(b - a)}
            continue
        unmatched = list(old[a:b])
        for at in range(c, d):
            same = next((part for part in unmatched if part.kind == new[at].kind), None)
            if same is not None:
                kept[at] = same.id
                unmatched = unmatched[unmatched.index(same) + 1 :]
    return kept


# -- spacing -----------------------------------------------------------------------------------------------------------


def _apart(parts: tuple[Part, ...], place: int) -> tuple[Part, ...]:
    """Keep prose apart where the part between was removed: a line right under another may make it a heading."""
    if not 0 < place < len(parts):
        return parts
    one, other = parts[place - 1], parts[place]
    blank = _blank(one.text, other.text, "\n") if isinstance(one, Prose) and isinstance(other, Prose) else ""
    if not blank:
        return parts
    return (*parts[:place], named(Prose("", blank), {part.id for part in parts}), *parts[place:])


def _blank(before: str, after: str, end: str) -> str:
    """The line ends that put an empty line between two texts; empty where there is one."""
    lines = unified(before).split("\n")
    if lines[-1].strip():
        return end * 2
    empty = len(lines) > 1 and not lines[-2].strip()
    return "" if empty or not unified(after).partition("\n")[0].strip() else end
