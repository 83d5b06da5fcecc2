"""`--dask ADDRESS`: work of one command over the workers of a Dask cluster, as `RANKBOOK_DASK` does for all of them."""

from __future__ import annotations

import os
from typing import Annotated

import typer

ADDRESS = "RANKBOOK_DASK"  # named here, because `core.spread` takes its time to load


def chosen(context: typer.Context, address: str | None) -> None:
    """What is given to a command holds for as long as it runs."""
    if address is None:
        return
    before = os.environ.get(ADDRESS)
    os.environ[ADDRESS] = address

    def restore() -> None:
        os.environ.pop(ADDRESS)
        if before is not None:
            os.environ[ADDRESS] = before

    context.call_on_close(restore)


Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        callback=chosen,
        help="Spread the work over the Dask cluster whose scheduler is there, as tcp://host:8786; or RANKBOOK_DASK.",
    ),
]
