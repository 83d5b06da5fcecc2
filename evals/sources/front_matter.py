"""YAML front matter: the block between two `---` lines that opens many Markdown files."""

from __future__ import annotations

import re
from typing import Any

import yaml

from evals.sources.rows import plain

MAX_FRONT_MATTER = 64 * 1024
_OPENING = re.compile(r"\A---[ \t]*\r?\n")
_CLOSING = re.compile(r"^(?:---|\.\.\.)[ \t]*\r?$\n?", re.MULTILINE)


class _Loader(yaml.SafeLoader):
    """Safe loading without aliases: a few of them, nested, stand for gigabytes."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not taken")
        return super().compose_node(parent, index)


def split_front_matter(text: str) -> tuple[dict[str, Any], str, str]:
    """(metadata, body, problem). A first line `---` that opens no mapping is a rule, and stays in the body."""
    opening = _OPENING.match(text)
    closing = _CLOSING.search(text, opening.end(), opening.end() + MAX_FRONT_MATTER) if opening else None
    if opening is None or closing is None:
        return {}, text, ""
    try:
        fields = yaml.load(text[opening.end() : closing.start()], _Loader)  # noqa: S506, a SafeLoader
    except Exception as error:  # PyYAML's constructors raise whatever their parsing happens to raise
        return {}, text[closing.end() :].lstrip("\r\n"), _reason(error)
    if fields is not None and not isinstance(fields, dict):
        return {}, text, ""
    return plain(fields or {}), text[closing.end() :].lstrip("\r\n"), ""


def _reason(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).split("\n", maxsplit=1)[0] or type(error).__name__
    return f"{problem} (line {mark.line + 2})" if mark is not None else str(problem)
