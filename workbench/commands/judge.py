"""`rankbook judge`: what to judge next, judged at the terminal, from a file or by a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core import bridge
from workbench.commands import judgements, output, runtime

if TYPE_CHECKING:
    from core.store.collections import CollectionView
    from core.store.engine import Store
    from evals.judging.judgements import Judgement, Task
    from evals.judging.queue import Queue, QueueSpec

SHOWN = 1500  # characters of a document, before m shows all of it
KEYS = "0-3, then a note if you like; s skip, m more, u undo, q quit"


@dataclass
class TerminalJudge:
    """Judging at a terminal. `graded` holds, for undoing, the place of each graded task and what its grade replaced."""

    store: Store
    collection: str
    judge: str
    tasks: Sequence[Task]
    at: int = 0
    graded: list[tuple[int, list[Judgement]]] = field(default_factory=list)

    def run(self) -> None:
        """Until the queue's end, q, or the end of what is typed. Every grade is saved at once."""
        whole = False
        while self.at < len(self.tasks):
            self._show(self.tasks[self.at], whole=whole)
            try:
                answer = typer.prompt(f"Grade ({KEYS})", prompt_suffix=": ", default="", show_default=False).strip()
            except typer.Abort:  # the end of what is typed, or Ctrl-C: both mean enough
                break
            key, _, note = answer.partition(" ")
            whole = answer == "m"
            if answer == "q":
                break
            if key in {"0", "1", "2", "3"}:
                self._grade(int(key), note.strip())
            elif key == "s":
                self.at += 1
            elif key == "u":
                self._undo()
            elif key != "m":
                output.notice(f"{answer!r:.40} is no grade: {KEYS}.")
        left = len(self.tasks) - self.at
        output.notice(f"{len(self.graded)} graded by {self.judge}; {left} left." if self.tasks else "Nothing to judge.")

    def _show(self, task: Task, *, whole: bool) -> None:
        text = task.item.text if whole else task.item.text[:SHOWN]
        more = len(task.item.text) - len(text)
        lines = [f"--- {self.at + 1} of {len(self.tasks)}", f"Query: {task.query.text}", ""]
        lines += [task.item.title, ""] if task.item.title else []
        lines += [text, *([f"... {more:,} more characters: m shows them"] if more else [])]
        output.line("\n".join(lines))

    def _grade(self, grade: int, note: str) -> None:
        from evals.judging.judgements import Judgement, save_judgements

        task = self.tasks[self.at]
        judgement = Judgement(task.query.id, task.item.id, self.judge, grade, task.item.version, note=note)
        self.graded.append((self.at, bridge.run(save_judgements(self.store, self.collection, [judgement]))))
        self.at += 1

    def _undo(self) -> None:
        """Take back the last grade, or that of an earlier call where none was given yet."""
        from core.store.trash_entries import day, retention
        from evals.judging.judgements import undo

        place, before = self.graded.pop() if self.graded else (self.at, [])
        undone = bridge.run(undo(self.store, self.collection, self.judge, before=before))
        self.at = place
        if undone is None:
            output.notice("There is nothing to take back.")
        else:
            sentence = f"Taken back: {undone.grade} for {undone.item_id!r} under {undone.query_id!r}."
            output.notice(f"{sentence} It is in the trash until {day(datetime.now(UTC) + retention())}: rankbook trash")


app = typer.Typer(no_args_is_help=True, help="Judgements: queue, grade, agreement, into labels, out as qrels.")

