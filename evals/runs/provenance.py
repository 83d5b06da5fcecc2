"""What a run's identity depends on besides its variant: the collection's content, the code, the server, the models."""

from __future__ import annotations

import ast
import asyncio
import hashlib
import os
import platform
import subprocess
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    FromClause,
    Text,
    bindparam,
    cast,
    func,
    literal_column,
    select,
    text,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from core import atomic_files
from core.embedding import is_served
from core.home import home
from core.rerank import rerankers
from core.store import attached
from core.store.attached.columns import AttachedColumns
from core.store.collections import CollectionView
from core.store.engine import Capabilities, Store
from core.store.names import ITEMS
from core.store.resolve_target import search_target
from core.store.schema import Collection, ItemRow
from core.variant import Variant

Counted = tuple[str, ...]  # the number of rows, and a sum over them that changes with any of them
_counted: WeakKeyDictionary[Store, dict[str, tuple[str, Counted]]] = WeakKeyDictionary()


async def content_of(store: Store, view: CollectionView) -> str:
    """A digest of the items, chunkings and embeddings there are.

    An attached table changes without a version of ours: its rows' own transactions tell, or where it has none, its
    texts.
    """
    sets = [(each.name, repr(sorted(each.chunker.items()))) for each in view.chunk_sets]
    sets += [(str(each.chunk_set), f"{each.model} {each.index}") for each in view.embedding_sets]
    mapping = view.row.attached
    if mapping is not None and mapping.get("aside"):  # the server's counter of writes moves where nothing else does
        mapping = {**mapping, "aside": {name: value for name, value in mapping["aside"].items() if name != "writes"}}
    async with store.begin(view.namespace, read_only=True) as connection:
        counted = await _count(connection, store, view)
    content = repr((view.row.language, mapping, sorted(sets), counted))
    return hashlib.blake2b(content.encode(), digest_size=16).hexdigest()


async def _count(connection: AsyncConnection, store: Store, view: CollectionView) -> Counted:
    """From memory where the collection is in the state in which it was counted."""
    # Another whenever anything in the collection is, and where it was restored to a version that it once had.
    written = cast(literal_column("collections.xmin"), Text)
    state = select(func.concat_ws(" ", Collection.version, Collection.created_at, written))
    state = state.where(Collection.name == view.name)
    kept, own = _counted.setdefault(store, {}), view.row.attached is None
    now = await connection.scalar(state) if own else None
    if now is not None and view.name in kept and kept[view.name][0] == now:
        return kept[view.name][1]
    rows, mark = _marks(store, view)
    statement = select(func.count(), func.sum(mark)).select_from(rows)
    counted = tuple(str(each) for each in (await connection.execute(statement)).one())
    if now is not None and await connection.scalar(state) == now:  # else it changed meanwhile, and is counted again
        kept[view.name] = now, counted
    return counted


def _marks(store: Store, view: CollectionView) -> tuple[FromClause, ColumnElement[Any]]:
    """The collection's rows, and a number for each that changes with it."""
    if view.row.attached is None:
        return ItemRow.__table__, func.hashtextextended(ItemRow.id + func.encode(ItemRow.digest, "hex"), 0)
    attachment = attached.Attachment.of(view)
    if attachment.facts.kind == "table":
        transaction = cast(cast(literal_column("xmin"), Text), BigInteger)
        return AttachedColumns(attachment.table, attachment.facts).relation, transaction
    details = search_target(store, view, ITEMS).details.subquery()
    columns = [details.c.id, details.c.title, details.c.text, cast(details.c.metadata, Text)]
    if attachment.table.parent is not None:
        columns.append(details.c.item_id)
    return details, func.hashtextextended(func.concat_ws("\n", *columns), 0)


