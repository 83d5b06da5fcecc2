"""`rankbook data label` and `relabel`: labels from files, corrected one by one, and brought back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from workbench.commands import output

if TYPE_CHECKING:
    from evals.collections.load_labels import LoadReport
    from evals.labels.corrections import HistoryStep

T = TypeVar("T")
Name = Annotated[str, typer.Argument(help="The collection's name.")]
AllGrades = Annotated[bool, typer.Option("--all-grades", help="Take grades beyond 0 to 3 as they are, up to 10.")]


def label(  # noqa: PLR0913 - a flag each
    name: Name,
    origin: Annotated[
        str | None,
        typer.Argument(metavar="[FROM]", help="A file or folder of labels, or a source that has queries and labels."),
    ] = None,
    asked: Annotated[
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
    from core import bridge
    from core.errors import SpecError
    from workbench.services import attach
    from workbench.session import store

    if (origin is not None) + undo + redo != 1:
        raise SpecError("Say one thing: where the labels come from (FROM), or --undo, or --redo.")
    opened = store(output.notice)
    if origin is None:
        _move(name, queries, back=undo, as_json=as_json)
        return

    def replace(even_so: bool, all_grades: bool) -> LoadReport:
        return bridge.run(
            attach.label(
                opened,
                name,
                origin,
                queries=asked,
                query_set=queries,
                even_so=even_so,
                all_grades=all_grades,
                announce=lambda change: None if as_json else output.notice(f"{queries}: {change.sentence}."),
            )
        )

    added = _insisting(replace, even_so=even_so, all_grades=all_grades, may_ask=not as_json)
    output.as_json(added) if as_json else tell(added)


def _insisting(work: Callable[[bool, bool], T], *, even_so: bool, all_grades: bool, may_ask: bool) -> T:
    """The work; what it is refused for, a person on a terminal may answer in place of an option."""
    from evals.labels.label_checks import UnusualGrades
    from evals.labels.revisions import FewerLabels

    try:
        return work(even_so, all_grades)
    except FewerLabels as refused:
        if may_ask:
            output.flaws(refused.flaws, len(refused.flaws))
        if not may_ask or not output.confirmed(f"{refused.change.sentence}. Replace them all the same?"):
            raise
        return _insisting(work, even_so=True, all_grades=all_grades, may_ask=may_ask)
    except UnusualGrades as refused:
        if not may_ask or not output.confirmed(f"{str(refused).partition(' Nothing was changed')[0]} Take them so?"):
            raise
        return _insisting(work, even_so=even_so, all_grades=True, may_ask=may_ask)


def tell(added: LoadReport) -> None:
    output.flaws(added.flaws, len(added.flaws))
    output.notice(f"{added.name}: {added.queries:,} queries, {added.labels:,} labels.")


def _move(name: str, queries: str, *, back: bool, as_json: bool) -> None:
    from core import bridge
    from core.store import collections
    from evals.labels import corrections
    from workbench.session import store

    opened = store(output.notice)
    view = bridge.run(collections.get(opened, name))
    step = bridge.run((corrections.undo if back else corrections.redo)(opened, view.name, name=queries))
    plain = {"name": view.name, "query_set": queries, "change": step.change, "revision": step.revision}
    left = {"undoable": step.undoable, "redoable": step.redoable}
    output.done({**plain, **left}, f"{queries}: {step.sentence} {_left(step)}", json=as_json)


def _left(step: HistoryStep) -> str:
    return f"{step.undoable} more can be undone (--undo), {step.redoable} made again (--redo)."


def relabel(  # noqa: PLR0913, PLR0917 - a flag each
    name: Name,
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
    from core import bridge
    from core.errors import SpecError
    from core.store import collections
    from evals.labels import corrections
    from evals.labels.corrections import Correction
    from evals.labels.revisions import Cause
    from workbench.session import store

    if (grade is None) != remove:
        raise SpecError("Say one thing: the grade that the label should have, or --remove.")
    opened = store(output.notice)
    view = bridge.run(collections.get(opened, name))

    def correct(_: bool, all_grades: bool) -> Correction:
        return bridge.run(
            corrections.relabel(
                opened,
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

    made = _insisting(correct, even_so=False, all_grades=all_grades, may_ask=not as_json)
    output.done(made, made.sentence, json=as_json)
