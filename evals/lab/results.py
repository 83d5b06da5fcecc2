"""What the lab's methods return, each with its tables, its frame and its value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from core.explain import Explanation
from core.pipeline.retriever import RetrievalResult
from core.snippets import snippet
from core.types import Flaw, Hit
from core.variant import Variant
from evals.collections.load_labels import LoadReport
from evals.display import Displayable, Table, TableCell
from evals.evaluation.board import Board
from evals.judging.judgements import Task
from evals.judging.queue import Queue
from evals.labels.corrections import Correction, HistoryStep
from evals.labels.revisions import Revision
from evals.presentation.comparison import Comparison, comparison
from evals.presentation.run_history import run_history
from evals.presentation.weight_surface import weight_surface
from evals.runs.exchange import frame
from evals.runs.run_store import RunSummary
from evals.runs.types import Run
from evals.statistics.comparison import PairComparison
from evals.tuning.surface import Surface
from evals.tuning.tuner import TuningResult
from evals.types import QuerySplit

if TYPE_CHECKING:
    import pandas as pd

SNIPPET = 160  # characters
SHOWN = 10  # rows of a list that may be long


@dataclass(frozen=True, repr=False)
class LabelResult(Displayable):
    """What became of the labels, in a sentence; `result` has it in figures, `flaws` what was wrong with rows."""

    sentence: str
    result: LoadReport | Correction | HistoryStep
    flaws: tuple[Flaw, ...] = ()

    def tables(self) -> tuple[Table, ...]:
        rows = tuple((str(flaw.place), flaw.outcome, flaw.message) for flaw in self.flaws[:SHOWN])
        more = len(self.flaws) - len(rows)
        notes = (self.sentence, *([f"... and {more:,} more rows, in `flaws`."] if more else ()))
        return (Table.of("", ("where", "outcome", "what"), rows, (), notes),)


@dataclass(frozen=True, repr=False)
class LabHits(Displayable, Sequence[Hit]):
    """The hits of one variant; `bundle` has the trace and all the rest of the answer."""

    bundle: RetrievalResult

    def __len__(self) -> int:
        return len(self.bundle.hits)

    def __getitem__(self, at: int) -> Hit:  # type: ignore[override]
        return self.bundle.hits[at]

    @property
    def ids(self) -> list[str]:
        return [hit.id for hit in self.bundle.hits]

    def tables(self) -> tuple[Table, ...]:
        bundle, legs = self.bundle, self.bundle.variant.leg_names
        several, rows = legs if len(legs) > 1 else (), []
        for hit in bundle.hits:
            place = " > ".join(hit.heading_path) or hit.title
            where = f"{place} (p. {hit.page_first})" if hit.page_first else place
            document = TableCell(text=hit.item_id, hint=hit.id if hit.id != hit.item_id else "")
            text = snippet(hit.text, [bundle.query], SNIPPET).text
            found_by = {each.leg: each for each in hit.legs}
            ranks = [TableCell(text="-")] * len(several)
            for at, leg in enumerate(several):
                if (score := found_by.get(leg)) is not None:
                    hint = f"{leg}: {score.raw:.4g}, adds {score.contribution:.4g}"
                    ranks[at] = TableCell(text=str(score.rank), hint=hint)
            rows.append((hit.rank, f"{hit.score:.3f}", document, where, text, *ranks))
        title = f"{bundle.variant.name}: {bundle.query} ({bundle.trace.milliseconds:.0f} ms)"
        columns = ("", "score", "document", "where", "text", *several)
        notes = ([] if rows else ["Nothing was found."]) + [*bundle.trace.notes]
        return (Table.of(title, columns, tuple(rows), ("", "score", *several), tuple(notes)),)

    def frame(self) -> pd.DataFrame:
        """One row a hit, with its rank in each leg."""
        import pandas as pd

        legs = self.bundle.variant.leg_names
        rows = []
        for hit in self.bundle.hits:
            ranks = {each.leg: each.rank for each in hit.legs}
            own = (hit.rank, hit.score, hit.id, hit.item_id, hit.title, hit.text)
            rows.append((*own, *(ranks.get(leg) for leg in legs)))
        columns = ["rank", "score", "id", "item_id", "title", "text", *(f"rank in {leg}" for leg in legs)]
        return pd.DataFrame(rows, columns=columns)


@dataclass(frozen=True, repr=False)
class SideBySide(Displayable, Sequence[LabHits]):
    """The hits of several variants for one query."""

    found: tuple[LabHits, ...]

    def __len__(self) -> int:
        return len(self.found)

    def __getitem__(self, at: int) -> LabHits:  # type: ignore[override]
        return self.found[at]

    def tables(self) -> tuple[Table, ...]:
        return tuple(table for each in self.found for table in each.tables())


@dataclass(frozen=True, repr=False)
class LabRun(Displayable):
    """A kept run, of this lab or of another engine; `notes` say what was odd about the latter."""

    run: Run
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return self.run.name

    def tables(self) -> tuple[Table, ...]:
        run, subject = self.run, self.run.subject
        latency = f", p50 {run.latency.p50:.1f} ms" if run.latency else ""
        failed = f", {len(run.failures)} failed" if run.failures else ""
        title = (
            f"{run.name}: {len(run.rankings)} queries of {subject.split}, {subject.collection}{failed}{latency} "
            f"(run {run.id[:12]})"
        )
        return (Table.of(title, notes=(*self.notes, *run.notes)),)

    def frame(self) -> pd.DataFrame:
        """Its rankings: query, item, rank, score."""
        return frame(self.run)


@dataclass(frozen=True, repr=False)
class Compared(Displayable):
    """Two runs in every detail, with the queries that decide between them in full."""

    board: Board
    comparison: PairComparison
    metric: str

    @property
    def sentence(self) -> str:
        return self.comparison.finding.sentence

    def tables(self) -> tuple[Table, ...]:
        shown, kinds = self._compared, self._compared.kinds_table()
        return (Table.of(shown.headline), shown.deciding_table(), *([kinds] if kinds else []))

    def frame(self) -> pd.DataFrame:
        """Every query that was scored, by falling difference."""
        import pandas as pd

        shown = self._compared
        rows = [(each.id, each.text, each.one, each.other, each.difference) for each in shown.queries]
        return pd.DataFrame(rows, columns=["query", "text", shown.system, shown.baseline, "difference"])

    @property
    def _compared(self) -> Comparison:
        return comparison(self.board, self.comparison, self.metric)


@dataclass(frozen=True, repr=False)
class LabSweep(Displayable):
    """Every mix of weights of some legs, scored; `tuned` says what choosing the best is worth on unseen queries."""

    base: Variant
    tuned: TuningResult
    notes: tuple[str, ...] = ()

    @property
    def surface(self) -> Surface:
        """Of the fusion that was chosen."""
        return self.tuned.surfaces[self.tuned.chosen.surface]

    def variant(self, *, name: str | None = None, even_so: bool = False) -> Variant:
        """The base with the weights found; refused where labels are too few, unless `even_so`."""
        made = self.tuned.variant(self.base, per_kind=self.tuned.kinds is not None, even_so=even_so)
        return made if name is None else made.but(name=name)

    def tables(self) -> tuple[Table, ...]:
        surface = weight_surface(self.base.name, self.tuned)
        rows = [
            (
                TableCell(text=each.name, strong=each is surface.best),
                f"{each.means[each.best]:.3f}",
                *(f"{weight:g}" for weight in surface.weights_at(each.best, each).values()),
            )
            for each in surface.fusions
        ]
        title = f"{surface.metric} over the weights of {' and '.join(surface.legs)}, {surface.queries} queries"
        columns = ("fusion", "in-sample best", *surface.legs)
        return (Table.of(title, columns, rows, columns[1:], (*surface.sentences, *self.notes)),)

    def frame(self) -> pd.DataFrame:
        """Every point of the chosen surface: weights, mean, and whether it is tied with the best."""
        import pandas as pd

        points = weight_surface(self.base.name, self.tuned).points
        return pd.DataFrame([{**each.weights, "mean": each.mean, "tied": each.tied} for each in points])


@dataclass(frozen=True, repr=False)
class Why(Displayable):
    """Why a document is among the results or not, in sentences."""

    account: Explanation

    def tables(self) -> tuple[Table, ...]:
        first, *others = self.account.sentences()
        return (Table.of(first, notes=tuple(others)),)


@dataclass(frozen=True, repr=False)
class Pool(Displayable, Sequence[Task]):
    """Pairs to judge next, in an order that tells nothing of the runs."""

    queue: Queue

    def __len__(self) -> int:
        return len(self.queue.tasks)

    def __getitem__(self, at: int) -> Task:  # type: ignore[override]
        return self.queue.tasks[at]

    def tables(self) -> tuple[Table, ...]:
        shown = self.queue.tasks[:SHOWN]
        rows = tuple((each.query.id, each.query.text, each.item.id, each.item.title) for each in shown)
        more = (f"... and {len(self) - SHOWN} more.",) if len(self) > SHOWN else ()
        return (Table.of(self.queue.sentence, ("query", "text", "document", "title"), rows, (), more),)

    def frame(self) -> pd.DataFrame:
        import pandas as pd

        rows = [(each.query.id, each.query.text, each.item.id, each.item.title, each.item.text) for each in self]
        return pd.DataFrame(rows, columns=["query", "query text", "document", "title", "text"])


class Statement(str):
    """SQL as the text it is, shown as it is written."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<pre class="tex2jax_ignore mathjax_ignore" style="background:none">{escape(self)}</pre>'


