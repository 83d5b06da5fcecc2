"""What commands run with: options that several share, Ctrl-C, a Dask cluster, the collection opened."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from workbench.commands import output

if TYPE_CHECKING:
    from core.fusion import Fusion
    from core.store.collections import CollectionView
    from core.store.engine import Store
    from core.variant import Variant

T = TypeVar("T")
STOPPED = 130  # what a shell gives for a program that Ctrl-C ended


def stoppable(work: Callable[[asyncio.Event], Coroutine[Any, Any, T]]) -> T:
    """The work's result. The first Ctrl-C sets its token and waits for it to put things away, a second does not wait.

    Not `bridge.run`, which cancels at once: what was found and not saved yet would be lost.
    """
    from core import bridge
    from core.errors import Cancelled

    token, loop = asyncio.Event(), bridge.loop()

    def stop() -> None:
        output.notice("Stopping ...")
        loop.call_soon_threadsafe(token.set)

    with _interrupts(stop):
        future = asyncio.run_coroutine_threadsafe(work(token), loop)
        try:
            return future.result()
        except Cancelled:
            if not token.is_set():
                raise
            output.notice("Stopped. What was done is kept: run it again, and it goes on from there.")
            raise typer.Exit(STOPPED) from None
        except KeyboardInterrupt:
            future.cancel()
            raise


@contextmanager
def _interrupts(first: Callable[[], None]) -> Iterator[None]:
    """What the first Ctrl-C does; the next ones are what they always are. Signals reach the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupted(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        first()

    before = signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


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

Collection = Annotated[str, typer.Argument(help="The collection's name.")]
Queries = Annotated[str, typer.Option("--queries", help="The query set.")]
Metrics = Annotated[
    list[str] | None, typer.Option("--metric", "-m", help="A metric, such as ndcg@10; several, the first decides.")
]
Chunks = Annotated[str | None, typer.Option(help="For bare legs: a chunk set, or 'items'; by default the first.")]
Model = Annotated[str | None, typer.Option(help="For bare legs: the embedding model, where there are several.")]
Seed = Annotated[int, typer.Option(min=0, help="Of intervals, permutations and folds: the same gives the same.")]


def resolve_entries(
    view: CollectionView, names: Sequence[str], chunks: str | None, model: str | None
) -> tuple[list[Path], list[Variant]]:
    """Files of other engines' runs, and variants. Names of presets and legs come before files."""
    from evals.variants import run_file

    files = {name: path for name in names if (path := run_file(name)) is not None}
    variants = [variant(view, name, chunks, model) for name in names if name not in files]
    return [files[name] for name in names if name in files], variants


def variant(view: CollectionView, name: str, chunks: str | None = None, model: str | None = None) -> Variant:
    """A bare leg over the collection's first chunk set, or over what was named; else what the name stands for."""
    from evals.variants import resolve_variant

    return resolve_variant(name, chunks=chunks or view.default_chunk_set, model=model)


def legs_to_variant(view: CollectionView, names: Sequence[str], chunks: str | None, model: str | None) -> Variant:
    """The variant whose legs get weights: one that is there, or one made of bare legs."""
    from core.errors import UnknownName
    from core.legs import legs
    from core.variant import Variant

    if len(names) == 1:
        return variant(view, names[0], chunks, model)
    for name in names:
        if name not in legs:
            raise UnknownName("leg", name, legs, way_out="Give one variant, or two to four legs.")
    made = tuple(legs[name]() for name in names)
    return Variant(name=" + ".join(names), legs=made, chunks=chunks or view.default_chunk_set, model=model)


def fusions(given: Sequence[str] | None) -> tuple[Fusion, ...]:
    """`rrf,k=10` as a fusion; several to choose among."""
    from core.errors import SpecError
    from core.fusion.base import fusion_from

    made = []
    for text in given or ("rrf", "linear"):
        method, *options = text.split(",")
        if bare := [option for option in options if "=" not in option]:
            raise SpecError(f"The option {bare[0]!r} of {method!r} has no value. Write it as in rrf,k=10.")
        made.append(fusion_from({"method": method, **dict(option.split("=", 1) for option in options)}))
    return tuple(made)


def opened_collection(collection: str) -> tuple[Store, CollectionView]:
    from core import bridge
    from core.store import collections
    from workbench.session import store

    opened = store(output.notice)
    return opened, bridge.run(collections.get(opened, collection))
