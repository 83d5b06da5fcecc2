"""SQL written out, where that reads better than a builder: tables by name in braces, values bound with a colon."""

from __future__ import annotations

from sqlalchemy import Table, TextClause, text
from sqlalchemy.dialects import postgresql

# `text` doubles the percent signs itself, for the driver; with another parameter style the preparer leaves them alone.
_PREPARER = postgresql.dialect(paramstyle="named").identifier_preparer  # type: ignore[no-untyped-call]


def identifier(name: str) -> str:
    """A name by itself, quoted by the library."""
    return str(_PREPARER.quote(name))


def quoted(namespace: str, table: Table | str) -> str:
    """A table's full name, quoted by the library."""
    name = table if isinstance(table, str) else table.name
    return f"{_PREPARER.quote_schema(namespace)}.{_PREPARER.quote(name)}"


def written(template: str, namespace: str, **tables: Table | str) -> TextClause:
    """The template with `{word}` replaced by the quoted table of that word. Values never enter this way."""
    names = {word: quoted(namespace, table).replace(":", r"\:") for word, table in tables.items()}
    return text(template.format(**names))
