"""HTML pages: what stands in the main part, without navigation, headers, footers and links to headings.

The main part is where the page says so (<main>, role="main", the body of Sphinx and MkDocs themes); elsewhere parts
are left out that are named as navigation or hold little but links. Measured on pages of each shape, an extractor made
for news (trafilatura) lost code's line ends and kept the menus of short pages.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from evals.sources.front_matter import split_front_matter
from evals.sources.readers.base import ReadDocument, Reader, decoded, readers, titled
from evals.sources.readers.html_text import html_to_text

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
# Classes that documentation tools give to what is no text of the page, wherever it stands.
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
# What the parser reads, and does not take back as a text.
_UNSETTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_WORDS = re.compile(r"[A-Za-z]+")


@readers.register("html")
class HtmlReader(Reader):
    """The main part of an HTML page, headings in Markdown."""

    suffixes = (".html", ".htm", ".xhtml")

    def read(self, raw: bytes) -> ReadDocument:
        source, notes = decoded(raw)
        metadata, body, problem = split_front_matter(source)
        if problem:
            notes = (*notes, f"The front matter is not valid YAML and was left out: {problem}.")
        head, whole, problem = html_to_text(body)
        if problem:
            notes = (*notes, f"The HTML is malformed; its tags were stripped: {problem}.")
        part = _main_part(body)
        heading, text = part if part and part[1] else ("", whole)
        title, metadata = titled(metadata, heading or head)
        return ReadDocument(text, title, metadata, notes)


def _main_part(source: str) -> tuple[str, str] | None:
    """(first heading of level 1, text); None where the parser did not take all of the page."""
    from lxml import etree, html

    parser = html.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True, no_network=True)
    try:
        page = html.document_fromstring(_UNSETTABLE.sub("", source).encode("utf-8", "replace"), parser=parser)
        if any(error.level_name == "FATAL" for error in parser.error_log):
            return None  # nested deeper than it goes: what follows is missing from the tree
        return _text_of(page)
    except (etree.LxmlError, ValueError, AssertionError):  # a control character that is written as a reference, say
        return None


def _text_of(page: Any) -> tuple[str, str] | None:
    from lxml import etree

    part = _landmark(page)  # not of its body: without the tag, the parser keeps <nav> and <main> in the head
    _prune(page if part is None else part, named=part is None)
    if part is None:
        part = page
        _prune_menus(page)
    _flatten(part)
    _fence(part)
    heading = next(part.iter("h1"), None)
    _, text, problem = html_to_text(etree.tostring(part, encoding="unicode", method="html", with_tail=False))
    return None if problem else (_words(heading), text)


def _words(element: Any) -> str:
    return "" if element is None else " ".join("".join(element.itertext()).split())


def _landmark(page: Any) -> Any | None:
    """The element that the page names as its main part. Of several of a kind none is it, as on a page of articles."""
    part = None
    for path in (*_MAIN, *(_BODY.format(name) for name in _THEME_BODIES)):
        named = set((page if part is None else part).xpath(path))
        outermost = [each for each in named if named.isdisjoint(each.iterancestors())][:2]
        if len(outermost) == 1 and _holds(outermost[0], page if part is None else part):
            part = outermost[0]
            if part.tag != "main":
                break  # inside <main> there may be sidebars beside the article
    return part


def _holds(inner: Any, outer: Any) -> bool:
    """Whether it has a heading or a paragraph that could be what the page is about."""
    return outer is not inner and any(_words(each) for each in inner.iter("h1", "h2", "p", "pre", "li", "td"))


def _prune(part: Any, *, named: bool) -> None:
    for element in list(part.iterdescendants()):
        if element is not part and (_is_furniture(element) or (named and _is_named(element))):
            _drop(element)


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
    """Named as navigation in a page that does not say where its main part is; a part with the page's title stays."""
    if element.tag not in ("div", "td", "ul", "ol", "table", "section", "aside", "header", "form", "p"):
        return False
    names = f"{element.get('id') or ''} {element.get('class') or ''}".lower()
    named = element.tag in ("aside", "header") or not _PARTS.isdisjoint(_WORDS.findall(names))
    return named and next(element.iter("h1"), None) is None


def _drop(element: Any) -> None:
    if element.getparent() is not None:
        element.drop_tree()


def _prune_menus(body: Any) -> None:
    """Blocks that are mostly links, unless they are most of the page."""
    sizes, links, counts = _link_shares(body)
    whole = sizes.get(body, 0)
    for element in list(body.iter("div", "td", "ul", "ol", "table", "section", "p")):
        size = sizes.get(element, 0)
        menu = counts.get(element, 0) >= FEWEST_LINKS and links.get(element, 0) > MOST_LINKS * size
        if menu and size < whole / 2 and next(element.iter("h1"), None) is None:
            _drop(element)


def _link_shares(body: Any) -> tuple[dict[Any, int], dict[Any, int], dict[Any, int]]:
    """Characters, characters in links, and the number of links below each element, in one pass from the leaves up."""
    sizes: dict[Any, int] = {}
    links: dict[Any, int] = {}
    counts: dict[Any, int] = {}
    for element in _leaves_first(body):
        size = len((element.text or "").strip())
        within = count = 0
        for child in element:
            size += sizes[child] + len((child.tail or "").strip())
            within += links[child]
            count += counts[child]
        if element.tag == "a" and element.get("href"):
            within, count = size, count + 1
        sizes[element], links[element], counts[element] = size, within, count
    return sizes, links, counts


def _leaves_first(body: Any) -> Iterator[Any]:
    yield from reversed(list(body.iter()))  # document order the other way round: children before their parents


def _fence(part: Any) -> None:
    """Code between fences, so that a comment in it is no heading."""
    for element in part.iter("pre"):
        element.text = f"```\n{(element.text or '').lstrip(chr(10))}"
        if len(element):
            element[-1].tail = f"{(element[-1].tail or '').rstrip()}\n```"
        else:
            element.text = f"{element.text.rstrip()}\n```"


def _flatten(part: Any) -> None:
    """A paragraph alone in a cell or a list's entry is its line; the text that follows it stays."""
    for element in list(part.iter("p")):
        parent = element.getparent()
        if parent is not None and parent.tag in ("li", "td", "th", "dt", "dd") and len(parent) == 1:
            element.drop_tag()
