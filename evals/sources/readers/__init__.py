"""Readers of documents, one for each kind of file. Adding one is one file and one line here.

`FIRST` and `NEWEST` number the versions of reading a folder; a collection keeps the version that it was loaded by.
"""

from __future__ import annotations

from evals.sources.readers.asciidoc import AsciiDocReader
from evals.sources.readers.base import ReadDocument, Reader, readers
from evals.sources.readers.first import SUFFIXES as FIRST_SUFFIXES
from evals.sources.readers.first import read_first
from evals.sources.readers.html import HtmlReader
from evals.sources.readers.markdown import MarkdownReader
from evals.sources.readers.office import NotebookReader, PdfReader, WordReader
from evals.sources.readers.restructuredtext import RestructuredTextReader

FIRST, NEWEST = 1, 2

__all__ = [
    "FIRST",
    "FIRST_SUFFIXES",
    "NEWEST",
    "AsciiDocReader",
    "HtmlReader",
    "MarkdownReader",
    "NotebookReader",
    "PdfReader",
    "ReadDocument",
    "Reader",
    "RestructuredTextReader",
    "WordReader",
    "by_suffix",
    "read_first",
    "readers",
    "suffixes",
]


def by_suffix() -> dict[str, str]:
    """The name of the reader for each ending."""
    return {suffix: name for name in readers for suffix in readers[name].suffixes}


def suffixes(*, available: bool = True) -> tuple[str, ...]:
    """The endings that are read by default; with `available` false, those whose reader is not installed too."""
    endings = [suffix for suffix, name in by_suffix().items() if not available or readers[name].available()]
    return tuple(sorted(endings, key=lambda suffix: (*FIRST_SUFFIXES, suffix).index(suffix)))
