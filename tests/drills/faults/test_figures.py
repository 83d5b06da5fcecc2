"""What `make bench ARGS=faults` makes of drills that hang, break down, lose a row or say what is no sentence."""

from __future__ import annotations

import threading

from tests.bench.faults import INJECTED, KINDS, Found, carry_out, in_all
from tests.drills.faults.disk import CannotMount
from tests.drills.faults.outcome import TRACEBACK, Outcome


def met(found: Found) -> dict[str, bool]:
    return {each.what: each.met for each in in_all(found)}


def enough() -> list[Outcome]:
    return [Outcome(f"fault {number}", INJECTED // KINDS) for number in range(KINDS)]


def test_enough_faults_of_enough_kinds_meet_every_figure() -> None:
    found = Found([*enough(), Outcome("soak of mixed operations", 10)])
    assert all(met(found).values())
    assert len(met(found)) == 6


def test_operations_of_a_soak_are_no_faults() -> None:
    found = met(Found([*enough()[1:], Outcome("soak of mixed operations", INJECTED)]))
    assert (found["faults injected"], found["kinds of faults"]) == (False, False)


def test_whatever_goes_wrong_misses_its_own_figure_and_no_other() -> None:
    wrong = {
        "rows lost or doubled": Outcome("one lost", 1, lost=1),
        "errors that were no sentence": Outcome("a traceback", 1, said=(f"{TRACEBACK}\n.",)),
        "leaks of memory or connections": Outcome("soak", 1, works=False),
    }
    for what, outcome in wrong.items():
        figures = met(Found([*enough(), outcome]))
        assert [each for each, well in figures.items() if not well] == [what]


def test_a_drill_that_hangs_or_breaks_down_is_told_and_the_next_one_begins(capfd) -> None:
    found, forever = Found(enough()), threading.Event()

    def hangs() -> Outcome:
        forever.wait()
        return Outcome("never", 1)

    def breaks() -> Outcome:
        raise AssertionError("slower than a minute")

    def cannot() -> Outcome:
        raise CannotMount("It takes root.")

    for drill in (hangs, breaks, cannot, lambda: Outcome("the next one", 1)):
        carry_out(drill, found, within=0.5)
    forever.set()
    assert ([each.fault for each in found.outcomes][-1], len(found.outcomes)) == ("the next one", KINDS + 1)
    assert (found.hung, found.broken) == (["test_figures.hangs"], ["test_figures.breaks"])
    assert [each for each, well in met(found).items() if not well] == ["hangs", "errors that were no sentence"]
    assert "slower than a minute" in capfd.readouterr().err
