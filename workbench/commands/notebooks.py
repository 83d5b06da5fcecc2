"""`rankbook notebook`: Markdown files whose cells run. Begin one, check it, run it without a browser, hand it on."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import output, serve
from workbench.commands.output import show_notebook

if TYPE_CHECKING:
    from workbench.notebooks.document import Notebook
    from workbench.notebooks.files import NotebookFile
    from workbench.notebooks.runner import CellResult, Runner

app = typer.Typer(
    no_args_is_help=True, help="Notebooks: Markdown whose cells search, score and compare. New, run, export, check."
)

Which = Annotated[str, typer.Argument(metavar="NOTEBOOK", help="A file, or the name of a notebook that ships.")]
Collection = Annotated[
    str | None, typer.Option("--collection", "-c", help="Another collection than the one the notebook names.")
]


@app.command("list")
def list_notebooks(*, as_json: output.AsJson = False) -> None:
    """List the finished notebooks that come with Rankbook.

    Example: rankbook notebook list
    """
    from workbench.notebooks.files import opened, shipped, shipped_names

    rows = [(name, opened(shipped(name)).notebook) for name in shipped_names()]
    if as_json:
        output.as_json([{"name": name, "title": book.title, "file": str(shipped(name))} for name, book in rows])
        return
    told = [(name, book.title, len(book.cells)) for name, book in rows]
    output.table("Notebooks that ship", ("name", "title", "cells"), told, right=("cells",))
    output.notice(
        "Run one with `rankbook notebook run tour`, or make it yours: `rankbook notebook new mine --like tour`."
    )


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The file to be written; .md is added where it is missing.")],
    like: Annotated[str | None, typer.Option(help="Begin with a notebook that ships, or a file.")] = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Write a notebook to begin with, every line explained. An existing file is never overwritten.

    \b
    rankbook notebook new mine
    rankbook notebook new weights.md --like fusion-weights
    """
    from workbench.notebooks.files import ENDING, STARTER, created, meant, opened

    path = Path(name).expanduser()
    path = path if path.suffix == ENDING else path.with_name(f"{path.name}{ENDING}")
    made = created(path, opened(meant(like) if like else STARTER).notebook)
    output.done(
        {"file": str(made.path), "cells": len(made.notebook.cells)},
        f"{made.path} is written. Run it with: rankbook notebook run {made.path}",
        json=as_json,
    )


@app.command("open")
def open_in_browser(
    notebook: Which,
    port: serve.Port = None,
    host: serve.Host = "127.0.0.1",
    open_to_all: serve.OpenToAll = False,
    browser: serve.Browser = True,
) -> None:
    """Open the workbench on a notebook. Other notebooks in its folder can be opened too; those that ship are read-only.

    \b
    rankbook notebook open mine.md
    rankbook notebook open tour
    """
    import os

    from workbench.notebooks.files import FOLDER, address_of, shelf_of

    path = _opened(notebook).path
    folder = shelf_of(path)
    if folder is not None:
        os.environ[FOLDER] = str(folder)
    serve.start(port, host, browser=browser, page=address_of(path), open_to_all=open_to_all)


@app.command()
def check(
    notebooks: Annotated[list[str], typer.Argument(metavar="NOTEBOOK...", help="Files, or notebooks that ship.")],
    *,
    as_json: output.AsJson = False,
) -> None:
    """Check that every cell is valid, without a database. Exit code 1 where one is not.

    Example: rankbook notebook check mine.md
    """
    checked = [_checked(each) for each in notebooks]
    if as_json:
        output.as_json(checked)
    for each in [] if as_json else checked:
        for problem in each["problems"]:
            output.error(problem)
        for doubt in each["doubts"]:
            output.notice(f"Note: {doubt}")
        if not each["problems"]:
            output.notice(f"{each['notebook']}: {each['cells']} cells, all valid.")
    raise typer.Exit(1 if any(each["problems"] for each in checked) else 0)


def _checked(reference: str) -> dict[str, Any]:
    from core.errors import RankbookError
    from workbench.notebooks.parsing import meaning

    try:
        file = _opened(reference)
    except RankbookError as error:
        return {"notebook": reference, "cells": 0, "problems": [str(error)], "doubts": []}
    book = file.notebook
    found = meaning(book, file.path).problems
    return {
        "notebook": str(file.path),
        "cells": len(book.cells),
        "problems": list(dict.fromkeys(map(str, found.values()))),
        "doubts": _doubts(file),
    }


