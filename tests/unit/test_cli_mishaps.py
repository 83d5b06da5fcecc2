"""The command line where something goes wrong: one sentence, exit code 1, and a traceback only for who asks."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
import typer
from sqlalchemy.exc import OperationalError, ProgrammingError
from typer.testing import CliRunner

from core.errors import InputError
from core.legs import legs
from workbench import cli
from workbench.commands import output
from workbench.server.serve import check_port
from workbench.services.db_errors import error_sentence

ROOT = Path(__file__).parents[2]
SECRET = "s3cr3t-p4ss"


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", f"import sys\nfrom workbench import cli\n{program}"]
    whole = {**os.environ, **environment}
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=ROOT, env=whole)


def failing(error: str) -> str:
    """A program whose command fails as said."""
    return f"""
import psycopg
from sqlalchemy.exc import ProgrammingError
@cli.app.command()
def fail() -> None:
    raise {error}
sys.argv = ["rankbook", "fail"]
cli.main()
"""


MISHAPS = {
    f"ProgrammingError('{SECRET}', {{}}, psycopg.OperationalError('to {SECRET}'))": "The database does not answer",
    f"psycopg.OperationalError('postgresql://u:{SECRET}@h')": "The database does not answer",
    "PermissionError(13, 'Permission denied', 'here.csv')": "here.csv: Permission denied.",
    "TimeoutError()": "The system refused: TimeoutError.",
}


@pytest.mark.slow
@pytest.mark.parametrize("error", MISHAPS)
def test_a_mishap_is_one_sentence_and_a_traceback_only_when_asked_for(error: str) -> None:
    quiet = run(failing(error))
    assert quiet.returncode == 1
    assert quiet.stdout == ""
    assert quiet.stderr.startswith(f"Error: {MISHAPS[error]}")
    assert quiet.stderr.count("\n") == 1
    assert SECRET not in quiet.stderr
    assert "Traceback" in run(failing(error), RANKBOOK_DEBUG="1").stderr


@pytest.mark.slow
def test_our_own_mistake_keeps_its_traceback() -> None:
    assert "ZeroDivisionError" in run(failing("ZeroDivisionError()")).stderr


def test_what_a_server_says_is_passed_on_without_the_statement(store) -> None:
    with pytest.raises(psycopg.Error) as caught, psycopg.connect(store.server.conninfo()) as connection:
        connection.execute(f"SELECT '{SECRET}' FROM nowhere")
    wrapped = ProgrammingError(f"SELECT '{SECRET}'", {}, caught.value)
    assert error_sentence(wrapped) == 'The database refused: relation "nowhere" does not exist (42P01).'
    assert error_sentence(OperationalError("x", {}, ValueError(SECRET))) == "The database driver failed."
    assert error_sentence(ValueError()) is None


AGAIN = """
import os, signal, threading
@cli.app.command()
def stop() -> None:
    threading.Thread(target=once_more).start()
    raise ENDING
def once_more() -> None:
    threading.main_thread().join()  # the interpreter waits for this thread, and closes
    os.kill(os.getpid(), signal.SIGINT)
sys.argv = ["rankbook", "stop"]
cli.main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["__import__('typer').Exit(130)", "KeyboardInterrupt"])
def test_another_ctrl_c_while_the_program_closes_is_no_traceback(ending: str) -> None:
    closed = run(AGAIN.replace("ENDING", ending))
    assert closed.returncode == 130
    assert "Traceback" not in closed.stderr


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["data", "catalog"], ["data", "catalog", "--json"]])
def test_a_reader_that_leaves_early_is_no_error(arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    program = f"from workbench import cli; import sys; sys.argv[1:] = {arguments}; cli.main()"
    with os.fdopen(writing) as pipe:
        done = subprocess.run(
            [sys.executable, "-c", program], stdout=pipe, stderr=subprocess.PIPE, cwd=ROOT, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.slow
def test_a_port_that_is_none_is_refused_before_anything_is_begun() -> None:
    for port in (80000, -1, 65536):
        with pytest.raises(InputError, match=f"There is no port {port}: ports are numbered from 1 to 65535"):
            check_port(port)
    for allowed in (None, 0, 1, 65535):
        check_port(allowed)
    refused = run('sys.argv[1:] = ["--port", "80000"]; cli.main()', RANKBOOK_HOME="/dev/null/never")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.startswith("Error: There is no port 80000")


@pytest.mark.parametrize("query", ["", "  \t"])
def test_an_empty_query_is_refused_in_a_sentence(query: str) -> None:
    result = CliRunner().invoke(cli.app, ["search", query])
    assert isinstance(result.exception, InputError)
    assert "The query is empty" in str(result.exception)


def test_the_help_teaches_by_example_and_names_every_leg() -> None:
    shown = CliRunner().invoke(cli.app, ["--help"]).stdout
    assert 'rankbook search "reset hub 3"' in shown
    assert "rankbook doctor" in shown
    assert sorted(cli.LEGS.split(", ")) == sorted(legs)


def commands(group: typer.core.TyperGroup, path: str = "") -> Iterator[tuple[str, list[str]]]:
    for name, command in group.commands.items():
        if isinstance(command, typer.core.TyperGroup):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", [flag for parameter in command.params for flag in parameter.opts]


@pytest.mark.parametrize("path", ["search", "doctor"])
def test_commands_speak_json(path: str) -> None:
    assert "--json" in dict(commands(typer.main.get_command(cli.app)))[path]  # type: ignore[arg-type]


def test_every_command_about_collections_speaks_json() -> None:
    every = dict(commands(typer.main.get_command(cli.app)))  # type: ignore[arg-type]
    assert [path for path, flags in every.items() if path.startswith("data ") and "--json" not in flags] == []


def test_a_table_in_a_pipe_has_a_row_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    long = "word " * 60 + "end"
    output.table("Title", ("a", "b"), [("1", long), ("2", "short")])
    shown = capsys.readouterr().out
    assert long in shown
    assert len(shown.splitlines()) == 7
