"""Errors of the server and its driver as errors of the project, those of Citus nodes included."""

from __future__ import annotations

import re
from typing import Final

import psycopg
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as NoneFree

from core.errors import ConnectionFailed, Deadlock, RankbookError, StoreError

DRIVER_ERRORS: Final = (DBAPIError,)  # what a statement may raise besides errors of our own
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


def cause_of(error: BaseException) -> BaseException:
    """The driver's error, where SQLAlchemy wrapped one."""
    return error.orig if isinstance(error, DBAPIError) and error.orig is not None else error


def reason(error: BaseException) -> str:
    """The first line of the driver's or the server's message; what follows may quote a row."""
    return str(cause_of(error)).strip().partition("\n")[0]


def error_sentence(error: Exception) -> str | None:
    """An error in one sentence: our own words, or what the database or this machine refused; None for a bug of ours.

    The driver's texts may repeat an address or a statement, so only the server's own first line is passed on.
    """
    if isinstance(error, RankbookError):
        return str(error)
    if isinstance(error, OSError):
        refusal = error.strerror or str(error) or type(error).__name__
        return f"{error.filename}: {refusal}." if error.filename else f"The system refused: {refusal}."
    cause = cause_of(error)
    if not isinstance(cause, psycopg.Error):
        return "The database driver failed." if isinstance(error, DBAPIError) else None
    if cause.diag.message_primary:
        return f"The database refused: {cause.diag.message_primary} ({cause.sqlstate})."
    return f"The database does not answer ({type(cause).__name__}). See `rankbook doctor`."


def is_lost(error: BaseException) -> bool:
    """Whether the connection is gone, and not only a statement refused."""
    if isinstance(error, DBAPIError) and error.connection_invalidated:
        return True
    if lost(error):
        return True
    cause = cause_of(error)
    state = getattr(cause, "sqlstate", None)
    if state is None:
        return isinstance(cause, psycopg.OperationalError | psycopg.InterfaceError)
    return str(state).startswith(LOST)


def is_out_of_connections(error: BaseException) -> bool:
    """Whether the server has no connection left. It says so before an error code can be sent, so by words."""
    return any(words in reason(error) for words in TOO_MANY)


def translate_error(error: BaseException, where: str) -> StoreError | None:
    """The project's error for it; None for a refused statement and the like."""
    if isinstance(error, NoneFree) or is_out_of_connections(error):
        return crowded(where)
    cause = cause_of(error)
    if (state := getattr(cause, "sqlstate", None)) in BY_STATE:
        kind, sentence = BY_STATE[state]
        return kind(sentence.format(where=where, reason=reason(error)))
    if node := shut_out(error):
        return ConnectionFailed(
            f"The node {node} of the Citus cluster at {where} does not let in the role that its coordinator did. Let "
            "the nodes' pg_hba.conf take it from the coordinator, or give Citus its password in pg_dist_authinfo."
        )
    if node := lost(error):
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
    """The error of a statement that waited for a node that neither answers nor breaks its connections."""
    return ConnectionFailed(
        f"The node {node} of the Citus cluster at {where} is silent: its coordinator cannot reach it, and what waited "
        "for it was ended. What was committed is kept: when the node is back, run the same command again. `rankbook "
        "doctor` lists the nodes."
    )


def crowded(where: str) -> ConnectionFailed:
    """The error where no connection came free in time."""
    return ConnectionFailed(
        f"All connections to {where} are taken, and none came free in time. Nothing was changed: wait until other work "
        "is done and run the same command again."
    )


# How Citus says that a node does not answer, the names being its own or libpq's.
GONE: Final = (
    re.compile(r"connection to the remote node (?:\S+@)?(\S+:\d+) failed"),
    re.compile(r"failure on connection marked as essential: (\S+:\d+)"),
    re.compile(r"connection error: (\S+:\d+)"),
    re.compile(r"(?:could not|cannot) connect to (?:(?:the |remote )?node )?(\S+:\d+)"),
    re.compile(r"connection establishment for node (\S+:\d+) failed"),
    re.compile(r"could not establish any connections to the node (\S+:\d+)"),
    re.compile(r"wait event for node (\S+:\d+) failed"),
    re.compile(r"failed to COPY to shard \d+ on (\S+:\d+)"),
    re.compile(r"failed to prepare transaction .* on host (\S+:\d+)"),
    re.compile(r"failed to read result .* from node (\S+:\d+)"),
)
SHUT: Final = re.compile(r"authentication failed|no pg_hba\.conf entry|no password supplied")
NAMELESS: Final = re.compile(r"could not connect to any active placements|no active placements were found")
PASSED_ON: Final = re.compile(r"while executing command on (\S+:\d+)")
BROKEN: Final = ("08", "57P")  # a connection's failure; the node was shut down, or crashed
# What libpq says of a broken connection, where Citus passes it on under a meaningless code: at COMMIT, say.
BROKE_OFF: Final = re.compile(
    r"server closed the connection|connection not open|no connection to the server|invalid socket"
    r"|could not (?:receive data from|send data to) server|connection (?:timed out|reset)|Broken pipe",
    re.IGNORECASE,
)


def lost(error: BaseException) -> str | None:
    """The node that did not answer, where an error is about one; the coordinator, which reports it, is well."""
    cause, message = cause_of(error), reason(error)
    if SHUT.search(str(cause)):
        return None
    for pattern in GONE:
        if found := pattern.search(message):
            return found[1]
    if NAMELESS.search(message):
        return "that holds what was asked for"
    passed_on = PASSED_ON.search(getattr(getattr(cause, "diag", None), "context", None) or message)
    broken = str(getattr(cause, "sqlstate", None) or "").startswith(BROKEN) or BROKE_OFF.search(message)
    if passed_on and broken:
        return passed_on[1]
    return None


def shut_out(error: BaseException) -> str | None:
    """The node that rejects the role, which the coordinator accepts."""
    cause = cause_of(error)
    found = GONE[0].search(str(cause))
    return found[1] if found and SHUT.search(str(cause)) else None
