"""The source that a path or a name stands for, and its options as they are typed: `-o a.b=c`."""

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
from evals.sources.bundled import BundledSource, bundled_names, catalog, collection_at
from evals.sources.files import ArchiveLimits, ending, exists, open_tree, walk
from evals.sources.folder import FolderSource, LeftOut
from evals.sources.ir_datasets_source import IrDatasetsSource
from evals.sources.table_files import TABLE_SUFFIXES
from evals.sources.tabular import TabularSource
from evals.sources.trec import TrecSource


def source_of(origin: str, kind: str | None, options: list[str]) -> Source:
    """The source of that kind, or the one guessed from `origin`, with these options."""
    chosen = _nested(options)
    if kind is not None:
        first = next(iter(sources[kind].model_fields))
        return source_from({"kind": kind, **({} if first in chosen else {first: origin}), **chosen})
    suffixes = chosen.get("suffixes")
    guessed = guess(origin, suffixes=suffixes if isinstance(suffixes, str) else "")
    return source_from({**guessed.spec(), **chosen}) if chosen else guessed


def _nested(options: list[str]) -> dict[str, Any]:
    """`a.b=c` as {"a": {"b": "c"}}, so that every option of every source can be given."""
    nested: dict[str, Any] = {}
    for option in options:
        path, equals, value = option.partition("=")
        if not equals:
            raise SpecError(f"The option {option!r} has no value. Write it as name=value, for instance columns.id=nr.")
        *parents, last = path.split(".")
        inside = nested
        for parent in parents:
            inside = inside.setdefault(parent, {})
            if not isinstance(inside, dict):
                raise SpecError(f"The option {option!r} needs {parent!r} to hold options, and it was given a value.")
        if last in inside:
            raise SpecError(f"The option {path!r} is given twice. Keep the one that is meant.")
        inside[last] = value
    return nested


def chunk_set_of(text: str) -> tuple[str, dict[str, Any]]:
    """`small=fixed,max_tokens=100` as a name and a chunker's spec."""
    name, equals, rest = text.partition("=")
    kind, *options = (rest if equals else name).split(",")
    return name.split(",")[0], {"kind": kind, **_nested(options)}


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
    """The source of a path; else the bundled collection of that name, or the one in the catalogue.

    With `suffixes`, a folder that holds files of these endings is a folder of documents.
    """
    path, name = Path(path_or_name).expanduser(), str(path_or_name)
    if exists(path):
        return _source_of_folder(path, suffixes) if path.is_dir() else _source_of_file(path)
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


def _source_of_folder(path: Path, suffixes: str) -> Source:
    with open_tree(path, ArchiveLimits()) as tree:
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


def _source_of_file(path: Path) -> Source:
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
