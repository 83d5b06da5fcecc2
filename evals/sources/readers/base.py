"""The contract of document readers, their registry, and what they share: text decoding, front matter and titles.

A reader turns the bytes of one file into its text and title, and knows nothing of folders and ids. A file that it
cannot read it refuses with an InputError of one sentence.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import yaml

from core.registry import Registry
from evals.sources.rows import plain

MAX_FRONT_MATTER = 64 * 1024
_OPENING = re.compile(r"\A---[ \t]*\r?\n")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class ReadDocument:
    """The content of one file. `title` is None if the file has none; `notes` say what was left out or repaired."""

    text: str
    title: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Reader(ABC):
    """A reader of one kind of file. Isolated readers use third-party parsers, so they run in a process with limits."""

    suffixes: ClassVar[tuple[str, ...]]
    extra: ClassVar[str] = ""  # the name of the optional dependencies that it needs
    isolated: ClassVar[bool] = False

    @abstractmethod
    def read(self, raw: bytes) -> ReadDocument:
        """The document in the file's bytes, or InputError."""

    @classmethod
    def available(cls) -> bool:
        """Whether its dependencies are installed."""
        return True


readers: Registry[type[Reader]] = Registry("reader")


def decode(raw: bytes) -> tuple[str, tuple[str, ...]]:
    """The text of UTF-8 (or of UTF-16 with a byte order mark), and a note where bytes had to be replaced."""
    for mark in (b"\xff\xfe", b"\xfe\xff"):
        if raw.startswith(mark):
            return raw.decode("utf-16", "replace"), ()
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode("utf-8"), ()
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return raw.decode("utf-8", "replace"), (f"Bytes that are not UTF-8, first on line {line}, became U+FFFD.",)


def title_and_metadata(metadata: Mapping[str, Any], heading: str) -> tuple[str | None, dict[str, Any]]:
    """The title and the remaining metadata. A title in the front matter goes before the first heading."""
    rest = dict(metadata)
    title = rest.pop("title", None)
    return (str(title) if title not in (None, "") else heading).strip() or None, rest


class _Loader(yaml.SafeLoader):
    """Safe loading without aliases: a few nested ones can expand to gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not taken")
        return super().compose_node(parent, index)


def split_front_matter(text: str) -> tuple[dict[str, Any], str, str]:
    """(metadata, body, problem) of a text that may open with a YAML block between two `---` lines.

    A first line `---` that opens no mapping is a horizontal rule, and stays in the body.
    """
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end(), opening.end() + MAX_FRONT_MATTER) if opening else None
    if opening is None or closing is None:
        return {}, text, ""
    body = text[closing.end() :].lstrip("\r\n")
    try:
        fields = yaml.load(text[opening.end() : closing.start()], _Loader)  # noqa: S506, a SafeLoader
    except Exception as error:  # PyYAML's constructors raise whatever their parsing happens to raise
        mark = getattr(error, "problem_mark", None)
        problem = getattr(error, "problem", None) or str(error).split("\n", maxsplit=1)[0] or type(error).__name__
        return {}, body, f"{problem} (line {mark.line + 2})" if mark is not None else str(problem)
    if fields is not None and not isinstance(fields, dict):
        return {}, text, ""
    return plain(fields or {}), body, ""


def decode_parts(raw: bytes) -> tuple[dict[str, Any], str, tuple[str, ...]]:
    """(metadata, body, notes) of a text file that may begin with front matter."""
    source, notes = decode(raw)
    metadata, body, problem = split_front_matter(source)
    if problem:
        notes = (*notes, f"The front matter is not valid YAML and was left out: {problem}.")
    return metadata, body, notes
