"""AsciiDoc as text with headings in Markdown: its blocks, lists, links and attributes, line by line.

No library on PyPI reads it without running a program. Includes are not followed, pass-through blocks stay text, and
unknown markup stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import zip_longest

from evals.sources.readers.base import ReadDocument, Reader, decode_parts, readers, title_and_metadata

LONGEST_LINE = 100_000  # characters; a longer one is kept as it is
MOST_ATTRIBUTES = 1000
LONGEST_VALUE = 1000
_HEADING = re.compile(r"^(={1,6}|#{1,6})[ \t]+(\S.*)$")
_ATTRIBUTE = re.compile(r"^:(!?[\w][\w-]*!?):(?:[ \t]+(.*))?$")
_REFERENCE = re.compile(r"\{([\w][\w-]*)\}")
_DELIMITER = re.compile(r"^(?:-{4,}|\.{4,}|={4,}|\*{4,}|_{4,}|\+{4,}|/{4,}|--|```[\w+-]*|[|,:!]={3,})[ \t]*$")
_BLOCK_LINE = re.compile(r"^\[(?:[^\[\]]|\[[^\[\]]*\])*\][ \t]*$")
_DIRECTIVE = re.compile(r"^(include|ifdef|ifndef|ifeval|endif|toc|image|video|audio)::([^\[\]]*)\[(.*)\][ \t]*$")
_BLOCK_TITLE = re.compile(r"^\.([^\s.].*)$")
_TERM = re.compile(r"^([^\s:][^:]{0,200}):{2,4}(?:[ \t]+(.*))?$")
UNDERLINES = "=-~^+"  # of titles over two lines, from the document's down
_LIST = re.compile(r"^[ \t]*(\*{1,6}|-|\.{1,6}|\d+\.)[ \t]+(\S.*)$")
_AUTHOR = re.compile(r"^[^\W\d_][\w.'-]*(?: [\w.'-]+){0,3}(?: <[^<>\s]+>)?$")
_LANGUAGE = re.compile(r"^\[(?:source|,)[^\]]*?,\s*([\w+-]+)")
# Inline: macros with a bracketed text, cross-references, anchors, and marks around words.
_MACRO = re.compile(
    r"(?<!\w)(link|xref|mailto|kbd|btn|menu|footnote|image|icon|pass|stem|anchor):{1,2}"
    r"([^\s\[\]]{0,500})\[([^\[\]]{0,1000})\]"
)
_NAMED = frozenset({"link", "xref", "mailto", "menu"})  # a macro without a text shows what it points at
_URL = re.compile(r"(https?://[^\s\[\]<>]{1,300})\[([^\[\]]{0,1000})\]")
_CROSS = re.compile(r"<<([^<>,]{1,200})(?:,([^<>]{0,500}))?>>")
_ANCHOR = re.compile(r"\[\[\[[^\[\]]{1,200}\]\]\]|\[\[[^\[\]]{1,200}\]\]|\[#[^\[\]]{1,200}\](?=\S)")
_BOLD = re.compile(r"(?<![\w*])\*{1,2}(?=\S)([^*\n]{1,1000}?)(?<=\S)\*{1,2}(?![\w*])")
_ITALIC = re.compile(r"(?<![\w_])_{1,2}(?=\S)([^_\n]{1,1000}?)(?<=\S)_{1,2}(?![\w_])")
_SPAN = re.compile(r"\[[.%#][\w.%#-]{1,100}\](?=#)")
_MARKED = re.compile(r"(?<![\w#])#{1,2}(?=\S)([^#\n]{1,1000}?)(?<=\S)#{1,2}(?![\w#])")


@readers.register("asciidoc")
class AsciiDocReader(Reader):
    """AsciiDoc, without what it includes."""

    suffixes = (".adoc", ".asciidoc")

    def read(self, raw: bytes) -> ReadDocument:
        metadata, body, notes = decode_parts(raw)
        page = _AsciiDocPage()
        text = "\n".join(page.lines(body.splitlines()))
        text = re.sub(r"\n{3,}", "\n\n", text).strip()
        if page.includes:
            named = ", ".join(dict.fromkeys(page.includes))
            notes = (*notes, f"Not followed: include {named[:300]}. The files that it names are read by themselves.")
        title, metadata = title_and_metadata(metadata, page.title)
        return ReadDocument(text, title, metadata, notes)


@dataclass
class _AsciiDocPage:
    """The state of reading one page."""

    title: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    includes: list[str] = field(default_factory=list)
    language: str = ""
    in_header: bool = True

    def lines(self, source: list[str]) -> Iterator[str]:
        """The page's lines as Markdown. A block stays open until its delimiter comes again."""
        opened: list[str] = []
        underline = False
        for line, after in zip_longest(source, source[1:], fillvalue=""):
            mark = line.rstrip()
            inner = opened[-1] if opened else ""
            if underline:
                underline = False
                continue
            below = after.rstrip()
            # A title over two lines: the second is one sign over and over, about as long.
            underline = not _verbatim(inner) and len(below) > 2 and below[0] in UNDERLINES and mark[:1].isalnum()
            if underline := underline and not below.strip(below[0]) and abs(len(mark) - len(below)) <= 2:
                yield from self._heading("=" * (UNDERLINES.index(after[0]) + 1), self._inline(mark))
                continue
            if len(mark) < LONGEST_LINE and _DELIMITER.match(mark):
                kind = "```" if mark.startswith("```") else mark
                if opened and kind in opened:
                    del opened[opened.index(kind) :]
                    yield from _edge(kind, "")
                    continue
                if not _verbatim(inner):
                    opened.append(kind)
                    yield from _edge(kind, self.language or (mark[3:] if kind == "```" else ""))
                    self.language = ""
                    continue
            if inner.startswith("////"):
                continue
            yield from (line,) if _verbatim(inner) or len(line) > LONGEST_LINE else self._line(mark, inner)

    def _line(self, line: str, inner: str) -> Iterator[str]:
        if not line.strip():
            self.in_header = self.in_header and not self.title
            yield ""
        elif line.startswith("//") and not line.startswith("///"):
            return
        elif attribute := _ATTRIBUTE.match(line):
            self._set_attribute(attribute[1], attribute[2] or "")
        elif directive := _DIRECTIVE.match(line):
            yield from self._directive(directive[1], directive[2], directive[3])
        elif _BLOCK_LINE.match(line):
            language = _LANGUAGE.match(line)
            self.language = language[1] if language else ""
        elif heading := _HEADING.match(line):
            yield from self._heading(heading[1], self._inline(heading[2]))
        elif self.in_header and self.title and (_AUTHOR.match(line) or re.match(r"^v?\d[\w.]*(?:, .*)?$", line)):
            return  # the author and revision lines under a document's title
        elif line == "+" or line in ("'''", "<<<"):
            yield ""
        else:
            self.in_header = False
            yield from self._text(line, inner)

    def _set_attribute(self, name: str, value: str) -> None:
        if name in ("title", "doctitle") and value and not self.title:
            self.title = value.strip()
        if len(self.attributes) < MOST_ATTRIBUTES and not name.startswith("!") and not name.endswith("!"):
            self.attributes[name.lower()] = self._filled(value)[:LONGEST_VALUE]

    def _directive(self, name: str, target: str, text: str) -> Iterator[str]:
        if name == "include":
            self.includes.append(target[:100])
        elif name == "image" and (alt := text.split(",", maxsplit=1)[0].strip('" ')):
            yield alt
        elif name in ("ifdef", "ifndef") and text:
            yield self._inline(text)

    def _heading(self, marks: str, text: str) -> Iterator[str]:
        if len(marks) == 1 and not self.title:
            self.title = text
        else:
            self.in_header = False
        yield from ("", f"{'#' * len(marks)} {text}", "")

    def _text(self, line: str, inner: str) -> Iterator[str]:
        if inner.startswith(("|=", ",=", ":=", "!=")):
            cells = [cell.strip() for cell in self._inline(line).split("|")]
            yield " | ".join(cell for cell in cells if cell)
        elif title := _BLOCK_TITLE.match(line):
            yield self._inline(title[1])
        elif entry := _LIST.match(line):
            depth = len(entry[1]) if entry[1][0] in "*." else 1
            mark = "-" if entry[1][0] in "*-" else "1."
            yield f"{'  ' * (depth - 1)}{mark} {self._inline(entry[2])}"
        elif term := _TERM.match(line):
            yield self._inline(f"{term[1]}: {term[2] or ''}".strip())
        else:
            yield self._inline(line.removesuffix(" +"))

    def _filled(self, text: str) -> str:
        return _REFERENCE.sub(lambda hit: self.attributes.get(hit[1].lower(), hit[0]), text)

    def _inline(self, text: str) -> str:
        text = self._filled(text)
        text = _URL.sub(lambda hit: hit[2].split(",")[0].rstrip("^") or hit[1], text)
        text = _MACRO.sub(lambda hit: hit[3].rstrip("^") or (hit[2] if hit[1] in _NAMED else ""), text)
        text = _CROSS.sub(lambda hit: (hit[2] or hit[1]).strip(), text)
        text = _SPAN.sub("", _ANCHOR.sub("", text))
        for marks in (_BOLD, _ITALIC, _MARKED):
            text = marks.sub(r"\1", text)
        return text


def _verbatim(delimiter: str) -> bool:
    return delimiter.startswith(("----", "....", "++++", "////", "```"))


def _edge(delimiter: str, language: str) -> Iterator[str]:
    """The line that opens or closes a block: a fence where its text is code, else an empty line."""
    yield f"```{language}" if delimiter.startswith(("----", "....", "```")) else ""
