"""The connection string: read as libpq reads it, refused in a sentence, shown without its password."""

from __future__ import annotations

import re

import psycopg
from sqlalchemy import URL

from core.errors import ConnectionFailed


def conninfo_of(dsn: str) -> str:
    """SQLAlchemy's form of a URL names a driver too. What else it holds is for libpq to read: escapes mean a byte."""
    return _checked(re.sub(r"^(postgres(?:ql)?)\+\w+(?=://)", r"\1", dsn.strip()))


def _checked(conninfo: str) -> str:
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
        conninfo.encode()
    except (psycopg.Error, UnicodeError, ValueError):
        raise ConnectionFailed(
            "RANKBOOK_DSN is not a connection string. Write it as postgresql://user:password@host:5432/database, "
            "and in a password @ as %40, / as %2F and % as %25."
        ) from None  # the cause would repeat the string, password included
    return conninfo


def shown(conninfo: str) -> URL:
    """The address as it may be shown; connections are made from the string itself."""
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    port = str(parts.get("port") or "")
    return URL.create(
        "postgresql+psycopg",
        username=_text(parts.get("user")),
        host=_text(parts.get("host") or parts.get("hostaddr")),
        port=int(port) if port.isdecimal() else None,
        database=_text(parts.get("dbname")),
    )


def _text(value: object) -> str | None:
    return None if value is None else str(value)
