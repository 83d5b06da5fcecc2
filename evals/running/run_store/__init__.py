"""Runs in the store: kept whole (`kept`), listed and found (`found`), pinned and pruned (`pins`)."""

from evals.running.run_store.found import SHOWN, Summary, find, listed, load
from evals.running.run_store.kept import get, keep_scores, run_id, save, used
from evals.running.run_store.pins import copy_to, destroy, pin, pinned, prune, remove, restore, unpin

__all__ = [
    "SHOWN",
    "Summary",
    "copy_to",
    "destroy",
    "find",
    "get",
    "keep_scores",
    "listed",
    "load",
    "pin",
    "pinned",
    "prune",
    "remove",
    "restore",
    "run_id",
    "save",
    "unpin",
    "used",
]
