"""Names that people choose, checked; and names quoted for SQL."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from sqlalchemy import Table, TextClause, text
from sqlalchemy.dialects import postgresql

from core.errors import SpecError

LONGEST_IDENTIFIER = 63  # bytes; PostgreSQL cuts longer ones in silence, and two names become one
SCHEMA_PREFIX = "c_"  # keeps a collection called "public" or "pg_catalog" out of harm's way
BRACKETS = str.maketrans("[]", "⟦⟧")  # SQLAlchemy translates no schema whose name holds square ones
TRASH_PREFIX = "rankbook_trash_"  # of the schema of a collection that lies in the trash
TRASH_MARK = " trash/"  # begins what rows in the trash bear as their collection: no name may begin with a blank
ITEMS = "items"  # the name of the set that holds the items themselves, unchunked
ROWS = "default"  # what variants call rows of an attached table that are parts of documents, as they call chunks


def composed(name: str) -> str:
    """The form in which names are kept: a letter with a separate accent and an accented letter are the same."""
    return unicodedata.normalize("NFC", name)


def checked(name: str, *, what: str, room: int = LONGEST_IDENTIFIER) -> str:
    """The name in composed form, or a refusal that says why."""
    name = composed(name)
    if not name or name != name.strip():
        raise SpecError(f"{what} {name!r} is empty or begins or ends with a blank. Choose a visible name.")
    if bad := next((letter for letter in name if unicodedata.category(letter)[0] == "C"), None):
        raise SpecError(f"{what} {name!r} holds the control character {bad!r}. Leave it out.")
    if (length := len(name.encode())) > room:
        raise SpecError(
            f"{what} {name!r} takes {length} bytes; PostgreSQL leaves room for {room}. Choose a shorter one."
        )
    return name


def schema_of(collection: str) -> str:
    room = LONGEST_IDENTIFIER - len(SCHEMA_PREFIX)
    return SCHEMA_PREFIX + checked(collection.translate(BRACKETS), what="The collection name", room=room)


def trash_schema(entry: str) -> str:
    """The schema of a collection in the trash."""
    return TRASH_PREFIX + entry


def trash_mark(entry: str) -> str:
    """The collection name of rows in the trash; as it begins with a blank, no collection can have it."""
    return TRASH_MARK + entry


def checked_fields(fields: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(checked(field, what="The metadata field", room=200) for field in fields))


# `text` doubles the percent signs itself, for the driver; with another parameter style the preparer leaves them alone.
_PREPARER = postgresql.dialect(paramstyle="named").identifier_preparer  # type: ignore[no-untyped-call]


def identifier(name: str) -> str:
    """A single name, quoted by the library."""
    return str(_PREPARER.quote(name))


def quoted(namespace: str, table: Table | str) -> str:
    """A table's full name, quoted by the library."""
    name = table if isinstance(table, str) else table.name
    return f"{_PREPARER.quote_schema(namespace)}.{_PREPARER.quote(name)}"


def written(template: str, namespace: str, **tables: Table | str) -> TextClause:
    """The template with each `{word}` replaced by the quoted name of that table. Values are bound, never inserted."""
    names = {word: quoted(namespace, table).replace(":", r"\:") for word, table in tables.items()}
    return text(template.format(**names))


def plain_text(statement: str) -> TextClause:
    """A statement without parameters, in whose names colons may stand."""
    return text(statement.replace(":", r"\:"))
