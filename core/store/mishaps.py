"""What a database says when something outside fails, told in a sentence with the way out. What is a statement's own
fault is none of it: that goes on as the driver raised it.
"""

from __future__ import annotations

from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoneFree

from core.errors import ConnectionFailed, Deadlock, StoreError
from core.store import nodes

LOST = ("08", "57P")  # connection exceptions; the server was shut down, or crashed
TOO_MANY = ("too many clients", "too many connections", "remaining connection slots")
FULL: Final = (
    "The disk of {where} is full ({reason}). What was committed is kept: make room there and run the same command "
    "again."
)
DEADLOCKED: Final = (
    "Other work in {where} waited for this, and this for it, so the server ended this one. Nothing of it was done: run "
    "the same command again."
)
BY_STATE: Final = {"53100": (StoreError, FULL), "40P01": (Deadlock, DEADLOCKED)}


def reason(error: BaseException) -> str:
    """The first line of what the driver or the server said."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    return str(cause).strip().partition("\n")[0]


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, and not just a statement refused."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    if nodes.lost(error):
        return True
    cause = error.orig if isinstance(error, DBAPIError) else error
    state = getattr(cause, "sqlstate", None)
    if state is None:
        return isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
    return str(state).startswith(LOST)


def is_crowded(error: BaseException) -> bool:
    """Whether the server has no connection left. It says so before there is one that could bear a code."""
    return any(words in reason(error) for words in TOO_MANY)


def in_words(error: BaseException, where: str) -> StoreError | None:
    """The sentence, where there is one to be told."""
    if isinstance(error, NoneFree) or is_crowded(error):
        return crowded(where)
    cause = error.orig if isinstance(error, DBAPIError) else error
    if (state := getattr(cause, "sqlstate", None)) in BY_STATE:
        kind, sentence = BY_STATE[state]
        return kind(sentence.format(where=where, reason=reason(error)))
    if node := nodes.shut_out(error):
        return ConnectionFailed(
            f"The node {node} of the Citus cluster at {where} does not let in the role that its coordinator did. Let "
            "the nodes' pg_hba.conf take it from the coordinator, or give Citus its password in pg_dist_authinfo."
        )
    if node := nodes.lost(error):
        return ConnectionFailed(
            f"The node {node} of the Citus cluster at {where} does not answer ({reason(error)}). What was committed is "
            "kept: when the node is back, run the same command again. `rankbook doctor` lists the nodes."
        )
    if is_lost(error):
        return ConnectionFailed(
            f"The connection to {where} was lost ({reason(error)}). What was committed is kept: run the same command "
            "again."
        )
    return None


def silent(node: str, where: str) -> ConnectionFailed:
    """For one who waited for a node that neither answers nor breaks its connections, or was told nothing of it."""
    return ConnectionFailed(
        f"The node {node} of the Citus cluster at {where} is silent: its coordinator cannot reach it, and what waited "
        "for it was ended. What was committed is kept: when the node is back, run the same command again. `rankbook "
        "doctor` lists the nodes."
    )


def crowded(where: str) -> ConnectionFailed:
    """For one who waited long enough."""
    return ConnectionFailed(
        f"All connections to {where} are taken, and none came free in time. Nothing was changed: wait until other work "
        "is done and run the same command again."
    )
