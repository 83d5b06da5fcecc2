"""HTML pages: their main part without navigation, headers, footers and permalinks, as text with Markdown headings.

The main part is the one that the page marks (<main>, role="main", the body of Sphinx and MkDocs themes). In a page
without such a mark, elements are left out that are named as navigation or hold little but links. On pages of each
shape, an extractor made for news (trafilatura) lost the line ends of code and kept the menus of short pages.
"""

from __future__ import annotations

import re
from html import unescape
from html.parser import HTMLParser
from typing import Any

from evals.sources.readers.base import ReadDocument, Reader, decode_parts, readers, title_and_metadata

MOST_LINKS = 0.6  # share of a block's characters that stand in links, above which it is a menu
FEWEST_LINKS = 3
_MAIN = (
    ".//*[@role='main']",
    ".//main",
    ".//*[@itemprop='articleBody']",
    ".//article",
    ".//*[@id='main-content' or @id='content' or @id='main']",
)
_BODY = "descendant-or-self::*[contains(concat(' ', normalize-space(@class), ' '), ' {} ')]"
_THEME_BODIES = ("md-content__inner", "rst-content", "body", "markdown-body", "content")
_DROPPED = frozenset(
    {"script", "style", "template", "noscript", "nav", "button", "input", "select", "textarea", "svg", "iframe"}
)
_ROLES = frozenset({"navigation", "search", "banner", "contentinfo", "doc-toc", "complementary"})
# Classes that documentation tools give to furniture, in the main part too.
_CLASSES = frozenset(
    {"md-source-file", "sphinxsidebar", "toctree-wrapper", "breadcrumb", "breadcrumbs", "wy-breadcrumbs", "copybtn"}
    | {"rst-footer-buttons", "prev-next-area", "pagination", "related", "linenos", "lineno", "linenodiv"}
)
_LINK_CLASSES = frozenset(
    {"headerlink", "header-anchor", "anchor-link", "hash-link", "anchor", "viewcode-link", "skip-link", "md-skip"}
    | {"md-content__button", "edit-page-link"}
)
# Words in ids and classes that name a part of a page without landmarks.
_PARTS = frozenset(
    {"header", "footer", "menu", "nav", "navbar", "navigation", "sidebar", "breadcrumb", "breadcrumbs", "toc", "cookie"}
    | {"banner", "search", "social", "share", "pagination", "advert", "ads", "modal", "skip"}
)
# Characters that lxml parses and then refuses as the text of an element.
_UNSETTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_WORDS = re.compile(r"[A-Za-z]+")


@readers.register("html")
class HtmlReader(Reader):
    """The main part of an HTML page, headings in Markdown."""

    suffixes = (".html", ".htm", ".xhtml")

    def read(self, raw: bytes) -> ReadDocument:
        metadata, body, notes = decode_parts(raw)
        head, whole, problem = html_to_text(body)
        if problem:
            notes = (*notes, f"The HTML is malformed; its tags were stripped: {problem}.")
        part = _main_part(body)
        heading, text = part if part and part[1] else ("", whole)
        title, metadata = title_and_metadata(metadata, heading or head)
        return ReadDocument(text, title, metadata, notes)


def _main_part(source: str) -> tuple[str, str] | None:
    """(first heading of level 1, text); None where the parser did not read all of the page."""
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    try:
        page = html.document_fromstring(_UNSETTABLE.sub("", source).encode("utf-8", "replace"), parser=parser)
        if any(error.level_name == "FATAL" for error in parser.error_log):
            return None  # nested deeper than it goes: the rest of the page is missing from the tree
        landmark = _landmark(page)  # searched in the whole page: without <body>, the parser keeps <main> in the head
        part = page if landmark is None else landmark
        for element in list(part.iterdescendants()):
            if _is_furniture(element) or (landmark is None and _is_named(element)):
                _drop(element)
        if landmark is None:
            _drop_menus(page)
        for element in list(part.iter("p")):  # a paragraph alone in a cell or a list's entry is its line
            parent = element.getparent()
            if parent is not None and parent.tag in ("li", "td", "th", "dt", "dd") and len(parent) == 1:
                element.drop_tag()
        for element in part.iter("pre"):  # fenced, so that a comment in code is no heading
            element.text = f"```\n{(element.text or '').lstrip(chr(10))}"
            if len(element):
                element[-1].tail = f"{(element[-1].tail or '').rstrip()}\n```"
            else:
                element.text = f"{element.text.rstrip()}\n```"
        heading = next(part.iter("h1"), None)
        _, text, problem = html_to_text(etree.tostring(part, encoding="unicode", method="html", with_tail=False))
        return None if problem else (_words(heading), text)
    except (etree.LxmlError, ValueError, AssertionError):  # a control character written as a reference, say
        return None


def _words(element: Any) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _landmark(page: Any) -> Any | None:
    """The element that the page marks as its main part; none where several are, as on a page of articles."""
    part = None
    for path in (*_MAIN, *(_BODY.format(name) for name in _THEME_BODIES)):
        outer = page if part is None else part
        named = set(outer.xpath(path))
        outermost = [each for each in named if named.isdisjoint(each.iterancestors())][:2]
        if len(outermost) != 1 or outermost[0] is outer:
            continue
        if any(_words(each) for each in outermost[0].iter("h1", "h2", "p", "pre", "li", "td")):
            part = outermost[0]
            if part.tag != "main":
                break  # inside <main> there may be sidebars beside the article
    return part


