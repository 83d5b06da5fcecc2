"""What a reader of documents is, and the registry of them: the bytes of one file in, its text and title out.

A reader knows nothing of folders and ids. What it cannot read it refuses with an InputError of one sentence.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from core.registry import Registry

_ATX = re.compile(r"^ {0,3}#[ \t]+(.*)$")
_UNDERLINE = re.compile(r"^ {0,3}=+[ \t]*$")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)")
_TAG = re.compile(r"<[^<>]*>")
LONGEST_HEADING = 1000  # characters of a line that may be one


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """What one file holds. `title` is None where only the file's name is left; `notes` say what was not taken over."""

    text: str
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Reader(ABC):
    """One kind of file. Isolated readers run foreign parsers, in a process with limits of memory and time."""

    suffixes: ClassVar[tuple[str, ...]]
    extra: ClassVar[str] = ""  # the optional dependencies that it needs
    isolated: ClassVar[bool] = False

    @abstractmethod
    def read(self, raw: bytes) -> ReadDocument:
        """The document in the file's bytes, or InputError."""

    @classmethod
    def available(cls) -> bool:
        """Whether what it needs is installed."""
        return True


readers: Registry[type[Reader]] = Registry("reader")


def decoded(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """UTF-8 (or UTF-16 with its mark) as text, with replacement where it is neither; and what to say about that."""
    for mark in (b"\xff\xfe", b"\xfe\xff"):
        if raw.startswith(mark):
            return raw.decode("utf-16", "replace"), ()
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return raw.decode("utf-8", "replace"), (f"Bytes that are not UTF-8, first on line {line}, became U+FFFD.",)


def titled(metadata: Mapping[str, Any], heading: str) -> tuple[str | None, dict[str, Any]]:
    """The title by the rule of all readers, front matter before the first heading; and the metadata without it."""
    rest = dict(metadata)
    title = rest.pop("title", None)
    return (str(title) if title not in (None, "") else heading).strip() or None, rest


def first_title(text: str) -> str:
    """The first heading of level 1 in Markdown, outside fenced blocks: `# Title`, underlined by `===`, or <h1>."""
    before = ""
    for line in _outside_fences(text):
        if len(line) > LONGEST_HEADING:
            before = ""
        elif heading := _ATX.match(line):
            return without_closing(heading[1].strip())
        elif before and _UNDERLINE.match(line):
            return before
        elif title := _html_heading(line):
            return title
        else:
            before = line.strip()
    return ""


def _outside_fences(text: str) -> Iterator[str]:
    fenced = False
    for line in text.splitlines():
        fence = bool(_FENCE.match(line))
        fenced ^= fence
        if not fenced and not fence:
            yield line


def _html_heading(line: str) -> str:
    """As read-me files centre their titles: <h1 align="center">Title</h1>."""
    lower = line.lower()
    if (at := lower.find("<h1")) < 0 or (end := lower.find("</h1>", at)) < 0:
        return ""
    return " ".join(_TAG.sub("", line[line.find(">", at) + 1 : end]).split())


def without_closing(heading: str) -> str:
    """`Title ##` is `Title`, and `C#` stays `C#`."""
    bare = heading.rstrip("#")
    return bare.rstrip() if bare != heading and (not bare or bare[-1] in " \t") else heading
