"""Markdown and plain text, as they are but without their front matter."""

from __future__ import annotations

import re

from evals.sources.readers.base import ReadDocument, Reader, decode_parts, readers, title_and_metadata

LONGEST_HEADING = 1000  # characters of a line that may be one
FENCE = re.compile(r"^ {0,3}(?:```|~~~)")
_ATX = re.compile(r"^ {0,3}#[ \t]+(.*)$")
_UNDERLINE = re.compile(r"^ {0,3}=+[ \t]*$")
_TAG = re.compile(r"<[^<>]*>")


@readers.register("markdown")
class MarkdownReader(Reader):
    """Markdown and plain text, and files of any ending that a person names and no other reader knows."""

    suffixes = (".md", ".markdown", ".txt")

    def read(self, raw: bytes) -> ReadDocument:
        metadata, body, notes = decode_parts(raw)
        title, metadata = title_and_metadata(metadata, first_title(body))
        return ReadDocument(body, title, metadata, notes)


def first_title(text: str) -> str:
    """The first heading of level 1 outside fenced blocks: `# Title`, a line underlined by `===`, or <h1>."""
    fenced, previous = False, ""
    for line in text.splitlines():
        fence = bool(FENCE.match(line))
        fenced ^= fence
        if fenced or fence:
            continue
        if len(line) > LONGEST_HEADING:
            previous = ""
        elif heading := _ATX.match(line):
            return without_closing(heading[1].strip())
        elif previous and _UNDERLINE.match(line):
            return previous
        elif title := _html_heading(line):
            return title
        else:
            previous = line.strip()
    return ""


def _html_heading(line: str) -> str:
    """The title of <h1 align="center">Title</h1>, which read-me files use to centre it."""
    lower = line.lower()
    if (at := lower.find("<h1")) < 0 or (end := lower.find("</h1>", at)) < 0:
        return ""
    return " ".join(_TAG.sub("", line[line.find(">", at) + 1 : end]).split())


def without_closing(heading: str) -> str:
    """`Title ##` is `Title`, and `C#` stays `C#`."""
    bare = heading.rstrip("#")
    return bare.rstrip() if bare != heading and (not bare or bare[-1] in " \t") else heading
