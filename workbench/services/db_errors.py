"""Errors in one sentence, for a terminal, a page and a notebook's cell alike. Loads no driver before one is needed."""

from __future__ import annotations

from core.errors import RankbookError


def error_sentence(error: Exception) -> str | None:
    """What is said of it: our own words, or what the database or this machine refused. None for a mistake of ours.

    The driver's texts may repeat an address or a statement, so only the server's own first line is passed on.
    """
    if isinstance(error, RankbookError):
        return str(error)
    if isinstance(error, OSError):
        said = error.strerror or str(error) or type(error).__name__
        return f"{error.filename}: {said}." if error.filename else f"The system refused: {said}."
    import psycopg
    from sqlalchemy.exc import DBAPIError

    cause = error.orig if isinstance(error, DBAPIError) else error
    if not isinstance(cause, psycopg.Error):
        return "The database driver failed." if isinstance(error, DBAPIError) else None
    if cause.diag.message_primary:
        return f"The database refused: {cause.diag.message_primary} ({cause.sqlstate})."
    return f"The database does not answer ({type(cause).__name__}). See `rankbook doctor`."
