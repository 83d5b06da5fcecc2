"""What a text's lines are: headings, table rows, list items, code fences, prose. One pass.

Follows CommonMark where that is cheap. Owns no notion of tokens or sentences. Blank lines belong to no block; every
other line belongs to exactly one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Literal

BlockKind = Literal["heading", "row", "item", "fence", "prose"]
LineKind = Literal["blank", "heading", "underline", "rule", "row", "item", "fence", "text"]

# A form feed ends a line as it ends a page, so that no block but a fence runs over a page break.
_LINE = re.compile(r"[^\n\r\f]*+(?:\r\n|[\n\r\f])?")
_HEADING = re.compile(r" {0,3}(#{1,6})(?!#)(?=\s|$)")
_UNDERLINE = re.compile(r" {0,3}(?:=++|-++)[ \t]*+$")
_RULE = re.compile(r" {0,3}([-*_])[ \t]*+(?:\1[ \t]*+){2,}+$")
_ITEM = re.compile(r"([ \t]*+)(?:[-*+•]|(\d{1,9})[.)])[ \t]++(?=\S)")
_FENCE = re.compile(r"[ \t]*+(`{3,}+|~{3,}+)")
_TABLE_RULE = "|:- \t\r\n\f"


@dataclass(frozen=True, slots=True)
class TextBlock:
    """Lines that belong together, `end` exclusive and behind the line break.

    `group` is the table or list, counted from 1 in the text (0: neither); `number` the row or item in it, counted
    from 1 (0: a table's header). Nested items, and fences in items, carry the number of the outermost item.
    """

    start: int
    end: int
    kind: BlockKind
    level: int = 0
    title: str = ""
    group: int = 0
    number: int = 0


def lines(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Spans of the lines, their breaks included."""
    for match in _LINE.finditer(text, start, end):
        if match.end() > match.start():
            yield match.span()


def find_blocks(text: str) -> list[TextBlock]:
    scan = _Scan()
    for start, end in lines(text, 0, len(text)):
        scan.take(start, end, text[start:end])
        if text[end - 1] == "\f":
            scan.apart = True
    return _number_rows(text, scan.blocks)


def _classify(line: str) -> LineKind:
    body = line.strip()
    if not body:
        return "blank"
    first = body[0]
    if first.isalpha():
        return "text"
    if first == "|":
        return "row" if len(body) > 1 and body[-1] == "|" else "text"
    bare = line.rstrip()
    patterns: tuple[tuple[LineKind, re.Pattern[str]], ...] = (
        ("heading", _HEADING),
        ("underline", _UNDERLINE),
        ("rule", _RULE),
        ("fence", _FENCE),
        ("item", _ITEM),
    )
    return next((kind for kind, pattern in patterns if pattern.match(bare)), "text")


def _heading_title(line: str) -> str:
    """An ATX heading's words, without a closing run of `#`, which counts only after a space."""
    title = line.strip().lstrip("#").strip()
    bare = title.rstrip("#")
    return bare.rstrip() if not bare or bare[-1].isspace() else title


@dataclass
class _Scan:
    """Folds lines into blocks. `apart`: something ended the last block, so the next line cannot continue it."""

    blocks: list[TextBlock] = field(default_factory=list)
    apart: bool = True
    single: bool = False
    fence: str = ""
    groups: int = 0
    indent: int = 0

    def take(self, start: int, end: int, line: str) -> None:
        if self.fence:
            self._in_fence(end, line)
            return
        kind = _classify(line)
        if kind == "blank":
            self.apart = True
        elif kind == "heading":
            level = len(line.lstrip()) - len(line.lstrip().lstrip("#"))
            self._close(TextBlock(start, end, "heading", level, _heading_title(line)))
        elif kind == "fence":
            self._open_fence(start, end, line)
        elif kind == "row":
            self._row(start, end)
        elif kind == "item":
            self._item(start, end, line)
        elif kind == "text":
            self._text(start, end, line)
        else:
            self._rule(start, end, line)

    def _last(self, *kinds: BlockKind) -> TextBlock | None:
        last = self.blocks[-1] if self.blocks else None
        return last if last and last.kind in kinds else None

    def _list(self) -> TextBlock | None:
        """The list that is still open: its last item, or a fence inside that."""
        last = self._last("item", "fence")
        return last if last and last.group else None

    def _add(self, block: TextBlock) -> None:
        self.blocks.append(block)
        self.apart, self.single = False, True

    def _close(self, block: TextBlock) -> None:
        self._add(block)
        self.apart = True

    def _extend(self, end: int) -> None:
        self.blocks[-1] = replace(self.blocks[-1], end=end)
        self.single = False

    def _open_fence(self, start: int, end: int, line: str) -> None:
        mark = line.lstrip()
        if mark[0] == "`" and "`" in mark.lstrip("`"):  # ```code``` on one line is inline code
            self._text(start, end, line)
            return
        self.fence = mark[: len(mark) - len(mark.lstrip(mark[0]))]
        inside = self._list() if line.startswith((" ", "\t")) else None
        self._add(replace(inside or TextBlock(start, end, "fence"), start=start, end=end, kind="fence"))

    def _in_fence(self, end: int, line: str) -> None:
        self._extend(end)
        mark = line.strip()
        if mark.startswith(self.fence) and not mark.strip(self.fence[0]):
            self.fence, self.apart = "", True

    def _row(self, start: int, end: int) -> None:
        last = self._last("row")
        if self.apart or not last:
            self.groups += 1
        self._add(TextBlock(start, end, "row", group=self.groups))

    def _item(self, start: int, end: int, line: str) -> None:
        match = _ITEM.match(line)
        assert match  # noqa: S101 - told so by _classify
        last = self._list()
        # A wrapped line may begin with "1999. ": only a list's first number can interrupt a paragraph.
        if not last and not self.apart and self._last("prose") and match[2] not in {None, "1"}:
            self._extend(end)
            return
        indent = len(match[1].expandtabs(4))
        if not last:
            self.groups, self.indent = self.groups + 1, indent
        number = 1 if not last else last.number + (indent <= self.indent + 1)
        self._add(TextBlock(start, end, "item", group=self.groups, number=number))

    def _text(self, start: int, end: int, line: str) -> None:
        last = self._last("item", "prose")
        if last and not self.apart:
            self._extend(end)
        elif (within := self._list()) and line.startswith(("  ", "\t")):
            self._add(replace(within, start=start, end=end, kind="item"))
        else:
            self._add(TextBlock(start, end, "prose"))

    def _rule(self, start: int, end: int, line: str) -> None:
        """A line of marks: it makes a heading of the one line above it, else it stands alone.

        CommonMark would make a heading of a whole paragraph; in plain text such a line closes mails and tables.
        """
        mark = line.strip()
        above = self._last("prose") if self.single and not self.apart else None
        if above and mark[0] in "=-" and not mark.strip(mark[0]):
            self.blocks.pop()
            self._close(TextBlock(above.start, end, "heading", 1 if mark[0] == "=" else 2))
        else:
            self._close(TextBlock(start, end, "prose"))


def _number_rows(text: str, blocks: list[TextBlock]) -> list[TextBlock]:
    """Count rows within each table and name underlined headings: both need the lines that came before."""
    first_rows: dict[int, int] = {}
    for index, block in enumerate(blocks):
        if block.kind == "row":
            if block.group not in first_rows:
                first_rows[block.group] = index + 2 * _has_header(text, blocks[index : index + 2])
            blocks[index] = replace(block, number=max(0, index - first_rows[block.group] + 1))
        elif block.kind == "heading" and not block.title:
            above, *below = text[block.start : block.end].strip().splitlines()
            blocks[index] = replace(block, title=above.strip() if below else "")
    return blocks


def _has_header(text: str, top: list[TextBlock]) -> bool:
    """Whether a table's second line is the `|---|` that sets a header off."""
    if len({block.group for block in top}) != 1 or len(top) < 2:
        return False
    rule = text[top[1].start : top[1].end]
    return "-" in rule and not rule.strip(_TABLE_RULE)
