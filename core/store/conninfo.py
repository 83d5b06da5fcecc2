"""The connection string: read as libpq reads it, refused in a sentence, displayed without its password.

A user's string is completed by libpq from the environment, as its documentation says. That of the embedded server sets
every parameter itself, so that nothing of the environment reaches it.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import psycopg
from psycopg import pq
from sqlalchemy import URL

from core.errors import ConnectionFailed

# The value on our own socket of every parameter that libpq would otherwise take from a PG... variable.
EMBEDDED: Final = {
    "application_name": "rankbook",
    "channel_binding": "disable",
    "client_encoding": "UTF8",
    "connect_timeout": "10",
    "gssdelegation": "0",
    "gssencmode": "disable",
    "gsslib": "",
    "hostaddr": "",
    "krbsrvname": "",
    "load_balance_hosts": "disable",
    "max_protocol_version": "3.0",
    "min_protocol_version": "3.0",
    "options": "",
    "passfile": "",
    "password": "",
    "port": "5432",
    "require_auth": "none,password,md5,scram-sha-256",  # of an empty one libpq lets no password through
    "requirepeer": "",
    "ssl_max_protocol_version": "",
    "ssl_min_protocol_version": "",
    "sslcert": "",
    "sslcertmode": "disable",
    "sslcompression": "0",
    "sslcrl": "",
    "sslcrldir": "",
    "sslkey": "",
    "sslmode": "disable",
    "sslnegotiation": "postgres",
    "sslrootcert": "",
    "sslsni": "0",
    "target_session_attrs": "any",
}
# Variables that no parameter overrules: libpq sends these settings with each connection, and looks up the service.
UNOVERRULED: Final = ("PGSERVICE", "PGDATESTYLE", "PGTZ", "PGGEQO")
_steering = threading.Lock()
_hidden: dict[str, str] = {}
_connecting = 0  # how many connections are being made while these variables are hidden


def embedded_conninfo(**address: str) -> str:
    """A connection string that leaves nothing to the environment. An older libpq lacks some of the parameters."""
    known = {option.keyword.decode() for option in pq.Conninfo.get_defaults()}
    fixed = {name: value for name, value in EMBEDDED.items() if name in known}
    return psycopg.conninfo.make_conninfo("", **fixed, **address)


def is_embedded(conninfo: str) -> bool:
    """Whether it is one of those."""
    parts = psycopg.conninfo.conninfo_to_dict(conninfo)
    return all(parts.get(name) == EMBEDDED[name] for name in ("krbsrvname", "options", "requirepeer"))


def has_service(parts: Mapping[str, object]) -> bool:
    """Whether a service file of libpq completes the string."""
    return bool(parts.get("service") or os.environ.get("PGSERVICE"))


@contextmanager
def without_steering() -> Iterator[None]:
    """Without those variables, while a connection to the embedded server is made."""
    global _connecting  # noqa: PLW0603 - the environment is the process's, and so is this count
    with _steering:
        _connecting += 1
        for name in UNOVERRULED:
            if name in os.environ:
                _hidden[name] = os.environ.pop(name)
    try:
        yield
    finally:
        with _steering:
            _connecting -= 1
            if not _connecting:
                while _hidden:
                    name, value = _hidden.popitem()
                    os.environ.setdefault(name, value)


def conninfo_of(dsn: str) -> str:
    """The string for libpq, checked. SQLAlchemy's form of a URL names a driver too, which is removed."""
    conninfo = re.sub(r"^(postgres(?:ql)?)\+\w+(?=://)", r"\1", dsn.strip())
    try:
        psycopg.conninfo.conninfo_to_dict(conninfo)
        conninfo.encode()
    except (psycopg.Error, UnicodeError, ValueError):
        raise ConnectionFailed(
            "RANKBOOK_DSN is not a connection string. Write it as postgresql://user:password@host:5432/database, "
            "and in a password @ as %40, / as %2F and % as %25."
        ) from None  # the cause would repeat the string, password included
    return conninfo


def public_url(conninfo: str) -> URL:
    """The address without its password, for messages; connections are made from the string itself."""
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
