"""Markdown as notebooks read it: its fenced blocks, and prose as HTML or Markdown that cannot do any harm.

Owns the one set-up of the parser, so that what runs is what a reader sees. Raw HTML is text everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from html import escape
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_REFUSED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")
_TICKS = re.compile(r"\\.|`+|<", re.DOTALL)
_BESIDE = re.compile(r"(?:\./)?(?P<name>[\w-]+)\.md")
_ELSEWHERE = re.compile(r"(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)
BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block outside lists and quotations: its lines from `start` to before `end`, and its info string."""

    start: int
    end: int
    info: str


@cache
def reader() -> MarkdownIt:
    """CommonMark with tables. It parses raw HTML, so that a fence in a comment is no cell, and shows it as text."""

    def as_text(_self: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
        text = escape(tokens[at].content)
        return f"<pre>{text}</pre>\n" if tokens[at].type == "html_block" else text

    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for name in ("html_block", "html_inline"):
        parser.add_render_rule(name, as_text)
    parser.add_render_rule("image", _image)
    parser.add_render_rule("link_open", _link)
    return parser


def _image(_self: Any, tokens: Sequence[Token], at: int, *_: Any) -> str:
    """What it shows in words: a report loads nothing from anywhere."""
    return f"<em>[{escape(tokens[at].content) or 'picture'}]</em>"


def _link(self: Any, tokens: Sequence[Token], at: int, options: Any, env: Any) -> str:
    """Links to other sites open in a new tab, which learns nothing of this page; links within the workbench do not."""
    address = str(tokens[at].attrs.get("href", ""))
    if _ELSEWHERE.match(address):
        tokens[at].attrs |= {"target": "_blank", "rel": "noopener noreferrer"}
    elif "beside" in env and (file := _BESIDE.fullmatch(address)):
        tokens[at].attrs["href"] = env["beside"](file["name"])
    return str(self.renderToken(tokens, at, options, env))


def lines(text: str) -> list[str]:
    """With their ends, as CommonMark counts lines: joined they are the text."""
    return _LINE.findall(text)


def blocks(text: str) -> list[Block]:
    """The fenced blocks, in their order."""
    tokens = reader().parse(text.removeprefix(BOM))
    return [
        Block(token.map[0], token.map[1], token.info.strip())
        for token in tokens
        if token.type == "fence" and token.level == 0 and token.map
    ]


def html(prose: str, beside: Callable[[str], str] | None = None) -> str:
    """As HTML: no markup but what Markdown makes, no address that runs anything.

    `beside` gives the address of a notebook in the same folder, by its name; else a link to one stays that to a file.
    """
    env = {} if beside is None else {"beside": beside}
    return str(reader().render(_REFUSED.sub("\N{REPLACEMENT CHARACTER}", prose.removeprefix(BOM)), env))


def title(prose: str) -> str:
    """The first heading, without its markup; empty where there is none."""
    tokens = reader().parse(prose.removeprefix(BOM))
    at = next((at for at, token in enumerate(tokens) if token.type == "heading_open"), None)
    if at is None:
        return ""
    return " ".join("".join(child.content for child in tokens[at + 1].children or ()).split())


def inert(prose: str) -> str:
    """The same Markdown, with every bracket that could begin HTML as an entity: for readers that let HTML through.

    Without byte order marks at its head: a fence behind one is a fence to some readers only.
    """
    prose = prose.lstrip(BOM)
    written, at = lines(prose), 0
    parts: list[str] = []
    for token in reader().parse(prose):
        if token.type in ("fence", "code_block") and token.map and token.map[0] >= at:
            start, end = token.map  # in a code block an entity would be shown as it is written
            parts += [_escaped("".join(written[at:start])), *written[start:end]]
            at = end
    text = "".join([*parts, _escaped("".join(written[at:]))])

    def has_html(tokens: Sequence[Token]) -> bool:
        return any(token.type.startswith("html") or has_html(token.children or ()) for token in tokens)

    if has_html(reader().parse(text)):
        text = prose.replace("<", "&lt;")
    inner = [child for token in _trusting().parse(text) for child in token.children or ()]
    addresses = [str(child.attrs.get("href") or child.attrs.get("src") or "") for child in inner]
    if all(map(reader().validateLink, addresses)):
        return text
    return text.replace("](", "]\\(").replace("]:", "]\\:")  # an address is one that our own reader refuses


def _escaped(text: str) -> str:
    """The text with its brackets as entities, but for those in code spans."""
    parts, at = [], 0
    for match in _TICKS.finditer(text):
        if match.start() < at:
            continue
        parts.append(text[at : match.start()])
        at = match.end()
        parts.append("&lt;" if match[0] == "<" else match[0])
        if match[0].startswith("`"):  # a code span, if it ends before the paragraph does
            paragraph = re.compile(r"\n[ \t]*\n").search(text, at)
            end = paragraph.start() if paragraph else len(text)
            if closing := re.compile(rf"(?<!`){match[0]}(?!`)").search(text, at, end):
                parts.append(text[at : closing.end()])
                at = closing.end()
    return "".join([*parts, text[at:]])


@cache
def _trusting() -> MarkdownIt:
    """The same parser, which makes a link of any address, as other readers may."""
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    parser.validateLink = lambda url: isinstance(url, str)  # type: ignore[method-assign]
    return parser
