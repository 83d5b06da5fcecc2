"""What is said while work is silent."""

from __future__ import annotations

import threading

from core.progress import unless_told


def test_a_silence_is_broken_once_by_saying_what_is_waited_for() -> None:
    said, spoken = list[str](), threading.Event()

    def tell(text: str) -> None:
        said.append(text)
        spoken.set()

    with unless_told("Opening ...", tell, seconds=0.001):
        assert spoken.wait(10)
    assert said == ["Opening ..."]


def test_who_speaks_or_is_done_in_time_is_not_announced() -> None:
    said: list[str] = []
    before = threading.active_count()
    with unless_told("Opening ...", said.append, seconds=600) as tell:
        tell("something else")
    with unless_told("Opening ...", said.append, seconds=600):
        pass
    assert said == ["something else"]
    assert threading.active_count() <= before + 2
