"""`rankbook suite` and `rankbook gate`: TOML files of what is to be measured, carried out and held to what they ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import evaluate, output, runtime

if TYPE_CHECKING:
    from evals.suites.run_suite import SuiteResult
    from evals.suites.suite import Suite

app = typer.Typer(no_args_is_help=True, help="Suites: collections x variants x metrics, and a gate. Run, show, check.")

File = Annotated[Path, typer.Argument(metavar="SUITE.toml", help="The suite.")]
Again = Annotated[bool, typer.Option("--again", help="Ask everything again, even where results are kept.")]
Junit = Annotated[Path | None, typer.Option("--junit", help="Write the gate's checks as JUnit XML, for a CI server.")]


@app.command()
def run(
    file: File,
    again: Again = False,
    junit: Junit = None,
    _dask: runtime.Dask = None,
    html: evaluate.Html = None,
    markdown: evaluate.Markdown = None,
    latex: evaluate.Latex = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Run a suite: plan, tune, run, score. Exit code 1 where it has a gate and the gate fails.

    What was done is kept. Stopped with Ctrl-C, or run again after a change, it asks only what is not there yet.

    \b
    rankbook suite run suite.toml
    rankbook suite run suite.toml --html report.html --json > scores.json
    """
    evaluate.check_endings(html, markdown, latex)
    result = _carried_out(file, again=again, junit=junit, quiet=as_json)
    if as_json:
        output.as_document(_plain(result))
    else:
        for each in result.results:
            output.show_result(each)
        if result.suite.gate:
            output.show_gate(result)
    _report(file, result, html, markdown, latex)
    raise typer.Exit(0 if result.passed else 1)


def gate(
    file: File,
    again: Again = False,
    junit: Junit = None,
    _dask: runtime.Dask = None,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Run a suite and say whether its gate holds: exit code 0, or 1 where something fails or cannot be told.

    A gate asks for minimum values, for no drop against a baseline, for speed; `against` names a pinned run, looked for
    as NAME@COLLECTION first and then as NAME. See: rankbook runs pin.

    \b
    rankbook gate suite.toml
    rankbook gate suite.toml --junit build/rankbook.xml
    """
    from core.errors import SpecError

    suite = _read(file)
    if suite.gate is None:
        raise SpecError(
            f"{file.name} has no gate. Add what must hold, for instance: [gate] and below it "
            f"minimum = {{ '{suite.metrics[0]}' = 0.5 }}"
        )
    result = _carried_out(file, again=again, junit=junit, quiet=as_json)
    if as_json:
        checks = [check for each in result.results for check in each.checks]
        output.as_document({"suite": suite.name, "passed": result.passed, "checks": checks})
    else:
        output.show_gate(result)
    raise typer.Exit(0 if result.passed else 1)


@app.command()
def show(file: File, *, as_json: output.AsJson = False) -> None:
    """Show what a suite holds: its collections, and every variant that its presets, files and grids expand to.

    Example: rankbook suite show suite.toml
    """
    suite = _read(file)
    variants = suite.all_variants()
    if as_json:
        known = [{"name": each.name, "id": each.id} for each in variants]
        output.as_document({**suite.model_dump(mode="json", by_alias=True), "variants": known})
        return
    if suite.description:
        output.notice(suite.description)
    targets = [(each.name, each.query_set, each.split) for each in suite.targets]
    output.table(f"Collections of {suite.name}", ("collection", "query set", "split"), targets)
    rows = [(each.name, ", ".join(each.leg_names), each.chunks, each.id[:12]) for each in variants]
    rows += [(tune.name, ", ".join(suite.base_of(tune).leg_names), "", f"tuned on {tune.split}") for tune in suite.tune]
    output.table("Variants", ("name", "legs", "searches", "id"), rows)
    output.notice(f"Metrics: {', '.join(suite.metrics)}. {'With a gate.' if suite.gate else 'Without a gate.'}")


@app.command()
def check(
    files: Annotated[list[Path], typer.Argument(metavar="SUITE.toml...", help="Suites.")],
    *,
    as_json: output.AsJson = False,
) -> None:
    """Check that suites are valid and what they name exists, and show the plan. Exit code 1 where one is not.

    Example: rankbook suite check suite.toml
    """
    checked = [_checked(file) for file in files]
    if as_json:
        output.as_json(checked)
    for each in [] if as_json else checked:
        if each["problem"]:
            said = each["problem"].removeprefix(f"{each['file']}: ")  # what was read may have named it already
            output.error(f"{each['file']}: {said}")
        for line in each["plan"]:
            output.notice(f"{each['file']}: {line}")
    raise typer.Exit(1 if any(each["problem"] for each in checked) else 0)


def _checked(file: Path) -> dict[str, Any]:
    from core import bridge
    from core.errors import RankbookError
    from evals.suites.run_suite import plan_suite
    from workbench.session import store

    try:
        plans = bridge.run(plan_suite(store(output.notice), _read(file)))
    except RankbookError as error:
        return {"file": str(file), "plan": [], "problem": str(error)}
    return {"file": str(file), "plan": [line for each in plans for line in each.sentences()], "problem": None}


def _read(file: Path) -> Suite:
    from evals.suites.suite import Suite

    return Suite.from_file(file.expanduser())


def _carried_out(file: Path, *, again: bool, junit: Path | None, quiet: bool) -> SuiteResult:
    """The suite's result; for a CI server also what kept it from being run."""
    from core.errors import RankbookError
    from evals.suites import gate as xml

    try:
        result = _run(_read(file), again=again, quiet=quiet)
    except RankbookError as error:
        if junit is not None:
            xml.write(junit, xml.broken(file.stem, str(error)))
        raise
    if junit is not None:
        xml.write(junit, xml.junit(result.suite.name, result.checks))
    return result


def _run(suite: Suite, *, again: bool, quiet: bool) -> SuiteResult:
    from core import bridge
    from evals.suites.run_suite import plan_suite, run_suite
    from workbench.commands.runtime import stoppable
    from workbench.session import store

    with output.waiting(f"Opening the collections of {suite.name} ...", quiet=quiet):
        opened = store(output.notice)
        plans = bridge.run(plan_suite(opened, suite, again=again))
    for each in plans:
        for line in [] if quiet else each.sentences():
            output.notice(line)
    with output.progress(quiet=quiet) as listener:
        return stoppable(
            lambda token: run_suite(opened, suite, progress=listener, cancellation=token, again=again, planned=plans)
        )


def _report(file: Path, result: SuiteResult, *paths: Path | None) -> None:
    from workbench.session import store

    told = [
        evaluate.WrittenPart(each.board, {made.name: made.tuned for made in each.tuned}, each.notes, each.plan)
        for each in result.results
    ]
    suite = result.suite
    text = {file.name: file.expanduser().read_text(encoding="utf-8")}
    heading = evaluate.Heading(suite.name, suite.description, result.checks, text)
    evaluate.write(store(), told, heading, *paths)


def _plain(result: SuiteResult) -> dict[str, Any]:
    return {
        "suite": result.suite.name,
        "passed": result.passed,
        "results": [output.plain_result(each) for each in result.results],
    }
