"""Every target for a moment, always with the same inputs; whatever once was a finding; and the fuzzers themselves."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from core.errors import InputError, UnknownName
from tests.drills.fuzz import worker
from tests.drills.fuzz.bytes_made import inputs
from tests.drills.fuzz.found import FOUND
from tests.drills.fuzz.running import results
from tests.drills.fuzz.target import Family, Finding, Target, limited, outcome
from tests.drills.fuzz.targets import TARGETS
from tests.effort import examples

SHORT = examples(30, suppress_health_check=list(HealthCheck))


def assert_sound(found: Finding | None) -> None:
    assert found is None, f"{found.sign}\n{found.content!r}\n{found.told}"


@pytest.mark.parametrize("name", TARGETS)
def test_a_parser_succeeds_or_says_in_a_sentence_what_is_wrong(name: str) -> None:
    target = TARGETS[name]

    @SHORT
    @given(inputs(target))
    def some(content: bytes) -> None:
        assert_sound(outcome(target, content))

    some()


@pytest.mark.parametrize("name", TARGETS)
def test_an_input_to_begin_from_is_sound_and_is_read(name: str) -> None:
    for seed in TARGETS[name].seeds:
        assert_sound(outcome(TARGETS[name], seed))


ONCE = [
    pytest.param(name, each, id=f"{name}-{at}") for name, several in FOUND.items() for at, each in enumerate(several, 1)
]


@pytest.mark.parametrize(("name", "content"), ONCE)
def test_what_once_was_a_finding_is_none_any_more(name: str, content: bytes) -> None:
    assert_sound(outcome(TARGETS[name], content))


# -- the fuzzers -------------------------------------------------------------------------------------------------------

planted = Family()


@planted.target(b"abc", words=(b"!",))
def careless(content: bytes) -> None:
    if b"!" in content:
        raise KeyError(content)
    raise InputError("not understood")


def test_a_refusal_in_a_sentence_is_no_finding_and_any_other_error_is_one() -> None:
    (target,) = planted.targets
    assert outcome(target, b"abc") is None
    found = outcome(target, b"a!")
    assert found is not None
    assert found.sign.startswith("KeyError in test_parsers_fuzzed.py:")
    assert found.content == b"a!"


def test_an_input_that_takes_too_long_is_a_finding() -> None:
    def endless(_content: bytes) -> None:
        with limited(0.05):
            while True:
                time.monotonic()

    found = outcome(Target("endless", endless, (b"",)), b"x")
    assert found is not None
    assert found.sign.startswith("TooLong")


@pytest.mark.slow
def test_without_an_engine_a_planted_mistake_is_found_kept_once_and_counted(tmp_path: Path) -> None:
    tried = worker.Tried(planted.targets[0], tmp_path, seconds=30)
    while not tried.signs and not tried.over:
        worker.some_by_hypothesis(tried)
    worker.some_by_hypothesis(tried)
    tried.note()
    told = worker.state(tmp_path)
    assert told["executions"] > 1
    assert len(told["findings"]) == 1
    (kept,) = tmp_path.glob("*.input")
    assert b"!" in kept.read_bytes()


def test_a_target_that_there_is_not_is_refused_with_the_nearest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'beir_zip'"):
        next(results(1, ["beir_zi"]))


def test_a_worker_that_wrote_nothing_tried_nothing(tmp_path: Path) -> None:
    assert worker.state(tmp_path) == {"executions": 0, "findings": []}


@pytest.mark.slow
def test_a_target_is_run_in_a_process_of_its_own_and_its_inputs_are_counted() -> None:
    (found,) = results(1.0, ["metric_name"], guided=False)
    assert (found.name, found.findings) == ("metric_name", 0)
    assert found.executions > 0


@given(st.data())
@examples(20)
def test_inputs_are_never_longer_than_the_target_takes(chosen: st.DataObject) -> None:
    target = Target("short", lambda _: None, (b"x" * 100,), (b"y" * 100,), longest=16)
    assert len(chosen.draw(inputs(target))) <= 16


def test_every_finding_that_is_remembered_is_of_a_target() -> None:
    assert set(FOUND) <= set(TARGETS)
