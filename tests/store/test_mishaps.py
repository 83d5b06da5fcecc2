"""What the server does to work of ours, told in a sentence."""

from __future__ import annotations

import asyncio

from sqlalchemy import text

from core import bridge
from core.errors import Deadlock
from core.store.engine import Store


def test_work_that_the_server_ends_to_part_two_that_wait_for_each_other_says_so(store: Store) -> None:
    met = asyncio.Barrier(2)

    async def lock(first: int, second: int) -> None:
        async with store.begin() as connection:
            await connection.execute(text("SET LOCAL deadlock_timeout = 50"))
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": first})
            await met.wait()
            await connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": second})

    async def both() -> tuple[BaseException | None, ...]:
        return await asyncio.gather(lock(71, 72), lock(72, 71), return_exceptions=True)

    (error,) = filter(None, bridge.run(both()))
    assert isinstance(error, Deadlock)
    assert str(error).endswith("run the same command again.")
