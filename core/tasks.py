"""Doing several things at once: all succeed, or the first failure is raised as itself and the rest are cancelled."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


async def side_by_side(*work: Coroutine[Any, Any, Any]) -> list[Any]:
    """Like a TaskGroup, but a caller meets the error that happened, not a group of it."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(each) for each in work]
    except BaseExceptionGroup as several:
        raise several.exceptions[0] from several.exceptions[0].__cause__
    return [task.result() for task in tasks]
