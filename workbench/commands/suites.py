"""`rankbook suite` and `rankbook gate`: TOML files of what is to be measured, carried out and held to what they ask."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core import bridge
from workbench.commands import evaluate, output, runtime

if TYPE_CHECKING:
    from evals.suites.run_suite import SuiteResult, TargetResult
    from evals.suites.suite import Suite

app = typer.Typer(no_args_is_help=True, help="Suites: collections x variants x metrics, and a gate. Run, show, check.")

OUTCOMES = {"passed": "ok", "failed": "FAILED", "error": "ERROR"}

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
    evaluate.check_paths(html=html, markdown=markdown, latex=latex)
    suite_result = _run(file, again=again, junit=junit, quiet=as_json)
    suite = suite_result.suite
    if as_json:
        results = [_plain(each) for each in suite_result.results]
        output.document({"suite": suite.name, "passed": suite_result.passed, "results": results})
    else:
        for each in suite_result.results:
            _show(each)
        if suite.gate:
            _show_gate(suite_result)
    if html or markdown or latex:
        store = runtime.open_store()
        parts = [
            evaluate.report_part(
                store, each.board, {tuned.name: tuned.tuned for tuned in each.tuned}, each.notes, each.plan
            )
            for each in suite_result.results
        ]
        evaluate.write_reports(
            parts,
            html,
            markdown,
            latex,
            title=suite.name,
            description=suite.description,
            checks=suite_result.checks,
            files={file.name: file.expanduser().read_text(encoding="utf-8")},
        )
    raise typer.Exit(0 if suite_result.passed else 1)


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
    suite_result = _run(file, again=again, junit=junit, quiet=as_json)
    if as_json:
        checks = [check for each in suite_result.results for check in each.checks]
        output.document({"suite": suite.name, "passed": suite_result.passed, "checks": checks})
    else:
        _show_gate(suite_result)
    raise typer.Exit(0 if suite_result.passed else 1)


@app.command()
def show(file: File, *, as_json: output.AsJson = False) -> None:
    """Show what a suite holds: its collections, and every variant that its presets, files and grids expand to.

    Example: rankbook suite show suite.toml
    """
    suite = _read(file)
    variants = suite.all_variants()
    if as_json:
        known = [{"name": each.name, "id": each.id} for each in variants]
        output.document({**suite.model_dump(mode="json", by_alias=True), "variants": known})
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
    from core.errors import RankbookError
    from evals.suites.run_suite import plan_suite

    checked: list[dict[str, Any]] = []
    for file in files:
        lines, problem = list[str](), None
        try:
            for plan in bridge.run(plan_suite(runtime.open_store(), _read(file))):
                lines += plan.sentences()
        except RankbookError as error:
            lines, problem = [], str(error)
        checked.append({"file": str(file), "plan": lines, "problem": problem})
    if as_json:
        output.print_json(checked)
    for each in [] if as_json else checked:
        if each["problem"]:  # which may begin with the file's name already
            output.error(f"{each['file']}: {each['problem'].removeprefix(each['file'] + ': ')}")
        for line in each["plan"]:
            output.notice(f"{each['file']}: {line}")
    raise typer.Exit(1 if any(each["problem"] for each in checked) else 0)


def _read(file: Path) -> Suite:
    from evals.suites.suite import Suite

    return Suite.from_file(file.expanduser())


def _run(file: Path, *, again: bool, junit: Path | None, quiet: bool) -> SuiteResult:
    """The suite's result. The file for a CI server is written even where the suite cannot be run, and says why."""
    from core.errors import RankbookError
    from evals.suites import gate
    from evals.suites.run_suite import plan_suite, run_suite

    try:
        suite = _read(file)
        with output.waiting(f"Opening the collections of {suite.name} ...", quiet=quiet):
            store = runtime.open_store()
            plans = bridge.run(plan_suite(store, suite, again=again))
        for line in [] if quiet else [line for plan in plans for line in plan.sentences()]:
            output.notice(line)
        with output.progress(quiet=quiet) as listener:
            suite_result = runtime.run_stoppable(
                lambda token: run_suite(store, suite, progress=listener, cancellation=token, again=again, planned=plans)
            )
    except RankbookError as error:
        if junit is not None:
            gate.write(junit, gate.broken(file.stem, str(error)))
        raise
    if junit is not None:
        gate.write(junit, gate.junit(suite.name, suite_result.checks))
    return suite_result


def _show(target: TargetResult) -> None:
    from evals.tuning.tuner import fusion_label

    for each in target.tuned:
        tuned = each.tuned
        if each.variant is not None:
            weights = ", ".join(f"{leg} {weight:g}" for leg, weight in tuned.chosen.weights.items())
            output.notice(f"{each.name}, tuned on {each.split}: {weights} under {fusion_label(tuned.chosen.fusion)}.")
        output.notice(
            f"{each.name}: in-sample {tuned.in_sample:.3f}, to be expected of new queries {tuned.cross_fitted:.3f} "
            f"(the gap of {tuned.optimism:.3f} is optimism). {tuned.verdict}"
        )
    output.show_foreign(target.foreign)
    output.show_board(target.board)
    for note in target.notes:
        output.notice(f"Note: {note}")


def _plain(target: TargetResult) -> dict[str, Any]:
    from core.fusion.base import spec_of

    tuned = [
        {
            "name": each.name,
            "split": each.split,
            "weights": each.tuned.chosen.weights,
            "fusion": spec_of(each.tuned.chosen.fusion),
            "in_sample": each.tuned.in_sample,
            "cross_fitted": each.tuned.cross_fitted,
            "verdict": each.tuned.verdict,
            "left_out": each.variant is None,
        }
        for each in target.tuned
    ]
    return {**output.plain_board(target.board), "tuned": tuned, "notes": target.notes, "checks": target.checks}


def _show_gate(suite_result: SuiteResult) -> None:
    checks = suite_result.checks
    rows = [
        (OUTCOMES[each.outcome], each.collection, each.variant, each.what, each.found, each.wanted) for each in checks
    ]
    columns = ("", "collection", "variant", "what", "found", "wanted")
    output.table(f"Gate of {suite_result.suite.name}", columns, rows, right=("found", "wanted"))
    wrong = [each for each in checks if each.outcome != "passed"]
    for each in wrong:
        if each.says:
            output.notice(f"{each.variant}, {each.what}: {each.says}")
    of = f"{len(checks)} checks"
    output.notice(f"The gate fails: {len(wrong)} of {of}." if wrong else f"The gate holds: {of} passed.")
