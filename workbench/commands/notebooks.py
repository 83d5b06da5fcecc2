"""`rankbook notebook`: Markdown files whose cells run. Begin one, check it, run it without a browser, hand it on."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core import bridge
from workbench.commands import output, runtime, serve

if TYPE_CHECKING:
    from workbench.notebooks.cell_state import CellState
    from workbench.notebooks.files import NotebookFile
    from workbench.notebooks.runner import Runner

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
    from workbench.notebooks.files import read_notebook, shipped, shipped_names

    notebooks = {name: read_notebook(shipped(name)).notebook for name in shipped_names()}
    if as_json:
        output.print_json(
            [{"name": name, "title": each.title, "file": str(shipped(name))} for name, each in notebooks.items()]
        )
        return
    rows = [(name, each.title, len(each.cells)) for name, each in notebooks.items()]
    output.table("Notebooks that ship", ("name", "title", "cells"), rows, right=("cells",))
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
    from workbench.notebooks.files import ENDING, STARTER, create_notebook, find_notebook, read_notebook

    path = Path(name).expanduser()
    path = path if path.suffix == ENDING else path.with_name(f"{path.name}{ENDING}")
    notebook = read_notebook(find_notebook(like) if like else STARTER).notebook
    create_notebook(path, notebook)
    sentence = f"{path} is written. Run it with: rankbook notebook run {path}"
    output.result({"file": str(path), "cells": len(notebook.cells)}, sentence, json=as_json)


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
    from workbench.notebooks.files import FOLDER, address_of, folder_of

    path = _read(notebook).path
    folder = folder_of(path)
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
    from core.errors import RankbookError
    from workbench.notebooks.parsing import parse_cells

    checked: list[dict[str, Any]] = []
    for reference in notebooks:
        try:
            file = _read(reference)
        except RankbookError as error:
            checked.append({"notebook": reference, "cells": 0, "problems": [str(error)], "doubts": []})
            continue
        problems = parse_cells(file.notebook, file.path).problems.values()
        checked.append(
            {
                "notebook": str(file.path),
                "cells": len(file.notebook.cells),
                "problems": list(dict.fromkeys(map(str, problems))),
                "doubts": _doubts(file),
            }
        )
    if as_json:
        output.print_json(checked)
    for each in [] if as_json else checked:
        for problem in each["problems"]:
            output.error(problem)
        for doubt in each["doubts"]:
            output.notice(f"Note: {doubt}")
        if not each["problems"]:
            output.notice(f"{each['notebook']}: {each['cells']} cells, all valid.")
    raise typer.Exit(1 if any(each["problems"] for each in checked) else 0)


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

    file = _read(notebook)
    cells = file.notebook.cells
    chosen = {file.notebook.cell(each).id for each in only} if only else None
    for doubt in _doubts(file):
        output.notice(f"Note: {doubt}")
    if not as_json:  # what cells will ask of language models, before anything is sent
        for sentence in bridge.run(_runner(file, collection).cost_notices(chosen, again=again)):
            output.notice(sentence)
    with output.progress(quiet=as_json) as listener:

        def done(result: CellState) -> None:
            if not as_json:
                seconds = "there already" if result.kept else f"{result.milliseconds / 1000:.1f} s"
                outcome = "failed" if result.problem else seconds
                output.notice(f"{result.number} of {len(cells)}: {result.title}, {outcome}")

        results = runtime.run_stoppable(
            lambda token: _runner(file, collection, cancellation=token, listener=listener).run(
                only=chosen, again=again, stop_on_error=stop_on_error, done=done
            )
        )
    if as_json:
        output.print_json(
            [
                {
                    "cell": result.cell.id,
                    "number": result.number,
                    "kind": result.cell.kind,
                    "title": result.title,
                    "problem": result.problem or None,
                    "kept": result.kept,
                    "milliseconds": result.milliseconds,
                    "output": result.output.plain() if result.output else None,
                }
                for result in results
            ]
        )
    else:
        for result in results:
            output.show_cell(result.number, result.title, result.problem, result.output)
    if html is not None:
        _write_html(html, file, results)
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
    from core.errors import SpecError
    from workbench.notebooks import export_jupyter
    from workbench.notebooks.parsing import parse_cells

    if ipynb is None and html is None:
        raise SpecError("Say what to write: --ipynb out.ipynb, or --html report.html, or both.")
    file = _read(notebook)
    runner = _runner(file, collection) if outputs else None
    results = bridge.run(runner.kept()) if runner else []
    if html is not None:
        _write_html(html, file, results)
    if ipynb is not None:
        parsed = runner.parsed if runner else parse_cells(file.notebook, file.path)
        _write(ipynb, export_jupyter.render(file.notebook, parsed, file.path.resolve().parent, results))


def _read(reference: str) -> NotebookFile:
    from workbench.notebooks.files import find_notebook, read_notebook

    return read_notebook(find_notebook(reference))


def _runner(file: NotebookFile, collection: str | None, **options: Any) -> Runner:
    from workbench.notebooks.runner import Runner

    return Runner(runtime.open_store(), file.notebook, path=file.path, collection=collection, **options)


def _doubts(file: NotebookFile) -> list[str]:
    return [f"{file.path}, line {line}: {doubt}" for line, doubt in file.notebook.doubts]


def _write_html(path: Path, file: NotebookFile, results: list[CellState]) -> None:
    from workbench.notebooks.export_html import render

    _write(path, render(file.notebook, results))


def _write(path: Path, text: str) -> None:
    from core import atomic_files
    from core.errors import InputError

    try:
        atomic_files.write_whole(path.expanduser(), text)
    except OSError as error:
        raise InputError(f"This cannot be written ({error.strerror}).", path=path) from error
    output.notice(f"Written: {path}")
