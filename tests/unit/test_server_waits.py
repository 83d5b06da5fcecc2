"""Waiting for the embedded server: what is said and when, what counts as movement, and when there is no use in it."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest

from core.errors import Cancelled, ServerError
from core.store.server import supervisor
from core.store.server.supervisor import Process, Watch
from core.store.server.waiting import Wait
from workbench.services import server_waits

IDLE = Process(10, "checkpointer", 0, 0, waits_for_disk=False)
POSTMASTER = Process(9, "postmaster", 0, 0, waits_for_disk=False)


class Staged(Watch):
    """A server whose processes and log are what a test says."""

    def __init__(self, cluster: Path, *there: Process) -> None:
        super().__init__(cluster)
        self.there = there

    def seen(self) -> list[Process]:
        return [POSTMASTER, *self.there]


class Nothing(Watch):
    """A server without a process."""

    def seen(self) -> list[Process]:
        return []


@pytest.fixture
def cluster(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "postmaster.pid").write_text("9\n")
    (tmp_path / supervisor.LOG).write_text("")
    return tmp_path


def moves(watch: Staged, *there: Process) -> bool:
    """Whether the server seems to have moved since the last look."""
    watch.moved_at = 0.0
    watch.there = there
    watch.still()
    return watch.moved_at > 0


def test_work_disk_titles_and_coming_and_going_are_movement(cluster):
    watch = Staged(cluster, IDLE)
    watch.still()
    assert not moves(watch, IDLE)
    assert moves(watch, IDLE._replace(worked=supervisor.WORKED))
    assert moves(watch, IDLE._replace(worked=supervisor.WORKED, stored=1))
    assert moves(watch, IDLE._replace(title="checkpointer performing shutdown checkpoint"))
    assert moves(watch)
    assert moves(watch, IDLE)
    assert not moves(watch, IDLE)


def test_waking_up_now_and_then_is_none(cluster):
    watch = Staged(cluster, IDLE)
    watch.still()
    assert not any(moves(watch, IDLE._replace(worked=worked)) for worked in range(supervisor.WORKED))


def test_those_who_come_too_early_and_the_postmaster_who_answers_them_are_none(cluster):
    watch = Staged(cluster, IDLE)
    watch.still()
    early = Process(11, "rankbook rankbook [local] startup", 50, 0, waits_for_disk=False)
    assert not moves(watch, IDLE, early)
    early_bird = "2026 UTC [11] FATAL:  the database system is starting up\n"
    progress = "2026 UTC [11] LOG:  redo in progress, elapsed time: 3.00 s, current LSN: 0/2\n"
    (cluster / supervisor.LOG).write_text(early_bird)
    assert not moves(watch, IDLE)
    (cluster / supervisor.LOG).write_text(early_bird + progress)
    assert moves(watch, IDLE)
    assert watch.words == "redo in progress, elapsed time: 3.00 s, current LSN: 0/2"


def wait(cluster: Path, *there: Process, patience: float, **options) -> Wait:
    made = Wait(cluster, patience=patience, **options)
    made.watch = Staged(cluster, *there)
    return made


def until_it_raises(made: Wait, what: str = "PostgreSQL", holder: int | None = None) -> str:
    def looked() -> None:
        while True:
            made.checked = 0.0  # look each time
            made.pause(what, holder)

    with pytest.raises(ServerError) as caught:
        looked()
    return str(caught.value)


def test_nothing_that_moves_ends_in_a_sentence_that_names_the_process_and_the_way_out(cluster):
    sentence = until_it_raises(wait(cluster, Process(12, "startup recovering 0000A", 0, 0, False), patience=0.05))
    assert "nothing has moved for" in sentence
    assert "process 12 (startup recovering 0000A)" in sentence
    assert "`kill -QUIT 9`" in sentence
    assert "run the same command again" in sentence
    assert str(cluster / supervisor.LOG) in sentence


def test_who_holds_what_is_waited_for_is_named_where_the_server_has_no_process(cluster):
    made = wait(cluster, patience=0.05)
    made.watch = Nothing(cluster)
    assert "process 4711, which holds it up" in until_it_raises(made, holder=4711)


def test_what_moves_is_waited_for_and_said_with_how_far_it_is(cluster):
    said: list[str] = []
    made = wait(cluster, patience=0.1, progress=said.append)
    made.watch = watch = Staged(cluster)
    made.space = 0.0
    for step in range(15):
        watch.there = (Process(12, "startup recovering 0000A", 0, step * 2**20, waits_for_disk=False),)
        made.checked = 0.0
        made.pause("PostgreSQL (the database system is starting up)")
    assert "process 12 (startup recovering 0000A)" in said[-1]
    assert "MB read and written" in said[-1]
    assert said[-1].startswith("Waiting for PostgreSQL (the database system is starting up) for ")


def test_nothing_is_said_of_a_short_wait(cluster):
    said: list[str] = []
    made = wait(cluster, IDLE, patience=60, progress=said.append)
    for _ in range(5):
        made.checked = 0.0
        made.pause("PostgreSQL")
    assert said == []


def test_nobody_waits_on_once_told_that_nobody_waits_for_it(cluster):
    cancelled = threading.Event()
    cancelled.set()
    with pytest.raises(Cancelled):
        wait(cluster, IDLE, patience=60, cancelled=cancelled).pause("PostgreSQL")


def test_only_who_listens_hears_and_each_hears_it_once():
    heard: list[str] = []
    with server_waits.heard_by(heard.append):
        with server_waits.heard_by(heard.append):
            server_waits.tell("one")
        server_waits.tell("two", but=heard.append)
    server_waits.tell("three")
    assert heard == ["one"]


def test_a_process_that_is_ours_is_not_taken_for_one_of_the_servers(cluster):
    held = supervisor.open_lock(cluster / supervisor.SERVER)
    try:
        assert os.getpid() not in {each.pid for each in supervisor.processes(cluster)}
    finally:
        os.close(held)


class Recording(supervisor.Keeper):
    """Writes down what it would send."""

    def __init__(self, cluster: Path, patience: float) -> None:
        super().__init__(cluster, str(cluster / "socket"), patience)
        self.signals: list[signal.Signals] = []

    def _send(self, number: signal.Signals, why: str = "") -> None:
        self.signals.append(number)
        self.sent = number
        self.watch.restart()


def test_a_server_that_is_told_to_stop_is_told_more_firmly_only_when_it_does_not_move(cluster):
    os.close(supervisor.open_lock(cluster / supervisor.SERVER))
    made = Recording(cluster, patience=0.3)
    made.watch = watch = Staged(cluster, IDLE)
    made.sent = signal.SIGINT
    begun = time.monotonic()
    while time.monotonic() - begun < 6 * made.patience * supervisor.FIRMLY:  # it writes its checkpoint
        watch.there = (watch.there[0]._replace(stored=watch.there[0].stored + 8192),)
        made.look()
    assert made.signals == []
    while len(made.signals) < 2:
        made.look()
    assert made.signals == [signal.SIGQUIT, signal.SIGKILL]


def test_a_server_that_is_not_ready_is_not_stopped_and_others_may_come_in_meanwhile(cluster):
    os.close(supervisor.open_lock(cluster / supervisor.SERVER))
    (cluster / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n")
    made = Recording(cluster, patience=60)
    fields = b"SFATAL\0C57P03\0Mthe database system is starting up\0\0"
    answer = b"E" + (len(fields) + 4).to_bytes(4, "big") + fields
    lease = supervisor.open_lock(cluster / supervisor.LEASE)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(made.address)
            listening.listen()
            for _ in range(3):
                answering = threading.Thread(target=answered, args=(listening, answer))
                answering.start()
                made.look()
                answering.join()
                assert supervisor.try_lock(lease, shared=True)
                supervisor.unlock(lease)
    finally:
        os.close(lease)
    assert made.signals == []


def test_a_server_that_is_ready_is_stopped_and_nobody_comes_in_meanwhile(cluster):
    os.close(supervisor.open_lock(cluster / supervisor.SERVER))
    (cluster / "data" / "postmaster.pid").write_text(f"{os.getpid()}\n")
    made = Recording(cluster, patience=60)
    lease = supervisor.open_lock(cluster / supervisor.LEASE)
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(made.address)
            listening.listen()
            for _ in range(2):  # it has to be ready twice
                assert made.signals == []
                answering = threading.Thread(target=answered, args=(listening, b"R\0\0\0\x08\0\0\0\0"))
                answering.start()
                made.look()
                answering.join()
        assert not supervisor.try_lock(lease, shared=True)
    finally:
        os.close(lease)
    assert made.signals == [signal.SIGINT]


def answered(listening: socket.socket, answer: bytes) -> None:
    caller, _ = listening.accept()
    with caller:
        caller.recv(1000)
        caller.sendall(answer)
