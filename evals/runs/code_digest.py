"""The digest of the code that rankings come of: what other code ranked is not taken for what this would rank.

It is over syntax trees, without what changes no ranking: comments, docstrings, descriptions of options, and what a
plug-in says of itself.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from core.atomic_files import write_whole
from core.home import home

CHECKOUT: Final = Path(__file__).parents[2]
RANKING: Final = (
    "core/chunking",
    "core/context.py",
    "core/embedding",
    "core/expansion",
    "core/filters.py",
    "core/fusion",
    "core/legs",
    "core/llm",
    "core/packing",
    "core/pipeline",
    "core/rerank",
    "core/routing.py",
    "core/store",
    "core/types.py",
    "core/variant.py",
    "evals/runs",
)
# What of these packages decides no ranking: processes, rights, clusters' states, the trash, and words of errors.
APART: Final = (
    "core/pipeline/cost_estimate.py",
    "core/store/attached/discovery.py",
    "core/store/attached/index_advice.py",
    "core/store/attached/staleness.py",
    "core/store/browse.py",
    "core/store/db_errors.py",
    "core/store/demo_role.py",
    "core/store/grants.py",
    "core/store/node_watch.py",
    "core/store/readable_tables.py",
    "core/store/roles.py",
    "core/store/server",
    "core/store/trash.py",
    "core/store/trash_entries.py",
    "core/store/verify.py",
    "evals/runs/cell_outputs.py",
)
SAYS: Final = "about"  # the class variable in which a plug-in describes itself
KEPT: Final = "ranking-code.json"  # in the home folder


@cache
def ranking_code() -> str:
    """The digest. Parsing takes half a second, so it is kept in the home folder, with a digest of the files' bytes."""
    contents = [path.read_bytes() for path in ranking_files()]
    state = hashlib.blake2b(b"".join(hashlib.blake2b(each).digest() for each in contents)).hexdigest()
    kept = home() / KEPT
    with suppress(OSError, ValueError, KeyError, TypeError):
        return str(json.loads(kept.read_text())[state])
    trees = hashlib.blake2b(digest_size=16)
    for content in contents:
        trees.update(tree_digest(content))
    if kept.parent.is_dir():
        with suppress(OSError):
            write_whole(kept, json.dumps({state: trees.hexdigest()}), mode=0o600)
    return trees.hexdigest()


def ranking_files() -> list[Path]:
    apart = [CHECKOUT / each for each in APART]
    places = [CHECKOUT / each for each in RANKING]
    files = [file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])]
    return sorted(file for file in files if not any(file.is_relative_to(each) for each in apart))


def tree_digest(source: bytes) -> bytes:
    """The digest of one module's syntax tree, the same under every version of Python that parses it."""
    return hashlib.blake2b("\n".join(_parts(ast.parse(source))).encode(errors="replace")).digest()


def _parts(node: ast.AST) -> Iterator[str]:
    yield type(node).__name__
    for name, value in ast.iter_fields(node):
        values = value if isinstance(value, list) else [value]
        for each in _counting(node, name, values):
            yield f"{name}:"
            if isinstance(each, ast.AST):
                yield from _parts(each)
            else:
                yield repr(each)
    yield "."


def _counting(node: ast.AST, name: str, values: list[object]) -> list[object]:
    """What of a node's field decides what the code does."""
    if name in {"ctx", "kind"}:  # they say what the place in the tree says, too
        return []
    if name == "body" and isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        first = values[0] if values else None
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
            values = values[1:]
        if isinstance(node, ast.ClassDef):
            values = [each for each in values if not _describes(each)]
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Field":
        values = [each for each in values if not (isinstance(each, ast.keyword) and each.arg == "description")]
    return [each for each in values if each is not None]


def _describes(statement: object) -> bool:
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return any(isinstance(each, ast.Name) and each.id == SAYS for each in targets)
