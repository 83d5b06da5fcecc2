"""`rankbook`, the command. Loads nothing heavy before a command needs it, so that --help answers at once."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from workbench.commands import (
    backup,
    collections,
    compare,
    contexts,
    demo,
    evaluate,
    judge,
    notebooks,
    output,
    queries,
    runs,
    search,
    serve,
    suites,
    sweep,
    trash,
    variants,
)
from workbench.commands.runtime import STOPPED, PluginCommand
from workbench.services import server_waits

app = typer.Typer(
    name="rankbook",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(collections.app, name="data")
app.add_typer(variants.app, name="variant")
app.command(cls=PluginCommand)(search.why)
app.command("sql")(search.export)
app.command("eval")(evaluate.evaluate)
app.command()(sweep.sweep)
app.command()(compare.compare)
app.command("context")(contexts.context)
app.add_typer(runs.app, name="runs")
app.add_typer(suites.app, name="suite")
app.command()(suites.gate)
app.add_typer(queries.app, name="queries")
app.add_typer(judge.app, name="judge")
app.add_typer(notebooks.app, name="notebook")
app.add_typer(trash.app, name="trash")
app.command()(demo.demo)
app.command()(serve.access)
app.command()(backup.backup)
app.command()(backup.restore)
app.command(cls=PluginCommand)(search.search)
app.command()(serve.doctor)


def print_version(*, requested: bool) -> None:
    if requested:
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
            callback=lambda requested: print_version(requested=requested),
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


def main() -> None:
    """The entry point. A mistake or a mishap is a sentence and exit code 1, or with RANKBOOK_DEBUG=1 a traceback."""
    try:
        try:
            with server_waits.heard_by(output.notice):
                app()
        finally:
            sys.stdout.flush()  # a pipe that is closed shows here, and not when the interpreter has gone
    except BrokenPipeError:  # whoever reads the pipe has enough: nothing is wrong, and nobody is left to tell
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except KeyboardInterrupt:
        _ignore_ctrl_c()
        output.notice("Stopped.")
        sys.exit(STOPPED)
    except SystemExit as ending:
        if ending.code == STOPPED:
            _ignore_ctrl_c()
        raise
    except Exception as error:
        from core.errors import RankbookError

        mishap: str | None
        if isinstance(error, RankbookError):
            mishap = str(error)
        else:
            from core.store.db_errors import error_sentence

            mishap = error_sentence(error)
        if mishap is None or output.debugging():
            raise
        output.error(mishap)
        sys.exit(1)
    finally:
        if session := sys.modules.get("workbench.session"):
            session.close()


def _ignore_ctrl_c() -> None:
    """The program closes already: another Ctrl-C would only break that off, with a traceback of the interpreter."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


if __name__ == "__main__":
    main()
