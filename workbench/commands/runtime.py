"""What commands run with: options that several share, the opened store and collection, Ctrl-C, a Dask cluster.

Prints no result.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand, TyperOption

from core import bridge
from workbench.commands import output

if TYPE_CHECKING:
    from core.context import RequestContext
    from core.fusion import Fusion
    from core.progress import Progress
    from core.store.collections import CollectionView
    from core.store.engine import Store
    from core.variant import Variant
    from evals.evaluation.context import EvalContext

T = TypeVar("T")
DEMO = "handbook"
STOPPED = 130  # what a shell gives for a program that Ctrl-C ended
DASK_ADDRESS = "RANKBOOK_DASK"  # named here, because `core.spread` takes its time to load

# -- options -----------------------------------------------------------------------------------------------------------

Collection = Annotated[str, typer.Argument(help="The collection's name.")]
Queries = Annotated[str, typer.Option("--queries", help="The query set.")]
Metrics = Annotated[
    list[str] | None, typer.Option("--metric", "-m", help="A metric, such as ndcg@10; several, the first decides.")
]
Chunks = Annotated[str | None, typer.Option(help="For bare legs: a chunk set, or 'items'; by default the first.")]
Model = Annotated[str | None, typer.Option(help="For bare legs: the embedding model, where there are several.")]
Seed = Annotated[int, typer.Option(min=0, help="Of intervals, permutations and folds: the same gives the same.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def use_dask(context: typer.Context, address: str | None) -> None:
    """Set the cluster's address for as long as the command runs."""
    if address is None:
        return
    before = os.environ.get(DASK_ADDRESS)
    os.environ[DASK_ADDRESS] = address

    def restore() -> None:
        os.environ.pop(DASK_ADDRESS)
        if before is not None:
            os.environ[DASK_ADDRESS] = before

    context.call_on_close(restore)


Dask = Annotated[
    str | None,
    typer.Option(
        "--dask",
        metavar="ADDRESS",
        callback=use_dask,
        help="Spread the work over the Dask cluster whose scheduler is there, as tcp://host:8786; or RANKBOOK_DASK.",
    ),
]


class PluginCommand(TyperCommand):
    """A command whose help names plug-ins: `{legs}` in an option's text becomes the names in the registry of legs.

    Registries take their time to load, so they are read where this help is printed, and not before.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        from core.legs import legs
        from core.store.attached.templates import table_templates

        names = {"{legs}": ", ".join(sorted(legs)), "{likes}": ", ".join(sorted(table_templates))}
        for parameter in self.params:
            for placeholder, listed in names.items():
                if isinstance(parameter, TyperOption) and parameter.help:
                    parameter.help = parameter.help.replace(placeholder, listed)
        super().format_help(ctx, formatter)


# -- what is opened ----------------------------------------------------------------------------------------------------


def open_store(tell: Progress = output.notice) -> Store:
    """The store of this process. `tell` says what it has to wait for."""
    from workbench.session import store

    return store(tell)


def open_collection(name: str) -> tuple[Store, CollectionView]:
    from core.store import collections

    store = open_store()
    return store, bridge.run(collections.get(store, name))


def open_request(name: str) -> RequestContext:
    """What one query over that collection runs with."""
    from core.context import RequestContext

    return RequestContext(*open_collection(name))


def open_evaluation(name: str, query_set: str, *, quiet: bool) -> EvalContext:
    """The collection with the queries and labels of that set."""
    from evals.evaluation.context import open_eval

    with output.waiting(f"Opening {name} ...", quiet=quiet):
        return bridge.run(open_eval(open_store(), name, query_set))


def user_name() -> str:
    """Whose account runs the command; empty where it has no name."""
    from workbench.session import person

    return person()


# -- Ctrl-C ------------------------------------------------------------------------------------------------------------


def run_stoppable(work: Callable[[asyncio.Event], Coroutine[Any, Any, T]], stopped: str = "") -> T:
    """Run the work to its end. The first Ctrl-C sets its token and waits until it has saved what is done; the second
    does not wait. `stopped` is the sentence about what is kept then.

    `bridge.run` instead cancels at once: what was computed and not saved yet would be lost.
    """
    from core.errors import Cancelled

    token, loop = asyncio.Event(), bridge.loop()
    in_main_thread = threading.current_thread() is threading.main_thread()  # signals reach no other
    before = signal.getsignal(signal.SIGINT)

    def stop(*_: object) -> None:
        signal.signal(signal.SIGINT, before)
        output.notice("Stopping ...")
        loop.call_soon_threadsafe(token.set)

    if in_main_thread:
        signal.signal(signal.SIGINT, stop)
    future = asyncio.run_coroutine_threadsafe(work(token), loop)
    try:
        return future.result()
    except Cancelled:
        if not token.is_set():
            raise
        output.notice(f"Stopped. {stopped or 'What was done is kept: run it again, and it goes on from there.'}")
        raise typer.Exit(STOPPED) from None
    except KeyboardInterrupt:
        future.cancel()
        raise
    finally:
        if in_main_thread:
            signal.signal(signal.SIGINT, before)


# -- what is named -----------------------------------------------------------------------------------------------------


def resolve_entries(
    view: CollectionView, names: Sequence[str], chunks: str | None, model: str | None
) -> tuple[list[Path], list[Variant]]:
    """Files of other engines' runs, and variants. Names of presets and legs come before files."""
    from evals.variants import run_file

    files = {name: path for name in names if (path := run_file(name)) is not None}
    variants = [resolve_variant(view, name, chunks, model) for name in names if name not in files]
    return [files[name] for name in names if name in files], variants


def resolve_variant(view: CollectionView, name: str, chunks: str | None = None, model: str | None = None) -> Variant:
    """What the name stands for; a bare leg searches the chunk set that is named, or the collection's first."""
    from evals import variants

    return variants.resolve_variant(name, chunks=chunks or view.default_chunk_set, model=model)


def legs_to_variant(view: CollectionView, names: Sequence[str], chunks: str | None, model: str | None) -> Variant:
    """The variant whose legs get weights: the one that is named, or one made of bare legs."""
    from core.errors import UnknownName
    from core.legs import legs
    from core.variant import Variant

    if len(names) == 1:
        return resolve_variant(view, names[0], chunks, model)
    for name in names:
        if name not in legs:
            raise UnknownName("leg", name, legs, way_out="Give one variant, or two to four legs.")
    bare = tuple(legs[name]() for name in names)
    return Variant(name=" + ".join(names), legs=bare, chunks=chunks or view.default_chunk_set, model=model)


def parse_fusions(texts: Sequence[str] | None) -> tuple[Fusion, ...]:
    """`rrf,k=10` as a fusion; several to choose among."""
    from core.errors import SpecError
    from core.fusion.base import fusion_from

    fusions = []
    for text in texts or ("rrf", "linear"):
        method, *options = text.split(",")
        if bare := [option for option in options if "=" not in option]:
            raise SpecError(f"The option {bare[0]!r} of {method!r} has no value. Write it as in rrf,k=10.")
        fusions.append(fusion_from({"method": method, **dict(option.split("=", 1) for option in options)}))
    return tuple(fusions)


def tables_by_collection(texts: Sequence[str]) -> dict[str, str]:
    """`docs=public.docs`, each: a collection, and the table that it is attached to."""
    from core.errors import SpecError
    from core.store.attached import relation_name

    tables = {}
    for text in texts:
        name, equals, table = text.partition("=")
        if not (name and equals):
            raise SpecError(f"{text!r} names no collection and table. Write NAME=TABLE, such as docs=public.docs.")
        relation_name(table)  # refuses what names no table
        tables[name] = table
    return tables
