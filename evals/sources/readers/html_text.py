"""HTML to the text that a chunker can use: headings in Markdown, one line a block, nothing of scripts and styles."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "dialog", "div", "dl", "dt"}
    | {"fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "li", "main", "nav", "ol", "option", "p"}
    | {"pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"}
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_DROPPED = frozenset({"script", "style", "template"})
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_DECLARATION = re.compile(r"<[!?][^<>]*+>")
# A tag with its attributes, quoted ones first because they may hold ">"; or a "<" that begins none. Possessive: linear.
_OPENING = re.compile(r"""<(/?)([A-Za-z][\w:-]*+)(?:(?:[^<>"']|"[^"<]*+"|'[^'<]*+')*+>|[^<>]*+>)|<""")


class _Text(HTMLParser):
    """Collects pieces; `pre` keeps its blanks, everywhere else runs of them become one."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pieces: list[str] = []
        self.title: list[str] = []
        self._in_title, self._dropping, self._verbatim = False, 0, 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002, HTMLParser's own signature
        if tag in _HEADINGS:
            self.pieces.append(f"\n\n{_HEADINGS[tag]} ")
        elif tag in _BLOCKS:
            self.pieces.append("\n- " if tag == "li" else "\n" if tag in ("tr", "dt", "dd") else "\n\n")
        elif tag == "br":
            self.pieces.append("\n")
        self._dropping += tag in _DROPPED
        self._verbatim += tag == "pre"
        self._in_title = self._in_title or (tag == "title" and not self.title)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _DROPPED and tag not in ("pre", "title"):
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in _HEADINGS or tag in _BLOCKS:
            self.pieces.append("\n" if tag in ("li", "tr", "dt", "dd") else "\n\n")
        elif tag in ("td", "th"):
            self.pieces.append(" | ")
        self._dropping = max(0, self._dropping - (tag in _DROPPED))
        self._verbatim = max(0, self._verbatim - (tag == "pre"))
        self._in_title = self._in_title and tag != "title"

    def handle_data(self, data: str) -> None:
        if self._in_title:
            self.title.append(data)
        elif self._verbatim and not self._dropping:
            self.pieces.append(data)
        elif not self._dropping:
            flowing = re.sub(r"\s+", " ", data)
            self.pieces.append(flowing.lstrip() if self.pieces and self.pieces[-1].endswith((" ", "\n")) else flowing)


def html_to_text(source: str) -> tuple[str, str, str]:
    """(title, text, problem). What the standard parser gives up on is stripped of its tags instead."""
    parser = _Text()
    try:
        parser.feed(_simplified(source))
        parser.close()
    except (AssertionError, ValueError, RecursionError) as error:  # e.g. `<![x`, which the parser asserts away
        return "", _tidy(html.unescape(_TAG.sub(" ", source))), str(error) or type(error).__name__
    return " ".join("".join(parser.title).split()), _tidy("".join(parser.pieces)), ""


def _simplified(source: str) -> str:
    """Bare tags and text only. The standard parser takes quadratic time over `<a <a <a` and other unclosed markup."""
    bare = _DECLARATION.sub(" ", _without_comments(source).replace("<![CDATA[", " "))
    return _OPENING.sub(lambda hit: f"<{hit[1]}{hit[2]}>" if hit[2] else "&lt;", bare)


def _without_comments(source: str) -> str:
    pieces, start = [], 0
    while (opened := source.find("<!--", start)) >= 0 and (closed := source.find("-->", opened + 4)) >= 0:
        pieces.append(source[start:opened])
        start = closed + 3
    return "".join([*pieces, source[start:]])


def _tidy(text: str) -> str:
    lines = [
        line.strip(" \t").removesuffix("|").rstrip() if "|" in line else line.rstrip(" \t") for line in text.split("\n")
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
