"""Whose results can be judged: variants, then kept runs over the same queries, newest first. Knows no Streamlit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from evals.runs.run_store import SHOWN, RunSummary
from evals.variants import every_name
from workbench.behind.judging.asked import JudgeState

LEAST = 8  # characters of an id that an address may shorten it to


def choices(kept: Iterable[RunSummary], asked: JudgeState) -> dict[str, str]:
    """What the address calls each, and what people do, in the order in which they are offered."""
    fitting = [run for run in kept if _fits(run, asked)]
    newest = sorted(fitting, key=lambda run: (run.made_at, run.id), reverse=True)
    return {**{name: name for name in every_name()}, **{run.id: told(run) for run in newest}}


def chosen(entries: Iterable[str], offered: Mapping[str, str]) -> list[str]:
    """Those of an address that are offered; an id may be shortened. The others running tells."""
    found = (_whole(entry, offered) for entry in entries)
    return list(dict.fromkeys(each for each in found if each in offered))


def told(run: RunSummary) -> str:
    """With its date, by which runs of one name are told apart."""
    return f"Run of {_moment(run.made_at)}: {run.name} ({run.id[:SHOWN]})"


def _moment(when: datetime) -> str:
    return f"{when.astimezone():%Y-%m-%d %H:%M}"


def _fits(run: RunSummary, asked: JudgeState) -> bool:
    return run.subject.split == asked.split and run.subject.query_set == asked.query_set


def _whole(entry: str, offered: Mapping[str, str]) -> str:
    if entry in offered or len(entry) < LEAST:
        return entry
    runs = (key for key, shown in offered.items() if shown != key)
    return next((key for key in runs if key.startswith(entry)), entry)