Runs = Annotated[
    list[str], typer.Argument(metavar="RUN...", help="Runs by name or the beginning of their id: rankbook runs list.")
]
Judge = Annotated[str | None, typer.Option("--judge", "-j", help="Who judges; by default the user who is logged in.")]
Split = Annotated[str | None, typer.Option(help="Take the runs over this split, where a name has runs over several.")]
Order = Annotated[str, typer.Option(help="settle (two runs, soonest), depth (round by round), or auto.")]
Metric = Annotated[str, typer.Option(help="What is to be settled: ndcg@K, precision@K or recall@K.")]
Depth = Annotated[int, typer.Option(min=1, max=1000, help="How deep the pool by depth goes.")]
Limit = Annotated[int | None, typer.Option("--limit", "-n", min=1, help="How many pairs; by default what is enough.")]
Seed = Annotated[int, typer.Option(help="Of the order in which equals are shown.")]
Again = Annotated[bool, typer.Option("--again", help="Also what others judged: for agreement.")]


def _spec(order: str, metric: str, depth: int, limit: int | None, seed: int, again: bool) -> QueueSpec:
    from pydantic import ValidationError

    from core.errors import SpecError
    from evals.judging.queue import QueueSpec

    options = {"order": order, "metric": metric, "depth": depth, "limit": limit, "seed": seed, "again": again}
    try:
        return QueueSpec.model_validate(options)
    except ValidationError as error:
        raise SpecError.from_pydantic("The queue", error) from error


def _judge(name: str | None) -> str:
    from getpass import getuser

    from core.errors import InputError
    from evals.judging.judgements import judge_name

    try:
        return judge_name(name or getuser())
    except (KeyError, OSError) as error:  # a container's user may have no name
        raise InputError("This machine does not know who you are. Say who judges with --judge NAME.") from error


def _queue(
    store: Store, view: CollectionView, runs: Sequence[str], split: str | None, spec: QueueSpec, judge: str
) -> Queue:
    from evals.judging.queue import build_queue
    from evals.runs import run_store

    kept = [bridge.run(run_store.load(store, name, collection=view.name, split=split)) for name in runs]
    return bridge.run(build_queue(store, view, kept, spec, judge))


def _show_state(queue: Queue) -> None:
    output.notice(queue.sentence)
    if queue.stale:
        output.notice(
            f"{queue.stale} judgements are stale, their documents having changed: those pairs are asked anew."
        )
    if queue.gone:
        output.notice(f"{queue.gone} documents of the queue are no longer in the collection and were left out.")


@app.command()
def queue(  # noqa: PLR0913, PLR0917 - a flag each
    collection: runtime.Collection,
    runs: Runs,
    split: Split = None,
    judge: Judge = None,
    order: Order = "auto",
    metric: Metric = "ndcg@10",
    depth: Depth = 10,
    limit: Limit = None,
    seed: Seed = 0,
    again: Again = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """List what to judge next: what would settle two runs soonest, or of more runs the top of each, round by round.

    Neither run nor rank is shown, so that a judge is not led by them.

    \b
    rankbook judge queue handbook bm25 local-rag
    rankbook judge queue handbook bm25 local-rag --metric recall@20 -n 50
    rankbook judge queue handbook bm25 vector hybrid-retriever --split train --depth 20 --json
    """
    from evals.judging.queue import task_values

    store, view = runtime.open_collection(collection)
    spec = _spec(order, metric, depth, limit, seed, again)
    found = _queue(store, view, runs, split, spec, _judge(judge))
    pairs = [task_values(task) for task in found.tasks]
    if as_json:
        counts = {"stale": found.stale, "gone": found.gone}
        output.document({"sentence": found.sentence, "outlook": found.outlook, **counts, "pairs": pairs})
        return
    if pairs:
        rows = [(each["query"], each["item_id"], each["title"]) for each in pairs]
        output.table("To judge", ("query", "document", "title"), rows)
    _show_state(found)


@app.command()
def grade(  # noqa: PLR0913, PLR0917 - a flag each
    collection: runtime.Collection,
    runs: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN...]", help="Runs whose queue to judge; none with --file.")
    ] = None,
    file: Annotated[Path | None, typer.Option(help="Grades from a file: query, document, grade; or TREC's.")] = None,
    split: Split = None,
    judge: Judge = None,
    order: Order = "auto",
    metric: Metric = "ndcg@10",
    depth: Depth = 10,
    limit: Limit = None,
    seed: Seed = 0,
    again: Again = False,
    queries: runtime.Queries = "default",
) -> None:
    """Judge the queue in the terminal, a document at a time, or take grades from a file. Each is kept at once.

    0 not relevant, 1 related, 2 answers in part, 3 answers; s skips, m shows more, u takes the last back, q ends.
    What follows a grade is its note: 2 only for hub 3

    \b
    rankbook judge grade handbook bm25 local-rag
    rankbook judge grade handbook bm25 local-rag --judge ada --again
    rankbook judge grade handbook --file grades.tsv --judge ada
    """
    from core.errors import InputError
    from evals.judging.judgements import save_judgements
    from evals.judging.queue import read_judgements

    if (file is None) == (not runs):
        raise InputError("Name the runs whose queue you want to judge, or a file of grades with --file.")
    store, view = runtime.open_collection(collection)
    name = _judge(judge)
    if file is None:
        spec = _spec(order, metric, depth, limit, seed, again)
        found = _queue(store, view, runs or [], split, spec, name)
        _show_state(found)
        TerminalJudge(store, view.name, name, found.tasks).run()
        return
    read = bridge.run(read_judgements(store, view, file, name, name=queries))
    replaced = bridge.run(save_judgements(store, view.name, read.judgements))
    output.flaws(read.flaws, len(read.flaws))
    output.notice(f"{len(read.judgements)} judgements of {name} kept; {len(replaced)} took the place of earlier ones.")
    if not read.judgements:
        raise typer.Exit(1)


