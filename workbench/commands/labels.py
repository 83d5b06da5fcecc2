"""`rankbook data label` and `relabel`: labels from files, corrected one by one, and brought back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from core import bridge
from workbench.commands import output, runtime

if TYPE_CHECKING:
    from evals.collections.load_labels import LoadReport

T = TypeVar("T")
AllGrades = Annotated[bool, typer.Option("--all-grades", help="Take grades beyond 0 to 3 as they are, up to 10.")]


def label(  # noqa: PLR0913 - a flag each
    name: runtime.Collection,
    origin: Annotated[
        str | None,
        typer.Argument(metavar="[FROM]", help="A file or folder of labels, or a source that has queries and labels."),
    ] = None,
    queries_file: Annotated[
        Path | None, typer.Option("--asked", help="A file of queries, where FROM holds the labels alone.")
    ] = None,
    queries: Annotated[str, typer.Option("--queries", help="The query set; made if it is not there.")] = "default",
    even_so: Annotated[
        bool, typer.Option("--even-so", help="Replace the labels even if fewer of them, or none, are left.")
    ] = False,
    all_grades: AllGrades = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take back the last change of the query set.")] = False,
    redo: Annotated[bool, typer.Option("--redo", help="Make again the change that was undone last.")] = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Replace a collection's queries and labels with those from files. What changes is said before it does.

    Labels are TREC's or BEIR's qrels, or a table with the columns query_id, item_id and grade. Without queries they are
    about those that are there. The last 20 changes of a query set are kept, whatever made them: --undo goes back step
    by step, `rankbook queries changes` lists them.

    \b
    rankbook data label docs ./beir-folder
    rankbook data label docs judged.qrels
    rankbook data label docs judged.qrels --asked questions.csv --queries pilot
    rankbook data label docs --undo
    """
    from core.errors import SpecError
    from evals.labels import corrections
    from workbench.services import attach

    if (origin is not None) + undo + redo != 1:
        raise SpecError("Say one thing: where the labels come from (FROM), or --undo, or --redo.")
    if origin is None:
        store, view = runtime.open_collection(name)
        step = bridge.run((corrections.undo if undo else corrections.redo)(store, view.name, name=queries))
        sentence = f"{step.undoable} more can be undone (--undo), {step.redoable} made again (--redo)."
        output.result(
            {
                "name": view.name,
                "query_set": queries,
                "change": step.change,
                "revision": step.revision,
                "undoable": step.undoable,
                "redoable": step.redoable,
            },
            f"{queries}: {step.sentence} {sentence}",
            json=as_json,
        )
        return
    store = runtime.open_store()

    def replace(even_so: bool, all_grades: bool) -> LoadReport:
        return bridge.run(
            attach.label(
                store,
                name,
                origin,
                queries=queries_file,
                query_set=queries,
                even_so=even_so,
                all_grades=all_grades,
                announce=lambda change: None if as_json else output.notice(f"{queries}: {change.sentence}."),
            )
        )

    loaded = _with_consent(replace, even_so=even_so, all_grades=all_grades, may_ask=not as_json)
    output.print_json(loaded) if as_json else show_labels(loaded)


def show_labels(loaded: LoadReport) -> None:
    output.flaws(loaded.flaws, len(loaded.flaws))
    output.notice(f"{loaded.name}: {loaded.queries:,} queries, {loaded.labels:,} labels.")


def _with_consent(work: Callable[[bool, bool], T], *, even_so: bool, all_grades: bool, may_ask: bool) -> T:
    """The work's result. Where it is refused for want of an option, a person at a terminal may agree instead."""
    from evals.labels.label_checks import UnusualGrades
    from evals.labels.revisions import FewerLabels

    while True:
        try:
            return work(even_so, all_grades)
        except FewerLabels as refusal:
            if may_ask:
                output.flaws(refusal.flaws, len(refusal.flaws))
            question = f"{refusal.change.sentence}. Replace them all the same?"
            if not may_ask or not output.confirm_on_terminal(question):
                raise
            even_so = True
        except UnusualGrades as refusal:
            question = f"{str(refusal).partition(' Nothing was changed')[0]} Take them so?"
            if not may_ask or not output.confirm_on_terminal(question):
                raise
            all_grades = True


def relabel(  # noqa: PLR0913, PLR0917 - a flag each
    name: runtime.Collection,
    query: Annotated[str, typer.Argument(help="The query's id.")],
    document: Annotated[str, typer.Argument(help="The document's id.")],
    grade: Annotated[int | None, typer.Argument(min=0, help="The grade that it should have.")] = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the label away.")] = False,
    queries: Annotated[str, typer.Option("--queries", help="The query set.")] = "default",
    split: Annotated[
        str | None, typer.Option(help="The split; by default the one in which the pair is labelled.")
    ] = None,
    why: Annotated[str, typer.Option(help="Why, for whoever reads the list of changes.")] = "",
    all_grades: AllGrades = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Correct one label: give a document another grade for a query, or a first one, or take its label away.

    Grade 0 is judged and not relevant. `rankbook data label NAME --undo` takes it back.

    \b
    rankbook data relabel handbook q001 fix-wifi-hub-3 0
    rankbook data relabel handbook q001 fix-wifi-hub-3 2 --split test --why "answers the second half"
    rankbook data relabel handbook q001 fix-wifi-hub-3 --remove
    """
    from core.errors import SpecError
    from evals.labels import corrections
    from evals.labels.corrections import Correction
    from evals.labels.revisions import Cause

    if (grade is None) != remove:
        raise SpecError("Say one thing: the grade that the label should have, or --remove.")
    store, view = runtime.open_collection(name)

    def correct(_: bool, all_grades: bool) -> Correction:
        return bridge.run(
            corrections.relabel(
                store,
                view,
                query,
                document,
                grade,
                query_set=queries,
                split=split,
                all_grades=all_grades,
                cause=Cause(reason=why),
            )
        )

    correction = _with_consent(correct, even_so=False, all_grades=all_grades, may_ask=not as_json)
    output.result(correction, correction.sentence, json=as_json)
