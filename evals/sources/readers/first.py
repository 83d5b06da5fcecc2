"""The first reader, for collections that were loaded by it. It must not change: another text would be another vector.

All of a page is its text, navigation included; the title of a page stands before its headings.
"""

from __future__ import annotations

import re

from evals.sources.front_matter import split_front_matter
from evals.sources.readers.base import ReadDocument, without_closing
from evals.sources.readers.html_text import html_to_text

SUFFIXES = (".md", ".markdown", ".txt", ".html", ".htm")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*)$")
_FENCE = re.compile(r"^ {0,3}(?:```|~~~)")


def read_first(name: str, raw: bytes) -> ReadDocument:
    source, problem = _decoded(raw)
    notes = (problem,) if problem else ()
    metadata, body, problem = split_front_matter(source)
    trouble = f"The front matter is not valid YAML and was left out: {problem}." if problem else ""
    title = ""
    if name.lower().endswith((".html", ".htm")):
        title, body, problem = html_to_text(body)
        trouble = trouble or (f"The HTML is malformed; its tags were stripped: {problem}." if problem else "")
    named = metadata.pop("title", None)
    chosen = str(named) if named is not None else title or _first_heading(body) or None
    return ReadDocument(body, chosen, metadata, (*notes, *([trouble] if trouble else ())))


def _decoded(raw: bytes) -> tuple[str, str]:
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    try:
        return raw.decode("utf-8"), ""
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        return raw.decode("utf-8", "replace"), f"Bytes that are not UTF-8, first on line {line}, became U+FFFD."


def _first_heading(text: str) -> str:
    """The first Markdown heading of any level outside a fenced block."""
    fenced = False
    for line in text.splitlines():
        fenced ^= bool(_FENCE.match(line))
        if not fenced and line.lstrip().startswith("#") and (heading := _HEADING.match(line)):
            return without_closing(heading[1].strip())
    return ""