@app.command()
def model(  # noqa: PLR0913, PLR0917 - a flag each
    collection: runtime.Collection,
    runs: Runs,
    split: Split = None,
    order: Order = "auto",
    metric: Metric = "ndcg@10",
    depth: Depth = 10,
    limit: Limit = None,
    seed: Seed = 0,
    again: Again = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Send without asking.")] = False,
    *,
    as_json: output.AsJson = False,
) -> None:
    """Have a language model judge the queue. What it may cost is said before anything leaves this machine.

    Its grades are marked as a model's and count for nothing unless --models is given to merge or export. With --again
    it grades what people have graded too, which tells what its grades are worth: rankbook judge agreement.

    \b
    RANKBOOK_LLM_URL=http://localhost:11434/v1 RANKBOOK_LLM_MODEL=small rankbook judge model handbook bm25 local-rag
    rankbook judge model handbook bm25 local-rag --again -n 100 --yes
    """
    from core.context import Resources
    from evals.judging.llm_judge import ModelJudge
    from evals.judging.llm_judge import grade as let_judge

    store, view = runtime.open_collection(collection)
    resources, judge = Resources(), ModelJudge()
    signature, spec = judge.signature(resources), _spec(order, metric, depth, limit, seed, again)
    found = _queue(store, view, runs, split, spec, signature)
    estimate = judge.estimate(resources, found.tasks)
    cost = f", {estimate.cost:.4f} at your prices" if estimate.cost is not None else ""
    output.notice(
        f"{len(found.tasks)} pairs for {signature}: up to {estimate.tokens:,} tokens ({estimate.sent:,} sent, "
        f"{estimate.answered:,} answered){cost}, more where a prompt has to be sent again."
    )
    if found.tasks and not yes and not typer.confirm("Send it?", err=True):
        output.notice("Nothing was sent.")
        return
    with output.progress(quiet=as_json) as listener:
        outcome = bridge.run(let_judge(store, view.name, judge, resources, found.tasks, listener))
    failed = f" {len(outcome.failures)} prompts failed: {outcome.failures[0]}" if outcome.failures else ""
    sentence = f"{outcome.kept} judgements of {outcome.judge} kept, marked as a model's.{failed}"
    output.result(outcome, sentence, json=as_json)
    if outcome.failures:
        raise typer.Exit(1)


app.command()(judgements.agreement)
app.command()(judgements.merge)
app.command()(judgements.export)
