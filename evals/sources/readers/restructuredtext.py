"""reStructuredText through docutils, as text with headings in Markdown. Nothing is included, fetched or run.

Sphinx's directives and roles, which docutils does not know, keep their texts: a signature, a note, the name in a
reference. Markup that docutils finds malformed stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, ClassVar

from evals.sources.readers.base import ReadDocument, Reader, decode_parts, readers, title_and_metadata

MOST_NAMES = 500  # of directives in one file
_DIRECTIVE = re.compile(r"\.\.[ \t]+(?:\|[^|\n]{1,100}\|[ \t]+)?([A-Za-z][\w.+:-]{0,80}?)[ \t]?::(?=\s|$)")
_TARGET = re.compile(r"\s*<[^<>]*>$")
# Directives of Sphinx and its extensions that hold code, that hold no text of the page, or that name another file.
_CODE = frozenset({"code", "code-block", "sourcecode", "prompt", "testcode", "testoutput", "doctest"})
_NO_TEXT = frozenset(
    {"toctree", "index", "contents", "sectnum", "highlight", "currentmodule", "default-domain", "role", "meta"}
    | {"default-role", "title", "header", "footer", "target-notes", "py:currentmodule", "cssclass", "rst-class"}
    | {"class", "tabularcolumns"}
)
_SWITCHES = frozenset({"module", "py:module", "only", "ifconfig", "tab-set", "tabs", "grid", "hlist"})
_ELSEWHERE = frozenset({"include", "literalinclude", "raw", "mdinclude"})
_KNOWN_ROLES = frozenset(
    {"emphasis", "strong", "literal", "code", "math", "subscript", "sub", "superscript", "sup", "title-reference"}
    | {"title", "t", "raw"}
)
_LABELS = {
    "versionadded": "New in version",
    "versionchanged": "Changed in version",
    "deprecated": "Deprecated since version",
    "seealso": "See also",
    "todo": "To do",
}
_one_at_a_time = Lock()  # docutils keeps its directives in a module


@readers.register("restructuredtext")
class RestructuredTextReader(Reader):
    """reStructuredText, Sphinx's directives included."""

    suffixes = (".rst", ".rest")
    isolated = True

    def read(self, raw: bytes) -> ReadDocument:
        metadata, body, notes = decode_parts(raw)
        try:
            tree, left_out = _parsed(body)
            fields = _leading_fields(tree)
            text = "\n\n".join(_blocks(tree, 0))
            section = next((each for each in tree.children if each.tagname == "section"), ())
            title = next((each for each in section if each.tagname == "title"), None)
            heading = " ".join(_inline(title).split()) if title is not None else ""
        except Exception as error:  # docutils and its directives raise whatever their parsing runs into
            reason = type(error).__name__
            return ReadDocument(
                body, None, metadata, (*notes, f"docutils could not read it ({reason}); kept as written.")
            )
        title, metadata = title_and_metadata({**fields, **metadata}, heading)
        return ReadDocument(text.strip(), title, metadata, (*notes, *left_out))


def _parsed(source: str) -> tuple[Any, tuple[str, ...]]:
    """The tree, and a sentence that names the directives whose content is elsewhere or of another markup."""
    from docutils.core import publish_doctree
    from docutils.parsers.rst import Parser

    left_out: list[str] = []
    with _directives_of(source):
        tree = publish_doctree(
            source, parser=Parser(inliner=_references()), settings_overrides={**_SETTINGS, "left_out": left_out}
        )
    if not left_out:
        return tree, ()
    named = ", ".join(dict.fromkeys(left_out))
    return tree, (f"Not followed or taken over: {named[:300]}. It names other files, or holds another markup.",)


_SETTINGS: Mapping[str, Any] = {
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "_disable_config": True,
    "doctitle_xform": False,
    "docinfo_xform": False,
    "sectsubtitle_xform": False,
    "smart_quotes": False,
    "report_level": 5,
    "halt_level": 6,
    "warning_stream": False,
    "traceback": True,  # errors come to us, not to the standard error stream
    "line_length_limit": 2**25,
    "input_encoding": "unicode",
    "output_encoding": "unicode",
}


