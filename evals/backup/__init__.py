"""Backups: the store, or one collection of it, as one file; and back again, into this or a newer PostgreSQL.

The file is a plain tar of gzipped tables, as COPY writes them, with the labels and judgements before all else. What is
derived (lexemes, postings, indexes, caches) is made anew: so it is right for the server that it is made on.
"""

from evals.backup.fitting import Plan, check, look
from evals.backup.form import Kept, Manifest
from evals.backup.labels import Merged
from evals.backup.restoring import Restored, restore, restore_labels
from evals.backup.saving import Saved, save

__all__ = [
    "Kept",
    "Manifest",
    "Merged",
    "Plan",
    "Restored",
    "Saved",
    "check",
    "look",
    "restore",
    "restore_labels",
    "save",
]
