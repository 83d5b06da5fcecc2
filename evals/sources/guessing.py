"""Which source a path or a name means, for people who give only that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from core.errors import InputError, SpecError
from evals.sources import readers
from evals.sources.base import Source, sources
from evals.sources.beir import BeirSource, holds_corpus
from evals.sources.bundled import BundledSource, bundled_names, collection_at
from evals.sources.catalog import catalog
from evals.sources.folder import FolderSource, LeftOut
from evals.sources.ir_datasets_source import IrDatasetsSource
from evals.sources.tables import TABLE_SUFFIXES
from evals.sources.tabular import TabularSource
from evals.sources.trec import TrecSource
from evals.sources.trees import ArchiveLimits, exists, opened_tree
from evals.sources.walk import ending, walk

TREC_SUFFIXES = (".trec", ".sgml", ".sgm", ".xml", ".trec.gz", ".sgml.gz", ".sgm.gz", ".xml.gz")
_PREFIX = "ir_datasets:"
_UNDERSTOOD = (
    "What is understood: a folder or .zip with corpus.jsonl (BEIR); a folder of "
    f"{', '.join(readers.suffixes(available=False))} files; a {', '.join(TABLE_SUFFIXES[:6])} file; TREC documents "
    f"({', '.join(TREC_SUFFIXES[:4])}); ir_datasets:ID"
)


def source_from(spec: Mapping[str, Any]) -> Source:
    """A source from plain data: `kind`, and the fields of that kind. The inverse of `Source.spec`."""
    fields = dict(spec)
    kind = fields.pop("kind", None)
    if not isinstance(kind, str):
        raise SpecError(f"A source needs a `kind`, one of: {', '.join(sorted(sources))}.")
    return _built(kind, lambda: sources[kind](**fields))


def guess(path_or_name: str | Path, *, suffixes: str = "") -> Source:
    """What stands at the path; else the bundled collection or the catalogue's of that name.

    With `suffixes`, a folder that holds files of these endings is one of documents.
    """
    path, name = Path(path_or_name).expanduser(), str(path_or_name)
    if exists(path):
        return _folder(path, suffixes) if path.is_dir() else _file(path)
    if name in bundled_names():
        return BundledSource(name=name)
    if name.startswith(_PREFIX):
        return _built("ir_datasets", lambda: IrDatasetsSource(id=name.removeprefix(_PREFIX)))
    for entry in catalog():
        if entry.name == name:
            return IrDatasetsSource(id=entry.ir_datasets)
    near = get_close_matches(name, [*bundled_names(), *(entry.name for entry in catalog())], n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise InputError(f"There is nothing at this path, and no collection is called so.{hint} {_choices()}", path=name)


def _built(what: str, build: Callable[[], Source]) -> Source:
    try:
        return build()
    except ValidationError as error:
        raise SpecError.from_pydantic(f"The source {what!r}", error) from error


def _folder(path: Path, suffixes: str) -> Source:
    with opened_tree(path, ArchiveLimits()) as tree:
        if holds_corpus(tree):
            return BeirSource(path=path)
    if (path / "documents").is_dir() and ((path / "queries.jsonl").is_file() or (path / "qrels").is_dir()):
        return collection_at(path)
    left_out = LeftOut()
    endings = FolderSource(path=path, suffixes=suffixes).endings if suffixes else readers.suffixes()
    if any(isinstance(file, Path) for file in walk(path, endings, lambda other: left_out.add_ending(ending(other)))):
        return FolderSource(path=path)
    message = " ".join(("Nothing in this folder is understood.", *left_out.sentences(readers.NEWEST), _choices()))
    raise InputError(message, path=path)


def _file(path: Path) -> Source:
    name = path.name.lower()
    if name.endswith(".zip"):
        return BeirSource(path=path)
    if name.endswith(TABLE_SUFFIXES):
        return TabularSource(path=path)
    if name.endswith(TREC_SUFFIXES):
        return TrecSource(documents=path)
    raise InputError(f"This kind of file is not understood. {_choices()}", path=path)


def _choices() -> str:
    names = ", ".join(bundled_names()) or "none"
    return f"{_UNDERSTOOD}; a bundled collection ({names}); a public one ({len(catalog())} in the catalogue)."