MODELS_RUN_ON = ("sentence-transformers", "torch", "transformers")
PACKAGES = ("sqlalchemy", "psycopg", "pgvector", "numpy", "ranx", *MODELS_RUN_ON)
RUN_MODELS = ("cross_encoder", "late_interaction")  # rerankers that run a model here
SETTINGS = (
    "shared_buffers",
    "work_mem",
    "effective_cache_size",
    "max_parallel_workers_per_gather",
    "random_page_cost",
    "jit",
)
CHECKOUT = Path(__file__).parents[2]
# The code that decides what is found, and what of it does not.
RANKING = (
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
NOT_RANKING = (
    "core/store/attached/index_advice.py",
    "core/store/grants.py",
    "core/store/migrations",
    "core/store/roles.py",
    "core/store/server",
    "core/store/trash.py",
    "core/store/trash_entries.py",
    "core/store/verify.py",
)
# Class variables in which a plug-in says what it is, for people.
DESCRIBING = {"description", "label", "phrase", "good_at", "colour_slot", "opening", "no_match", "example"}
KEPT_DIGEST = "ranking-code"  # file in the home folder
INDEXES = text("""
SELECT index.relname, pg_relation_size(index.oid)
FROM pg_index JOIN pg_class AS index ON index.oid = indexrelid
JOIN pg_class AS relation ON relation.oid = indrelid
WHERE relation.relnamespace = (SELECT oid FROM pg_namespace WHERE nspname = :namespace)
  AND (CAST(:relation AS text) IS NULL OR relation.relname = :relation)
ORDER BY index.relname
""")


@cache
def code_version() -> str:
    """What git calls this checkout, "-dirty" where it was changed since; elsewhere the package's version."""
    if (CHECKOUT / ".git").exists():
        command = ["git", "-C", str(CHECKOUT), "describe", "--tags", "--always", "--dirty"]
        try:
            described = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
            return described.stdout.strip()
        except (OSError, subprocess.SubprocessError):
            pass  # no git, or another project's checkout: the package's version is taken
    return package_version()


@cache
def package_version(name: str = "rankbook") -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "unknown"


@cache
def ranking_code() -> str:
    """A digest of the code that decides rankings: what other code found is not taken for what this would find.

    It is of what the code does (`syntax_of`), so that runs stay valid where only words changed. As parsing takes a
    second, the digest is kept in the home folder for as long as the files stay the same.
    """
    left_out = {CHECKOUT / each for each in NOT_RANKING}
    places = [CHECKOUT / each for each in RANKING]
    files = [file for place in places for file in (place.rglob("*.py") if place.is_dir() else [place])]
    contents = [file.read_bytes() for file in sorted(files) if left_out.isdisjoint((file, *file.parents))]
    written = hashlib.blake2b(b"".join(hashlib.blake2b(each).digest() for each in contents), digest_size=16).hexdigest()
    kept = home() / KEPT_DIGEST
    with suppress(OSError, ValueError):
        known, digest = kept.read_text(encoding="ascii").split()
        if known == written and len(digest) == len(written):
            return digest
    syntax = hashlib.blake2b(digest_size=16)
    for content in contents:
        syntax.update(hashlib.blake2b(repr(syntax_of(ast.parse(content))).encode()).digest())
    with suppress(OSError):
        atomic_files.write_whole(kept, f"{written} {syntax.hexdigest()}\n")
    return syntax.hexdigest()


def syntax_of(node: object) -> object:
    """Code as plain values: without comments, docstrings, and what plug-ins and fields say of themselves.

    Empty parts are left out too, so that it is the same in every version of Python that knows the syntax.
    """
    if isinstance(node, list):
        return [syntax_of(each) for each in node if not _describes(each)]
    if not isinstance(node, ast.AST):
        return node
    fields = {name: value for name, value in ast.iter_fields(node) if value is not None and value != []}
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and _is_text(node.body[:1]):
        fields["body"] = node.body[1:]
    return type(node).__name__, [(name, syntax_of(value)) for name, value in fields.items()]


def _describes(node: object) -> bool:
    if isinstance(node, ast.keyword):
        return node.arg == "description"
    if isinstance(node, ast.AnnAssign) and "ClassVar" in ast.dump(node.annotation):
        return isinstance(node.target, ast.Name) and node.target.id in DESCRIBING
    return False


def _is_text(body: list[ast.stmt]) -> bool:
    """Whether this begins with a docstring."""
    first = body[0].value if body and isinstance(body[0], ast.Expr) else None
    return isinstance(first, ast.Constant) and isinstance(first.value, str)


def server_mark(server: Capabilities) -> str:
    """What of the server decides what any leg finds."""
    return f"PostgreSQL {server.version // 10_000}"


def vector_mark(server: Capabilities, model: str | None, version: Callable[[str], str] = package_version) -> str:
    """What else decides it where queries are embedded by this model and searched for by their vectors."""
    return f"pgvector {server.extensions.get('vector', '')}" + ("" if is_served(model) else f", {models_mark(version)}")


def models_mark(version: Callable[[str], str] = package_version) -> str:
    """What models run on here."""
    return ", ".join(f"{name} {version(name)}" for name in MODELS_RUN_ON)


def variant_mark(server: Capabilities, variant: Variant, model: str | None) -> str:
    """What of these decides the results of a variant that searches with that model; empty of words alone."""
    marks = [vector_mark(server, model)] if any(leg.uses_model for leg in variant.legs) else []
    runs = variant.rerank is not None and rerankers.name_of(type(variant.rerank)) in RUN_MODELS
    return "; ".join([*marks, *([models_mark()] if runs or variant.late is not None else [])])


async def environment(store: Store, view: CollectionView) -> dict[str, Any]:
    """Everything that may explain why a run is as it is, as plain data."""
    settings = text("SELECT name, current_setting(name) FROM pg_settings WHERE name IN :names ORDER BY name")
    async with store.begin(read_only=True) as connection:
        named = settings.bindparams(bindparam("names", SETTINGS, expanding=True))
        server = {
            "version": await connection.scalar(text("SELECT current_setting('server_version')")),
            "extensions": dict(sorted(store.capabilities.extensions.items())),
            "settings": {row.name: row.current_setting for row in await connection.execute(named)},
            "where": store.where,
        }
        indexes = list(await connection.execute(INDEXES, {"namespace": view.namespace, "relation": None}))
        if view.row.attached is not None:
            table = attached.Attachment.of(view).table
            indexes += await connection.execute(INDEXES, {"namespace": table.namespace, "relation": table.table})
    # How texts were cut and by what embedded, of which a variant names no more than the chunk set.
    chunkers = {each.name: dict(each.chunker) for each in view.chunk_sets if each.chunker}
    names, models = {each.key: each.name for each in view.chunk_sets}, defaultdict(list)
    for each in view.embedding_sets:
        models[names.get(each.chunk_set, ITEMS)].append(f"{each.model}, {each.index} index")
    return {
        "code": await asyncio.to_thread(code_version),
        "rankbook": package_version(),
        "python": platform.python_version(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "machine": {"system": platform.platform(), "processor": _processor(), "cores": os.cpu_count()},
        "server": server,
        "searched": {"language": view.row.language, "chunks": chunkers, "models": dict(models)},
        "indexes": {row.relname: row.pg_relation_size for row in indexes},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()
