"""The first version of document reading, kept for collections that were loaded by it.

It must not change, because another text would be another vector. A page's whole text is read, navigation included, and
an HTML page's <title> goes before its headings.
"""

from __future__ import annotations

import re

from evals.sources.readers.base import ReadDocument, split_front_matter
from evals.sources.readers.html import html_to_text
from evals.sources.readers.markdown import FENCE, without_closing

SUFFIXES = (".md", ".markdown", ".txt", ".html", ".htm")
_HEADING = re.compile(r"^ {0,3}#{1,6}[ \t]+(.*)$")


def read_first(name: str, raw: bytes) -> ReadDocument:
    raw, notes = raw.removeprefix(b"\xef\xbb\xbf"), tuple[str, ...]()
    try:
        source = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        source = raw.decode("utf-8", "replace")
        notes = (f"Bytes that are not UTF-8, first on line {line}, became U+FFFD.",)
    metadata, body, problem = split_front_matter(source)
    trouble = f"The front matter is not valid YAML and was left out: {problem}." if problem else ""
    heading = ""
    if name.lower().endswith((".html", ".htm")):
        heading, body, problem = html_to_text(body)
        trouble = trouble or (f"The HTML is malformed; its tags were stripped: {problem}." if problem else "")
    title = metadata.pop("title", None)
    title = str(title) if title is not None else heading or _first_heading(body) or None
    return ReadDocument(body, title, metadata, (*notes, *filter(None, (trouble,))))


def _first_heading(text: str) -> str:
    """The first Markdown heading of any level outside a fenced block."""
    fenced = False
    for line in text.splitlines():
        fenced ^= bool(FENCE.match(line))
        if not fenced and line.lstrip().startswith("#") and (heading := _HEADING.match(line)):
            return without_closing(heading[1].strip())
    return ""
