"""Sources of labelled collections, one file each, registered here, and chosen by name or by looking at the files.

Importing this loads no pandas, pyarrow, ir_datasets or torch; they are imported where rows are read.
"""

from __future__ import annotations

from evals.sources.base import Source, sources
from evals.sources.beir import BeirSource
from evals.sources.bundled import BundledSource, CatalogEntry, bundled_names, bundled_path, catalog
from evals.sources.files import ArchiveLimits
from evals.sources.folder import FolderSource
from evals.sources.guess import guess, source_from
from evals.sources.ir_datasets_source import IrDatasetsSource
from evals.sources.tabular import ItemColumns, LabelColumns, QueryColumns, TabularSource
from evals.sources.trec import TrecSource

__all__ = [
    "ArchiveLimits",
    "BeirSource",
    "BundledSource",
    "CatalogEntry",
    "FolderSource",
    "IrDatasetsSource",
    "ItemColumns",
    "LabelColumns",
    "QueryColumns",
    "Source",
    "TabularSource",
    "TrecSource",
    "bundled_names",
    "bundled_path",
    "catalog",
    "guess",
    "source_from",
    "sources",
]
