"""`rankbook`, the command. Loads nothing heavy before a command needs it, so that --help answers at once."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from workbench.commands import (
    backup,
    collections,
    compare,
    contexts,
    demo,
    evaluate,
    output,
    runs,
    serve,
    suites,
    sweep,
    trash,
    variants,
)
from workbench.commands import judge as judging
from workbench.commands import notebooks as books
from workbench.commands import queries as asking
from workbench.commands import search as commands_search
from workbench.commands.runtime import STOPPED
from workbench.server import waits

if TYPE_CHECKING:
    from core.pipeline.retriever import RetrievalResult
    from core.types import Hit

app = typer.Typer(
    name="rankbook",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(collections.app, name="data")
app.add_typer(variants.app, name="variant")
app.command()(commands_search.why)
app.command("sql")(commands_search.export)
app.command("eval")(evaluate.evaluate)
app.command()(sweep.sweep)
app.command()(compare.compare)
app.command("context")(contexts.context)
app.add_typer(runs.app, name="runs")
app.add_typer(suites.app, name="suite")
app.command()(suites.gate)
app.add_typer(asking.app, name="queries")
app.add_typer(judging.app, name="judge")
app.add_typer(books.app, name="notebook")
app.add_typer(trash.app, name="trash")
app.command()(demo.demo)
app.command()(serve.access)
app.command()(backup.backup)
app.command()(backup.restore)

DEMO = "handbook"
LEGS = "bm25, fulltext, fuzzy, trigram, vector"  # named here, because the registry takes its time to load


def version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError
        from importlib.metadata import version as installed

        try:
            typer.echo(f"rankbook {installed('rankbook')}")
        except PackageNotFoundError:
            typer.echo("rankbook, run from a checkout that is not installed")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def workbench(  # noqa: PLR0913, PLR0917 - a flag each
    context: typer.Context,
    port: serve.Port = None,
    host: serve.Host = "127.0.0.1",
    open_to_all: serve.OpenToAll = False,
    browser: serve.Browser = True,
    demo: Annotated[bool, typer.Option(help="Load the demo collection where there is no collection yet.")] = True,
    log_format: Annotated[
        str | None, typer.Option(help="How the server logs: text, or json for one object per line; or RANKBOOK_LOG.")
    ] = None,
    log_queries: Annotated[
        bool, typer.Option("--log-queries", help="Log what people search for, which is otherwise left out.")
    ] = False,
    notebooks: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Where your notebooks lie; by default in Rankbook's home, or RANKBOOK_NOTEBOOKS."
        ),
    ] = None,
    _version: Annotated[
        bool,
        typer.Option(
            "--version",
            callback=lambda wanted: version(wanted=wanted),
            is_eager=True,
            help="Say which version this is.",
        ),
    ] = False,
) -> None:
    """Which retrieval set-up should we ship, and how sure are we? Without a command, opens the workbench in a browser.

    \b
    rankbook                       the workbench; the first time, with the demo collection
    rankbook notebook open tour    the workbench on a notebook, one that ships or a file
    rankbook search "reset hub 3"  one query on the command line
    rankbook eval handbook bm25 vector hybrid-retriever    which is better, and how sure is that
    rankbook data add --help       bring in your own documents, queries and labels
    rankbook doctor                what is running, and how to fix what is wrong
    """
    if notebooks is not None:
        os.environ["RANKBOOK_NOTEBOOKS"] = str(notebooks.expanduser().absolute())
    if context.invoked_subcommand is not None:
        return

    if log_queries:
        os.environ["RANKBOOK_LOG_QUERIES"] = "1"
    serve.start(port, host, browser=browser, demo=demo, open_to_all=open_to_all, log_format=log_format)


@app.command()
def search(
    query: Annotated[str, typer.Argument(help="What to look for.")],
    collection: Annotated[str, typer.Option("--collection", "-c", help="Where.")] = DEMO,
    variant: Annotated[
        list[str] | None, typer.Option("--variant", "-v", help="A preset or a TOML file; several side by side.")
    ] = None,
    leg: Annotated[list[str] | None, typer.Option(help=f"A leg by itself, or several: {LEGS}.")] = None,
    chunks: Annotated[
        str | None, typer.Option(help="For --leg: a chunk set, or 'items'; by default the first chunk set.")
    ] = None,
    model: Annotated[str | None, typer.Option(help="For --leg: the embedding model, where there are several.")] = None,
    top_k: Annotated[
        int | None,
        typer.Option("--top", "-k", min=1, max=1000, help="How many hits; by default the variant's own, or 10."),
    ] = None,
    *,
    as_json: collections.AsJson = False,
) -> None:
    """Search a collection by a variant or a leg, or by several side by side.

    \b
    rankbook search "how do I reset a hub 3"
    rankbook search "FL-4021" --leg fulltext --leg trigram -k 5
    rankbook search "late fee" --leg bm25 --chunks items --json
    rankbook search "late fee" --variant local-rag --variant mine.toml
    """
    from core import bridge
    from core.context import RequestContext
    from core.errors import InputError
    from core.legs import legs
    from core.pipeline.cost_estimate import estimate_calls
    from core.pipeline.retriever import search as run
    from core.store import collections
    from core.variant import Variant
    from evals.variants import resolve_variant
    from workbench.session import store

    if not query.strip():
        raise InputError('The query is empty. Say what to look for: rankbook search "reset hub 3"')
    opened = store(output.notice)
    view = bridge.run(collections.get(opened, collection))
    level = chunks or view.default_chunk_set
    chosen = [resolve_variant(name) for name in variant or []]
    if top_k:
        chosen = [each.model_copy(update={"top_k": top_k}) for each in chosen]
    names = leg or ([] if chosen else ["vector"])
    chosen += [Variant.of_leg(legs[name](), chunks=level, model=model, top_k=top_k or 10) for name in names]
    context = RequestContext(opened, view)
    for each in chosen:
        for asked in bridge.run(estimate_calls(context, query, each)):  # said of all before anything is sent for one
            output.notice(f"{each.name}: {asked}")
    bundles = [bridge.run(run(context, query, each)) for each in chosen]
    if as_json:
        output.as_json([_plain(bundle) for bundle in bundles])
        return
    for bundle in bundles:
        rows = [(hit.rank, f"{hit.score:.3f}", hit.item_id, _where(hit), _beginning(hit.text)) for hit in bundle.hits]
        title = f"{bundle.variant.name}, {bundle.trace.milliseconds:.0f} ms"
        output.table(title, ("", "score", "document", "where", "text"), rows, right=("", "score"))
        for note in bundle.trace.notes:
            output.notice(note)


def _plain(bundle: RetrievalResult) -> dict[str, object]:
    return {
        "variant": bundle.variant.name,
        "id": bundle.variant.id,
        "hits": bundle.hits,
        "evidence": bundle.evidence,
        "milliseconds": bundle.trace.milliseconds,
        "stages": bundle.trace.timing_ms,
        "notes": bundle.trace.notes,
    }


def _where(hit: Hit) -> str:
    path = " > ".join(hit.heading_path) or hit.title
    return f"{path} (p. {hit.page_first})" if hit.page_first else path


def _beginning(text: str, most: int = 160) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


@app.command()
def doctor(*, as_json: collections.AsJson = False) -> None:
    """Say what is running (versions, extensions, disk, model) and how to fix what is wrong; exit code 1 if anything is.

    Example: rankbook doctor --json
    """
    from core import bridge
    from core.doctor import examine
    from core.doctor import examine_workers as examine_dask
    from evals.schema import schema_chain

    findings = [*bridge.run(examine([schema_chain], waits.tell)), *bridge.run(examine_dask()), *serve.findings()]
    if as_json:
        output.as_json(findings)
    else:
        rows = [("ok" if each.ok else "WRONG", each.what, each.found) for each in findings]
        output.table("Rankbook", ("", "what", "found"), rows)
        for each in findings:
            if each.way_out:
                output.notice(f"{each.what}: {each.way_out}")
    raise typer.Exit(0 if all(each.ok for each in findings) else 1)


def main() -> None:
    """The entry point: a mistake or a mishap is a sentence and exit code 1, or with RANKBOOK_DEBUG=1 a traceback."""
    try:
        _run()
    except BrokenPipeError:  # who was reading has enough: nothing is wrong, and nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        _close_undisturbed()
        output.notice("Stopped.")
        sys.exit(STOPPED)
    except SystemExit as ended:
        if ended.code == STOPPED:
            _close_undisturbed()
        raise
    except Exception as error:
        from workbench.services.db_errors import error_sentence

        said = error_sentence(error)
        if said is None or output.debugging():
            raise
        output.error(said)
        sys.exit(1)
    finally:
        if session := sys.modules.get("workbench.session"):
            session.close()


def _close_undisturbed() -> None:
    """Who was stopped closes: another Ctrl-C would only break off the tidying, with a traceback of the interpreter."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _run() -> None:
    try:
        with waits.heard_by(output.notice):
            app()
    finally:
        sys.stdout.flush()  # a pipe that is closed shows here, and not when the interpreter has gone


if __name__ == "__main__":
    main()
