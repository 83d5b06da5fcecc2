"""What a server writes down: one object a line, and no secret, whatever is put into it."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Iterator

import pytest

from core.errors import InputError
from workbench.server import logs
from workbench.server.logs import Lines, Objects, Redaction, secrets_of

PLANTED = "pl4nted-s3cret"


@pytest.fixture
def kept_apart() -> Iterator[None]:
    """Logging as it was before, after a test that sets it up for the process."""
    root, own = logging.getLogger(), logging.getLogger("rankbook")
    hooks = threading.excepthook, sys.unraisablehook, logging.raiseExceptions
    before = (root.handlers[:], root.level, own.level, logging.getLoggerClass())
    yield
    root.handlers[:], root.level = before[0], before[1]
    threading.excepthook, sys.unraisablehook, logging.raiseExceptions = hooks
    own.setLevel(before[2])
    logging.setLoggerClass(before[3])
    logging.captureWarnings(False)


def record(message: str, *args: object, error: BaseException | None = None, **fields: object) -> logging.LogRecord:
    info = (type(error), error, error.__traceback__) if error else None
    made = logging.LogRecord("rankbook", logging.WARNING, "x.py", 1, message, args, info)
    made.fields = fields
    return made


def written(made: logging.LogRecord, redaction: Redaction | None = None) -> dict[str, object]:
    line = Objects(redaction or Redaction()).format(made)
    assert "\n" not in line
    told = json.loads(line)
    assert isinstance(told, dict)
    return told


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except type(error) as caught:
        return caught


def test_an_object_a_line_with_time_level_event_and_what_belongs_to_it():
    told = written(record("page", page="search", milliseconds=12))
    assert told["event"] == "page"
    assert told["level"] == "warning"
    assert told["page"] == "search"
    assert told["milliseconds"] == 12
    assert str(told["time"]).endswith("+00:00")


@pytest.mark.parametrize(
    "said",
    [
        f"postgresql://rankbook:{PLANTED}@host:5432/db is down",
        f"postgresql+psycopg://:{PLANTED}@host/db",
        f"host=db password={PLANTED} user=x",
        f"password = '{PLANTED}'",
        f"password='one two {PLANTED}' user=x",
        f'{{"client_secret": "{PLANTED}"}}',
        f"Authorization: Bearer {PLANTED}",
        f"Authorization: Digest {PLANTED}",
        f"Cookie: a=1; b={PLANTED}",
        f'Set-Cookie: session="one {PLANTED}"; Path=/',
        f'Authorization: Digest username="ada", response="{PLANTED}"',
        f"Proxy-Authorization: Digest username='ada', response='{PLANTED}'",
        f'{{"Authorization": "Digest username=\\"ada\\", response=\\"{PLANTED}\\""}}',
        f'{{\\"Cookie\\": \\"a=\\\\\\"one {PLANTED}\\\\\\"\\"}}',
        f"{{'Cookie': 'a=\"one {PLANTED}\"; b=2'}}",
        f"{{b'cookie': b'a=\"one {PLANTED}\"'}}",
        f"cookies='a' and \"{PLANTED}\"",
        f"bearer {PLANTED}",
        f"api_key={PLANTED}&model=x",
        f"X-Api-Key: {PLANTED}",
        f"sk-{PLANTED}",
        "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJwbDRudGVkLXMzY3JldCJ9.pl4nted-s3cret",
    ],
)
@pytest.mark.parametrize("form", [Objects, Lines])
def test_what_looks_like_a_secret_is_left_out_wherever_it_stands(said, form):
    for made in (record(said), record("event", detail=said, inside=[{"deep": said}]), record("%s happened", said)):
        assert PLANTED not in form(Redaction()).format(made)


def test_what_stands_behind_a_header_in_a_mapping_or_on_the_next_line_is_kept():
    told = Redaction()
    assert told('{"Cookie": "a=\\"b\\"; c=1", "page": "search"}') == '{"Cookie": ***, "page": "search"}'
    assert told('Cookie: a="b c"; d=1\npage: search') == "Cookie: ***\npage: search"


def test_what_somebody_has_to_look_after_is_written_in_every_form_with_what_belongs_to_it(kept_apart, capsys):
    logs.install("text")
    logs.info("page", page="search")
    logs.warning("access_unreadable", says="line 3:\nno such role")
    logs.warning("access_not_followed", raised(KeyError("secret wish")), page="ended")
    said = capsys.readouterr().err
    assert "WARNING rankbook: access_unreadable says=line 3: no such role\n" in said
    assert "access_not_followed page=ended\n" in said
    assert "KeyError" in said
    assert "secret wish" not in said
    assert "search" not in said


def test_known_secrets_are_left_out_in_any_sentence_even_where_json_would_escape_them():
    odd = 'quo"te\\ünd'
    redaction = Redaction([PLANTED, odd, "abc"])
    told = written(record(f"it is {PLANTED}, {odd} and abc", more=odd), redaction)
    assert told["event"] == "it is ***, *** and abc"
    assert told["more"] == "***"


def test_the_environment_tells_which_secrets_there_are():
    environment = {
        "RANKBOOK_DSN": "postgresql://u:p%40ssw0rd@h/d",
        "OPENAI_API_KEY": "key-value",
        "MY_TOKEN": "token-value",
        "PGPASSWORD": "pg-value",
        "HOME": "/home/ada",
        "KEYBOARD": "qwertz",
    }
    found = secrets_of(environment)
    assert {"key-value", "token-value", "pg-value", "p%40ssw0rd", "p@ssw0rd"} <= set(found)
    assert not {"/home/ada", "qwertz"} & set(found)


def test_an_exception_is_its_type_and_where_it_was_raised_and_not_its_sentence():
    """Which may quote what somebody searched for."""
    error = raised(ValueError("no operand in: secret wish"))
    told = written(record("unexpected error: %s", error, error=error))
    assert told["event"] == "unexpected error: ValueError"
    assert told["exception"]["type"] == "ValueError"  # type: ignore[index]
    assert "test_logs.py" in told["exception"]["at"][-1]  # type: ignore[index]
    assert "secret wish" not in json.dumps(told)
    asked_for = written(record("unexpected error", error=error), Redaction(queries=True))
    assert asked_for["exception"]["says"] == "no operand in: secret wish"  # type: ignore[index]


@pytest.mark.parametrize("form", [Lines, Objects])
def test_no_form_tells_what_an_exception_says_wherever_it_stands(form):
    error = raised(ValueError("no operand in: secret wish"))
    quoted = record(f"failed: {error!r} ({error})", error=error)  # as asyncio does
    for made in (record("failed", error=error), record("failed: %s", error), quoted, record(error)):  # type: ignore[arg-type]
        logging.Formatter().format(made)  # as another handler does, which leaves its words behind
        line = form(Redaction()).format(made)
        assert "ValueError" in line
        assert "secret wish" not in line
    assert "secret wish" in form(Redaction(queries=True)).format(record("failed", error=error))


def test_queries_in_addresses_are_left_out_unless_asked_for():
    said = "GET /?collection=kettles&query=don't+tell+a+secret+wish&level=items HTTP/1.1"
    assert "secret" not in str(written(record(said))["event"])
    assert "secret" in str(written(record(said), Redaction(queries=True))["event"])


@pytest.mark.parametrize(("asked", "expected"), [("1", {"query": "wish"}), ("", {}), ("no", {})])
def test_a_pages_query_is_written_down_only_where_that_is_asked_for(monkeypatch, asked, expected):
    monkeypatch.setenv(logs.QUERIES, asked)
    assert logs.query_field("wish") == expected


def test_a_person_is_told_apart_and_not_named():
    one, other = logs.user_mark({"sub": "1", "email": "ada@example.org"}), logs.user_mark({"sub": "2"})
    assert one != other
    assert one == logs.user_mark({"sub": "1"})
    assert "ada" not in one
    assert logs.user_mark({}) == ""


def test_a_page_that_fails_is_written_down_with_the_type_of_its_error(caplog):
    with caplog.at_level(logging.INFO, "rankbook"), pytest.raises(KeyError), logs.page("search", {}, "wish"):
        raise KeyError("wish")
    (made,) = caplog.records
    assert made.fields["failed"] == "KeyError"
    assert "wish" not in str(made.fields)


def test_other_libraries_words_go_the_same_way(kept_apart, capsys, monkeypatch):
    monkeypatch.setenv("RANKBOOK_TEST_TOKEN", PLANTED)
    early = logging.getLogger("streamlit.made_before_tests")
    early.addHandler(logging.StreamHandler(io.StringIO()))
    early.propagate = False
    logs.install("json")
    late = logging.getLogger("uvicorn.made_after_tests")
    late.addHandler(logging.StreamHandler())
    late.propagate = False
    for logger in (early, late):
        logger.warning("it said %s", PLANTED)
    logging.getLogger("uvicorn.access").warning("GET /?query=wish")
    logging.getLogger("uvicorn.error").info("Started server process")
    rows = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [row["event"] for row in rows] == ["it said ***", "it said ***"]


def test_what_ends_in_the_background_is_told_by_its_type_and_in_the_same_form(kept_apart, capsys):
    logs.install("json")

    def work() -> None:
        raise ValueError("no operand in: secret wish")

    class Leaving:
        def __del__(self) -> None:
            work()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    Leaving()
    logging.getLogger("rankbook").handle(record("%s and %s", "secret wish"))  # of which no sentence can be made
    rows = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [row["exception"]["type"] for row in rows] == ["ValueError", "ValueError"]
    assert "secret wish" not in str(rows)


@pytest.mark.parametrize(
    ("given", "environment", "expected"), [(None, "", "text"), (None, "JSON", "json"), ("text", "json", "text")]
)
def test_the_form_is_as_asked_for_or_as_the_environment_says(monkeypatch, given, environment, expected):
    monkeypatch.setenv(logs.FORM, environment)
    assert logs.form_of(given) == expected


def test_another_form_is_refused_in_a_sentence():
    with pytest.raises(InputError, match="not as 'xml'"):
        logs.form_of("xml")