@contextmanager
def _directives_of(source: str) -> Iterator[None]:
    """Register the directives that the source names and docutils lacks, while one file is parsed."""
    from docutils.parsers.rst import directives

    registered: dict[str, Any] = directives._directives  # type: ignore[attr-defined] # no function takes from it
    known: dict[str, Any] = directives._directive_registry  # type: ignore[attr-defined]
    generic, code, silent, elsewhere = _classes()
    with _one_at_a_time:
        before = dict(registered)
        try:
            for name in list(dict.fromkeys(each.lower() for each in _DIRECTIVE.findall(source)))[:MOST_NAMES]:
                if name in _CODE:
                    directives.register_directive(name, code)
                elif name in _NO_TEXT:
                    directives.register_directive(name, silent)
                elif name in _ELSEWHERE:
                    directives.register_directive(name, elsewhere)
                elif name not in known:
                    directives.register_directive(name, generic)
            yield
        finally:
            registered.clear()
            registered.update(before)


def _references() -> Any:
    """An inliner that reads a Sphinx role as its visible name: `title <target>` as title, `~a.b.c` as c."""
    from docutils import nodes
    from docutils.parsers.rst.states import Inliner

    inliner = Inliner()
    known = inliner.interpreted

    def interpreted(rawsource: str, text: str, role: str, lineno: int) -> Any:
        if role.lower() in _KNOWN_ROLES or not role:
            return known(rawsource, text, role, lineno)
        label = nodes.unescape(text)
        label = _TARGET.sub("", label) or label
        if label.startswith("~"):
            label = label[1:].rsplit(".", 1)[-1]
        return [nodes.inline(rawsource, label.lstrip("!"))], []

    # Of a subclass, docutils takes the patterns to be missing that it inherits.
    inliner.interpreted = interpreted  # type: ignore[method-assign]
    return inliner