@dataclass(frozen=True, repr=False)
class CollectionFacts(Displayable):
    """A collection in a few lines."""

    name: str
    facts: Mapping[str, object]

    def tables(self) -> tuple[Table, ...]:
        return (Table.of(self.name, ("", " "), tuple(self.facts.items())),)


# -- frames and judgements ---------------------------------------------------------------------------------------------


def runs_frame(runs: Sequence[RunSummary]) -> pd.DataFrame:
    import pandas as pd

    rows = [
        {
            "run": row.short_id,
            "name": row.name,
            "split": row.split,
            "queries": row.queries,
            "failed": row.failed,
            "made": row.made_at,
            "pins": ", ".join(row.pins),
            **row.scores,
        }
        for row in run_history(runs).rows
    ]
    return pd.DataFrame(rows, columns=None if rows else ["run", "name", "split", "queries", "failed", "made", "pins"])


def changes_frame(changes: Sequence[Revision]) -> pd.DataFrame:
    import pandas as pd

    columns = ["when", "who", "what", "why", "state"]
    rows = [(each.made_at, each.author, each.change.sentence, each.reason, each.state) for each in changes]
    return pd.DataFrame(rows, columns=columns)


def queries_frame(split: QuerySplit) -> pd.DataFrame:
    import pandas as pd

    rows = [
        (
            query.id,
            query.text,
            query.kind,
            query.weight,
            sum(grade > 0 for grade in split.grades.get(query.id, {}).values()),
        )
        for query in split.queries.values()
    ]
    return pd.DataFrame(rows, columns=["query", "text", "kind", "weight", "relevant"])