@app.command()
def run(
    notebook: Which,
    html: Annotated[Path | None, typer.Option("--html", help="Write a report: one file that opens offline.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="A cell by its number or name, and no others; may be given several times.")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Run again, even where results are kept.")] = False,
    stop_on_error: Annotated[
        bool, typer.Option("--stop-on-error/--go-on", help="Whether a cell that fails ends the run.")
    ] = False,
    collection: Collection = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Run a notebook's cells in order and show their results. Exit code 1 where one fails.

    What nothing has moved on from is not run again; Ctrl-C stops it in good order.

    \b
    rankbook notebook run tour
    rankbook notebook run mine.md --html report.html
    rankbook notebook run mine.md --only 2 --again
    """
    from workbench.commands.runtime import stoppable

    file = _opened(notebook)
    book = file.notebook
    chosen = {book.cell(each).id for each in only} if only else None
    for doubt in _doubts(file):
        output.notice(f"Note: {doubt}")
    if not as_json:
        _announce(file, collection, chosen, again=again)
    with output.progress(quiet=as_json) as listener:

        def done(result: CellResult) -> None:
            if not as_json:
                output.notice(f"{result.number} of {len(book.cells)}: {result.title}, {_outcome(result)}")

        results = stoppable(
            lambda token: _runner(file, collection, cancellation=token, listener=listener).run(
                only=chosen, again=again, stop_on_error=stop_on_error, done=done
            )
        )
    if as_json:
        output.as_json([_plain(result) for result in results])
    else:
        for result in results:
            show_notebook(result)
    if html is not None:
        _write_html(html, book, results)
    raise typer.Exit(1 if any(result.problem for result in results) else 0)


@app.command()
def export(
    notebook: Which,
    ipynb: Annotated[
        Path | None, typer.Option("--ipynb", help="Write a Jupyter notebook that runs against the Python API.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", help="Write a page with what each cell showed last, stale or not.")
    ] = None,
    outputs: Annotated[bool, typer.Option(help="Whether to include outputs, where there are some.")] = True,
    collection: Collection = None,
) -> None:
    """Export a notebook without running it: as a page, or for Jupyter. Outputs that are out of date are marked.

    \b
    rankbook notebook export tour --ipynb tour.ipynb
    rankbook notebook export mine.md --html report.html
    """
    from core import bridge
    from core.errors import SpecError
    from workbench.notebooks import export_jupyter as jupyter
    from workbench.notebooks.parsing import meaning

    if ipynb is None and html is None:
        raise SpecError("Say what to write: --ipynb out.ipynb, or --html report.html, or both.")
    file = _opened(notebook)
    runner = _runner(file, collection) if outputs else None
    results = bridge.run(runner.kept()) if runner else []
    if html is not None:
        _write_html(html, file.notebook, results)
    if ipynb is not None:
        meant = runner.meaning if runner else meaning(file.notebook, file.path)
        _write(ipynb, jupyter.render(file.notebook, meant, file.path.resolve().parent, results))


# -- steps -------------------------------------------------------------------------------------------------------------


def _opened(reference: str) -> NotebookFile:
    from workbench.notebooks.files import meant, opened

    return opened(meant(reference))


def _runner(file: NotebookFile, collection: str | None, **options: Any) -> Runner:
    from workbench.notebooks.runner import Runner
    from workbench.session import store

    return Runner(store(output.notice), file.notebook, path=file.path, collection=collection, **options)


def _announce(file: NotebookFile, collection: str | None, only: set[str] | None, *, again: bool) -> None:
    """What cells will ask of language models, said before anything is sent."""
    from core import bridge

    for sentence in bridge.run(_runner(file, collection).announced(only, again=again)):
        output.notice(sentence)


def _doubts(file: NotebookFile) -> list[str]:
    return [f"{file.path}, line {line}: {said}" for line, said in file.notebook.doubts]


def _write_html(path: Path, book: Notebook, results: list[CellResult]) -> None:
    from workbench.notebooks.export_html import render

    _write(path, render(book, results))


def _write(path: Path, text: str) -> None:
    from core import atomic_files
    from core.errors import InputError

    try:
        atomic_files.write_whole(path.expanduser(), text)
    except OSError as error:
        raise InputError(f"This cannot be written ({error.strerror}).", path=path) from error
    output.notice(f"Written: {path}")


# -- what is shown -----------------------------------------------------------------------------------------------------


def _outcome(result: CellResult) -> str:
    if result.problem:
        return "failed"
    return "there already" if result.kept else f"{result.milliseconds / 1000:.1f} s"


def _plain(result: CellResult) -> dict[str, Any]:
    return {
        "cell": result.cell.id,
        "number": result.number,
        "kind": result.cell.kind,
        "title": result.title,
        "problem": result.problem or None,
        "kept": result.kept,
        "milliseconds": result.milliseconds,
        "output": result.output.plain() if result.output else None,
    }