@cache
def _classes() -> tuple[Any, Any, Any, Any]:
    """Directive classes for docutils to call; made at first use, because importing docutils is slow."""
    from docutils import nodes
    from docutils.parsers.rst import Directive
    from docutils.parsers.rst.directives import unchanged

    class AnyOption(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            return unchanged

    class Generic(Directive):
        """An argument, such as a signature, over content that is reStructuredText too."""

        optional_arguments, final_argument_whitespace, has_content = 1, True, True
        option_spec: ClassVar[Any] = AnyOption(name=unchanged)

        def run(self) -> list[Any]:
            written = "" if self.name in _SWITCHES else " ".join(self.arguments)
            parts: list[Any] = [nodes.paragraph(line, line) for line in written.splitlines() if line]
            if label := _LABELS.get(self.name):
                text = " ".join((label, *written.split()))
                parts = [nodes.paragraph(text, "", *self.state.inline_text(text, self.lineno)[0])]
            holder = nodes.container()
            self.state.nested_parse(self.content, self.content_offset, holder)
            return [*parts, *holder.children]

    class Code(Generic):
        def run(self) -> list[Any]:
            text = "\n".join(self.content)
            language = " ".join(self.arguments).split("\n")[0][:40]
            block = nodes.literal_block(text, text, classes=["code", *language.split()[:1]])
            caption = self.options.get("caption")
            return [*([nodes.paragraph(caption, caption)] if caption else []), block]

    class Silent(Generic):
        def run(self) -> list[Any]:
            return []

    class Elsewhere(Generic):
        def run(self) -> list[Any]:
            what = " ".join(self.arguments).split("\n")[0][:80]
            self.state.document.settings.left_out.append(f"{self.name} {what}".strip())
            return []

    return Generic, Code, Silent, Elsewhere


# -- the tree as text --------------------------------------------------------------------------------------------------


def _leading_fields(tree: Any) -> dict[str, Any]:
    """Take a leading field list, reStructuredText's front matter, out of the tree."""
    first = next((each for each in tree.children if each.tagname not in ("comment", "substitution_definition")), None)
    if first is None or first.tagname != "field_list":
        return {}
    tree.remove(first)
    return {field[0].astext().strip(): " ".join(field[1].astext().split()) for field in first.children}


_ADMONITIONS = frozenset(
    {"attention", "caution", "danger", "error", "hint", "important", "note", "tip", "warning", "admonition"}
)
_INVISIBLE = frozenset(
    {"comment", "substitution_definition", "target", "pending", "meta", "raw", "transition", "decoration", "colspec"}
)


def _blocks(node: Any, level: int) -> Iterator[str]:  # noqa: C901, PLR0912 - a case a kind of node
    """The blocks below a node, in order; `level` is that of its section."""
    from docutils import nodes

    for child in node.children:
        name = child.tagname
        if name in _INVISIBLE:
            continue
        if name == "system_message":
            yield from _as_written(child)
        elif name == "section":
            yield from _blocks(child, level + 1)
        elif name in ("title", "subtitle") and node.tagname == "section":
            yield f"{'#' * min(level, 6)} {' '.join(_inline(child).split())}"
        elif name in ("literal_block", "doctest_block", "math_block"):
            classes = [each for each in child.get("classes", ()) if each != "code"]
            fence = "````" if "```" in (text := child.astext()) else "```"
            yield f"{fence}{classes[0] if classes else ''}\n{text}\n{fence}"
        elif name in ("bullet_list", "enumerated_list"):
            yield _listed(child, level)
        elif name in ("definition_list", "field_list", "option_list"):
            yield "\n\n".join(_pairs(child, level))
        elif name in _ADMONITIONS:
            label = "" if name == "admonition" else f"{name.capitalize()}: "
            yield label + "\n\n".join(_blocks(child, level))
        elif name == "topic" and "contents" in child.get("classes", ()):
            continue
        elif name == "table":
            yield from _rows(child)
        elif name == "line_block":
            yield "\n".join(_lines(child))
        elif name in ("footnote", "citation"):
            label = child.children[0].astext() if child.children else ""
            yield f"[{label}] " + "\n\n".join(each for each in _blocks(child, level) if each != label)
        elif isinstance(child, nodes.TextElement | nodes.Text | nodes.image):
            if text := _inline(child).strip():
                yield text
        else:
            yield from _blocks(child, level)


def _inline(node: Any) -> str:
    """The text of a line or paragraph, literals in backticks."""
    from docutils import nodes

    if isinstance(node, nodes.Text):
        return node.astext()
    if isinstance(node, nodes.image):
        return str(node.get("alt", ""))
    if isinstance(node, nodes.literal):
        return f"`{node.astext()}`"
    if isinstance(node, nodes.raw | nodes.comment):
        return ""
    return "".join(_inline(child) for child in node.children)


def _as_written(message: Any) -> Iterator[str]:
    """The source text that a docutils error message quotes; the message itself is no text of the page."""
    for child in message.children:
        if child.tagname == "literal_block" and (text := child.astext().strip()):
            yield text


def _listed(node: Any, level: int) -> str:
    entries = []
    for number, item in enumerate(node.children, start=1):
        mark = f"{number}." if node.tagname == "enumerated_list" else "-"
        body = "\n\n".join(_blocks(item, level)) if item.children else ""
        entries.append(f"{mark} " + re.sub(r"\n(?=[^\n])", "\n" + " " * (len(mark) + 1), body))
    return "\n".join(entries)


def _pairs(node: Any, level: int) -> Iterator[str]:
    """Terms, fields and options, each above its description."""
    for item in node.children:
        names, bodies = [], []
        for part in item.children:
            if part.tagname in ("definition", "field_body", "description"):
                bodies += list(_blocks(part, level))
            elif part.tagname == "system_message":
                bodies += list(_as_written(part))
            else:
                names.append(part.astext())
        yield f"{' : '.join(names)}{': ' if node.tagname == 'field_list' else chr(10)}" + "\n\n".join(bodies)


def _rows(table: Any) -> Iterator[str]:
    for child in table.children:
        if child.tagname == "title":
            yield _inline(child)
    rows = [
        " | ".join(" ".join(" ".join(_blocks(entry, 0)).split()) for entry in row.children)
        for row in table.findall(lambda node: getattr(node, "tagname", "") == "row")
    ]
    if rows:
        yield "\n".join(rows)


def _lines(block: Any) -> Iterator[str]:
    for child in block.children:
        if child.tagname == "line_block":
            yield from (f"  {line}" for line in _lines(child))
        else:
            yield _inline(child)
