"""TREC's SGML: documents and topics between tags, in files that no XML parser would take.

One pass, no nesting to speak of, tags in any case, memory bounded by the longest document allowed. XML of the same
shape is read by the same rules.
"""

from __future__ import annotations

import html
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import BinaryIO

from core.types import Flaw, Place, Row

MAX_DOCUMENT = 32 * 2**20
_READ = 256 * 1024
_TAG = re.compile(r"<(/?)([A-Za-z][\w.:-]{0,63})(?:\s[^<>]*)?/?>")
_MARKUP = re.compile(r"</?[A-Za-z][^<>]*>|<[!?][^<>]*>")
_BLANKS = re.compile(r"[ \t\r\f\v]+")


@dataclass
class _Scanner:
    """A window over the stream that knows its line and drops what is behind it."""

    stream: BinaryIO
    window: bytes = b""
    line: int = 1
    ended: bool = False

    def more(self) -> bool:
        block = self.stream.read(_READ)
        self.ended = not block
        self.window += block
        return bool(block)

    def drop(self, count: int) -> None:
        self.line += self.window.count(b"\n", 0, count)
        self.window = self.window[count:]


def read_blocks(stream: BinaryIO, file: str, tag: str) -> Iterator[Row[bytes] | Flaw]:
    """The bytes from each `<tag>` to its `</tag>`, both included, with the line of the opening one."""
    scanner = _Scanner(stream)
    mark = re.compile(rb"<(/?)" + re.escape(tag.encode()) + rb"(?:\s[^<>]*)?>", re.IGNORECASE)
    while _seek_opening(scanner, mark):
        place = Place(file, scanner.line)
        end = _closing(scanner, mark)
        if isinstance(end, str):
            yield Flaw(place, f"The <{tag}> that begins here {end}. It was left out.")
        else:
            yield Row(scanner.window[:end], place)
            scanner.drop(end)


def _seek_opening(scanner: _Scanner, mark: re.Pattern[bytes]) -> bool:
    while True:
        found = next((hit for hit in mark.finditer(scanner.window) if not hit[1]), None)
        if found:
            scanner.drop(found.start())
            return True
        # A tag may be cut by the window's edge, so what follows the last "<" stays, unless it is no tag at all.
        edge = scanner.window.rfind(b"<")
        scanner.drop(edge if 0 <= edge > len(scanner.window) - 4096 else len(scanner.window))
        if not scanner.more():
            return False


def _closing(scanner: _Scanner, mark: re.Pattern[bytes]) -> int | str:
    """Where the block that opens the window ends, or what is wrong with it; the bad part is dropped then."""
    start = 1
    while True:
        found = mark.search(scanner.window, start)
        if found and found[1]:
            return found.end()
        if found:
            scanner.drop(found.start())
            return "is not closed before the next one"
        start = max(start, len(scanner.window) - 4096)
        if len(scanner.window) > MAX_DOCUMENT:
            scanner.drop(len(scanner.window))
            return f"is longer than {MAX_DOCUMENT:,} bytes"
        if not scanner.more():
            scanner.drop(len(scanner.window))
            return "is not closed before the end of the file"


def fields_of(block: str) -> dict[str, list[str]]:
    """Outermost elements inside a block, by lower-case name, tags inside them stripped."""
    inner = block[block.find(">") + 1 : block.rfind("<")]
    last_close = {hit[2].lower(): hit.start() for hit in _TAG.finditer(inner) if hit[1]}
    fields: dict[str, list[str]] = defaultdict(list)
    name, start = "", 0
    for hit in _TAG.finditer(inner):
        tag = hit[2].lower()
        if not name and not hit[1] and last_close.get(tag, -1) > hit.start():
            name, start = tag, hit.end()
        elif name == tag and hit[1]:
            fields[name].append(flat_text(inner[start : hit.start()]))
            name = ""
    return dict(fields)


def loose_fields_of(block: str) -> dict[str, list[str]]:
    """As classic topics have it: a tag's content runs to the next tag, whether or not it is closed."""
    fields: dict[str, list[str]] = defaultdict(list)
    hits = list(_TAG.finditer(block))
    for hit, following in pairwise(hits):
        if not hit[1]:
            fields[hit[2].lower()].append(flat_text(block[hit.end() : following.start()]))
    return dict(fields)


def flat_text(markup: str) -> str:
    """Text without tags and entities; line breaks stay, they may end paragraphs."""
    bare = _MARKUP.sub(" ", markup.replace("<![CDATA[", " ").replace("]]>", " "))
    return "\n".join(_BLANKS.sub(" ", line).strip() for line in html.unescape(bare).split("\n")).strip()
