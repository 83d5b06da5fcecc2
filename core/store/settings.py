"""Settings of the server for one transaction, on a cluster's workers too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from weakref import WeakKeyDictionary

from sqlalchemy import Transaction, func, literal, select, text
from sqlalchemy.ext.asyncio import AsyncConnection

_IN_PLACE: Mapping[str, Any] = {"compile_kwargs": {"literal_binds": True}}  # SET takes no parameters
_SETTLED: WeakKeyDictionary[Transaction, dict[str, str]] = WeakKeyDictionary()  # by transaction, which none nests

# For `settle`: a long statement is not ended by what a server sets for short ones.
PATIENT: Final = {"statement_timeout": "0", "lock_timeout": "0", "idle_in_transaction_session_timeout": "0"}


async def settle(connection: AsyncConnection, **settings: object) -> None:
    """Server settings for the rest of this transaction; a double underscore stands for the dot in a name.

    What it has settled already is not sent again: a transaction may serve many queries.
    """
    named = {name.replace("__", "."): str(value) for name, value in settings.items()}
    transaction = connection.sync_connection.get_transaction() if connection.sync_connection else None
    settled = _SETTLED.setdefault(transaction, {}) if transaction else {}
    if named.items() <= settled.items():
        return
    if connection.sync_connection and connection.sync_connection.get_execution_options().get("distributed"):
        for name, value in named.items():  # Citus passes SET on to its workers, each by itself, and set_config not
            await connection.execute(text(f"SET LOCAL {name} TO {literal(value).compile(**_IN_PLACE)}"))
    else:
        await connection.execute(select(*(func.set_config(name, value, True) for name, value in named.items())))
    settled |= named
