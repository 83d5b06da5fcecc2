"""Backups: the store, or one collection of it, as one file; and back again, into this or a newer PostgreSQL.

The file is a plain tar of gzipped tables, as COPY writes them, with the labels and judgements before all else. What is
derived (lexemes, postings, indexes, caches) is made anew: so it is right for the server that it is made on.
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
