"""Backups: the whole store, or one collection, as one file, and restoring into this or a newer PostgreSQL.

The file is a plain tar of gzipped tables in COPY's format, labels and judgements first. Derived data (lexemes,
postings, indexes, caches) is not saved, but built by the server that restores.
"""

from evals.backup.file_format import BackedUpCollection, Manifest
from evals.backup.restore import RestorePlan, RestoreReport, check, read_manifest, restore_backup, restore_labels
from evals.backup.restore_labels import RestoredLabels
from evals.backup.save import Saved, save_backup

__all__ = [
    "BackedUpCollection",
    "Manifest",
    "RestorePlan",
    "RestoreReport",
    "RestoredLabels",
    "Saved",
    "check",
    "read_manifest",
    "restore_backup",
    "restore_labels",
    "save_backup",
]
