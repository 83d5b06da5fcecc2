"""Where labelled collections come from: one file a source, registered here, found by name or by a look at the files.

Importing this loads no pandas, pyarrow, ir_datasets or torch: those are imported where rows are read.
"""

from __future__ import annotations

from evals.sources.base import Source, sources
from evals.sources.beir import BeirSource
from evals.sources.bundled import BundledSource, CatalogEntry, bundled_names, bundled_path, catalog, catalog_entry
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
    "catalog_entry",
    "guess",
    "source_from",
    "sources",
]
