"""What judgements come to, for `rankbook judge`: agreement, labels in a query set, qrels files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from core import bridge
from workbench.commands import output, runtime

MODELS_TOO = "Language models' grades too, where no person has graded."
AS_BEFORE = "If neither is said: as the split was merged before, or else not."


def agreement(
    collection: runtime.Collection, queries: runtime.Queries = "default", *, as_json: output.AsJson = False
) -> None:
    """Show how far judges agree, and how a language model's grades compare with people's.

    \b
    rankbook judge agreement handbook
    rankbook judge agreement handbook --json
    """
    from evals.judging.merging import judge_agreement

    store, view = runtime.open_collection(collection)
    found = bridge.run(judge_agreement(store, view, name=queries))
    if as_json:
        models = [each.plain() for each in found.models]
        output.document({"standing": found.status.sentence(), "people": found.people, "models": models})
        return

    def figure(value: float | None) -> str:
        return "-" if value is None else f"{value:.2f}"

    if found.counts:
        output.table("Judges", ("judge", "judgements"), found.counts, right=("judgements",))
    rows = [
        (two.one, two.other, two.shared, f"{two.same:.0%}", figure(two.kappa), figure(two.weighted))
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


def merge(
    collection: runtime.Collection,
    into: Annotated[str, typer.Option(help="The query set that gets them; --queries is left as it is, if another.")],
    queries: runtime.Queries = "default",
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
    from core.store import names
    from evals.judging.merging import WouldOverwrite, merge_judgements, remerged_splits

    store, view = runtime.open_collection(collection)
    into = names.checked(into, what="The query set's name")
    how: dict[str, Any] = {"models": models, "overrule": overrule}
    try:
        merged, changed = bridge.run(
            merge_judgements(store, view, into, name=queries, split=split, overwrite=overwrite, **how)
        )
    except WouldOverwrite as error:
        raise WouldOverwrite(f"{str(error).removesuffix('.')} (`--overwrite`).") from error
    counts = ", ".join(f"{count} from {origin}" for origin, count in merged.counts.items()) or "none"
    sentences = [f"Labels of {split!r}{merged.rules[split]} in {into!r}: {counts}."]
    if merged.left_out:
        sentences.append(f"{merged.left_out} judgements are of queries that {queries!r} does not have.")
    sentences += [remerged_splits(merged, split), "" if changed else "It was so already."]
    ways = {name: each.model_dump() for name, each in merged.rules.items()}
    value = {"query_set": into, "origins": merged.counts, "left_out": merged.left_out, "changed": changed, "ways": ways}
    output.result(value, " ".join(filter(None, sentences)), json=as_json)


def export(
    collection: runtime.Collection,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="The file; by default standard output.")] = None,
    form: Annotated[
        str, typer.Option("--format", help="trec (query 0 document grade) or beir (TSV, header).")
    ] = "trec",
    models: Annotated[bool, typer.Option("--models", help=MODELS_TOO)] = False,
) -> None:
    """Write judgements as a qrels file: one grade per pair, people's only unless --models. Stale ones are left out.

    \b
    rankbook judge export handbook > judged.qrels
    rankbook judge export handbook --format beir --models -o judged.tsv
    """
    from core import atomic_files
    from core.errors import SpecError
    from evals.judging.judgements import judgement_status
    from evals.judging.merging import qrels_text, settle_grades

    if form not in {"trec", "beir"}:
        raise SpecError(f"The format {form!r} is not known. There is: beir, trec.")
    store, view = runtime.open_collection(collection)
    status = bridge.run(judgement_status(store, view))
    grades = {pair: each.grade for pair, each in settle_grades(status.current, models=models).items()}
    text = qrels_text(grades, "trec" if form == "trec" else "beir")
    if out is None:
        output.raw(text)
    else:
        atomic_files.write_whole(out, text)
    output.notice(f"{len(grades)} pairs. {status.sentence()}")
