"""What judgements come to, for `rankbook judge`: agreement, labels in a query set, qrels files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from workbench.commands import output
from workbench.commands.runtime import opened_collection

if TYPE_CHECKING:
    from evals.judging.merging import MergedLabels

Collection = Annotated[str, typer.Argument(help="The collection's name.")]
Queries = Annotated[str, typer.Option("--queries", help="The query set.")]
MODELS_TOO = "Language models' grades too, where no person has graded."
AS_BEFORE = "If neither is said: as the split was merged before, or else not."
Models = Annotated[bool, typer.Option("--models", help=MODELS_TOO)]


def agreement(collection: Collection, queries: Queries = "default", *, as_json: output.AsJson = False) -> None:
    """Show how far judges agree, and how a language model's grades compare with people's.

    \b
    rankbook judge agreement handbook
    rankbook judge agreement handbook --json
    """
    from core import bridge
    from evals.judging.merging import judge_agreement

    opened, view = opened_collection(collection)
    found = bridge.run(judge_agreement(opened, view, name=queries))
    if as_json:
        told = [each.plain() for each in found.models]
        output.as_document({"standing": found.status.sentence(), "people": found.people, "models": told})
        return
    if found.counts:
        output.table("Judges", ("judge", "judgements"), found.counts, right=("judgements",))
    rows = [
        (two.one, two.other, two.shared, f"{two.same:.0%}", _figure(two.kappa), _figure(two.weighted))
        for two in found.people.two
    ]
    if rows:
        figures = ("both graded", "same grade", "kappa", "weighted kappa")
        output.table("Two by two", ("judge", "judge", *figures), rows, right=figures)
    for sentence in (found.status.sentence(), found.people.sentence(), *(each.sentence() for each in found.models)):
        output.notice(sentence)
    for each in found.models:
        if each.compared is not None:
            grades = [str(grade) for grade in each.compared.grades]
            table = [(grade, *row) for grade, row in zip(grades, each.compared.table, strict=True)]
            output.table(f"People (rows) and {each.model} (columns)", ("grade", *grades), table, right=grades)


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def merge(
    collection: Collection,
    into: Annotated[str, typer.Option(help="The query set that gets them; --queries is left as it is, if another.")],
    queries: Queries = "default",
    split: Annotated[str, typer.Option(help="The split that they become labels of.")] = "test",
    models: Annotated[
        bool | None, typer.Option("--models/--no-models", help=f"{MODELS_TOO} {AS_BEFORE}", show_default=False)
    ] = None,
    overrule: Annotated[
        bool | None,
        typer.Option(
            "--overrule/--no-overrule",
            help=f"Judgements replace labels that are there. {AS_BEFORE}",
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace a query set of that name, with labels of its own.")
    ] = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Turn judgements into labels. Several judges' grades become their median, the lower of the middle two.

    A query set with new labels is another one: runs over it are not compared with those made before.

    A set that an earlier merge made is made anew, its other splits too: each as it was merged, from today's judgements.

    \b
    rankbook judge merge handbook --into judged
    rankbook judge merge handbook --into judged --split train --models
    rankbook judge merge handbook --into default --overrule
    """
    from core import bridge
    from core.store import names
    from evals.judging.merging import WouldOverwrite, merge_judgements

    opened, view = opened_collection(collection)
    into = names.checked(into, what="The query set's name")
    how: dict[str, Any] = {"models": models, "overrule": overrule}
    try:
        made, changed = bridge.run(
            merge_judgements(opened, view, into, name=queries, split=split, overwrite=overwrite, **how)
        )
    except WouldOverwrite as error:
        raise WouldOverwrite(f"{str(error).removesuffix('.')} (`--overwrite`).") from error
    plain = {"query_set": into, "origins": made.counts, "left_out": made.left_out, "changed": changed}
    ways = {name: each.model_dump() for name, each in made.rules.items()}
    output.done({**plain, "ways": ways}, _merged(made, split, into, queries, changed=changed), json=as_json)


def _merged(made: MergedLabels, split: str, into: str, queries: str, *, changed: bool) -> str:
    from evals.judging.merging import remerged_splits

    told = ", ".join(f"{count} from {origin}" for origin, count in made.counts.items()) or "none"
    left = f"{made.left_out} judgements are of queries that {queries!r} does not have." if made.left_out else ""
    state = "" if changed else "It was so already."
    labels = f"Labels of {split!r}{made.rules[split]} in {into!r}: {told}."
    return " ".join(each for each in (labels, left, remerged_splits(made, split), state) if each)


def export(
    collection: Collection,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file; by default standard output.")] = None,
    form: Annotated[
        str, typer.Option("--format", help="trec (query 0 document grade) or beir (TSV, header).")
    ] = "trec",
    models: Models = False,
) -> None:
    """Write judgements as a qrels file: one grade per pair, people's only unless --models. Stale ones are left out.

    \b
    rankbook judge export handbook > judged.qrels
    rankbook judge export handbook --format beir --models -o judged.tsv
    """
    from core import atomic_files, bridge
    from core.errors import SpecError
    from evals.judging.judgements import judgement_status
    from evals.judging.merging import qrels_text, settle_grades

    if form not in {"trec", "beir"}:
        raise SpecError(f"The format {form!r} is not known. There is: beir, trec.")
    opened, view = opened_collection(collection)
    stood = bridge.run(judgement_status(opened, view))
    settled = settle_grades(stood.current, models=models)
    written = qrels_text({pair: each.grade for pair, each in settled.items()}, "trec" if form == "trec" else "beir")
    if out is None:
        output.raw(written)
    else:
        atomic_files.write_whole(out, written)
    output.notice(f"{len(settled)} pairs. {stood.sentence()}")
