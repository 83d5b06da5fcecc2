"""GET /health: whether this process lives and its database answers. No secrets, and no work for whoever asks often."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from sqlalchemy import text

from core import bridge
from core.store.engine import Store
from workbench import logs

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route

PATH: Final = "/health"
PATIENCE: Final = 3.0  # seconds that the database has to answer
FRESH: Final = 1.0  # seconds for which an answer stands


class Health:
    """One question at a time, whoever asks. `store` may block: it opens what is not open yet."""

    def __init__(self, store: Callable[[], Store]) -> None:
        self._store = store
        self._asking: asyncio.Task[bool] | None = None
        self._said: tuple[float, bool] = (-FRESH, False)

    def route(self) -> Route:
        from starlette.routing import Route

        return Route(PATH, self.answer, methods=["GET", "HEAD"])

    async def answer(self, _: Request) -> Response:
        from starlette.responses import JSONResponse

        well = await self._well()
        told = {"status": "ok" if well else "unavailable", "store": "answers" if well else "does not answer"}
        return JSONResponse(told, 200 if well else 503, headers={"Cache-Control": "no-store"})

    async def _well(self) -> bool:
        at, said = self._said
        if time.monotonic() - at < FRESH:
            return said
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(asyncio.to_thread(self._answers))
        done, _ = await asyncio.wait({self._asking}, timeout=PATIENCE)
        self._said = time.monotonic(), bool(done) and self._asking.result()
        return self._said[1]

    def _answers(self) -> bool:
        try:
            bridge.run(_ask(self._store()))
        except Exception as error:
            logs.told("store_unavailable", error=type(error).__name__)
            return False
        return True


async def _ask(store: Store) -> None:
    async with store.begin(read_only=True) as connection:
        await connection.execute(text("SELECT 1"))