def _is_furniture(element: Any) -> bool:
    classes = (element.get("class") or "").split()
    if element.tag in _DROPPED or element.get("role") in _ROLES or not _CLASSES.isdisjoint(classes):
        return True
    if {"contents", "local"} <= set(classes) or (element.tag == "footer" and not element.xpath(".//h1")):
        return True
    if element.tag != "a":
        return False
    sign = "".join(element.itertext()).strip() in ("¶", "§", "#", "\N{LINK SYMBOL}")
    return sign or not _LINK_CLASSES.isdisjoint(classes)


def _is_named(element: Any) -> bool:
    """Whether its id or class names it as navigation. An element with the page's title stays."""
    if element.tag not in ("div", "td", "ul", "ol", "table", "section", "aside", "header", "form", "p"):
        return False
    names = f"{element.get('id') or ''} {element.get('class') or ''}".lower()
    named = element.tag in ("aside", "header") or not _PARTS.isdisjoint(_WORDS.findall(names))
    return named and next(element.iter("h1"), None) is None


def _drop(element: Any) -> None:
    if element.getparent() is not None:
        element.drop_tree()


def _drop_menus(body: Any) -> None:
    """Drop blocks that are mostly links, unless they are most of the page."""
    sizes: dict[Any, int] = {}  # characters below each element
    linked: dict[Any, int] = {}  # those of them that stand in links
    links: dict[Any, int] = {}  # the number of links
    for element in reversed(list(body.iter())):  # children come before their parents
        size = len((element.text or "").strip())
        within = count = 0
        for child in element:
            size += sizes[child] + len((child.tail or "").strip())
            within += linked[child]
            count += links[child]
        if element.tag == "a" and element.get("href"):
            within, count = size, count + 1
        sizes[element], linked[element], links[element] = size, within, count
    for element in list(body.iter("div", "td", "ul", "ol", "table", "section", "p")):
        size = sizes.get(element, 0)
        menu = links.get(element, 0) >= FEWEST_LINKS and linked.get(element, 0) > MOST_LINKS * size
        if menu and size < sizes.get(body, 0) / 2 and next(element.iter("h1"), None) is None:
            _drop(element)


# -- any markup as text ------------------------------------------------------------------------------------------------

_BLOCKS = frozenset(
    {"address", "article", "aside", "blockquote", "body", "caption", "dd", "details", "dialog", "div", "dl", "dt"}
    | {"fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "li", "main", "nav", "ol", "option", "p"}
    | {"pre", "section", "summary", "table", "tbody", "tfoot", "thead", "tr", "ul"}
)
_HEADINGS = {f"h{level}": "#" * level for level in range(1, 7)}
_UNREAD = frozenset({"script", "style", "template"})
_TAG = re.compile(r"</?[A-Za-z][^<>]*>")
_DECLARATION = re.compile(r"<[!?][^<>]*+>")
# A tag with its attributes, quoted ones first because they may hold ">"; or a "<" that begins none. Possessive: linear.
_OPENING = re.compile(r"""<(/?)([A-Za-z][\w:-]*+)(?:(?:[^<>"']|"[^"<]*+"|'[^'<]*+')*+>|[^<>]*+>)|<""")


class _TextParser(HTMLParser):
    """Collects pieces of text. Runs of blanks become one, except in <pre>."""

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
        self._dropping += tag in _UNREAD
        self._verbatim += tag == "pre"
        self._in_title = self._in_title or (tag == "title" and not self.title)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _UNREAD and tag not in ("pre", "title"):
            self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        if tag in _HEADINGS or tag in _BLOCKS:
            self.pieces.append("\n" if tag in ("li", "tr", "dt", "dd") else "\n\n")
        elif tag in ("td", "th"):
            self.pieces.append(" | ")
        self._dropping = max(0, self._dropping - (tag in _UNREAD))
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
    """(title, text, problem). Markup that the standard parser gives up on is stripped of its tags instead."""
    parser = _TextParser()
    try:
        parser.feed(_bare_tags(source))
        parser.close()
    except (AssertionError, ValueError, RecursionError) as error:  # e.g. `<![x`, which the parser asserts away
        return "", _tidy(unescape(_TAG.sub(" ", source))), str(error) or type(error).__name__
    return " ".join("".join(parser.title).split()), _tidy("".join(parser.pieces)), ""


def _bare_tags(source: str) -> str:
    """Tags without attributes, and text. The standard parser takes quadratic time over `<a <a <a` and the like."""
    pieces, start = [], 0
    while (opened := source.find("<!--", start)) >= 0 and (closed := source.find("-->", opened + 4)) >= 0:
        pieces.append(source[start:opened])
        start = closed + 3
    bare = "".join([*pieces, source[start:]]).replace("<![CDATA[", " ")
    return _OPENING.sub(lambda hit: f"<{hit[1]}{hit[2]}>" if hit[2] else "&lt;", _DECLARATION.sub(" ", bare))


def _tidy(text: str) -> str:
    lines = [
        line.strip(" \t").removesuffix("|").rstrip() if "|" in line else line.rstrip(" \t") for line in text.split("\n")
    ]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
