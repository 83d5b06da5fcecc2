"""A server of one's own by DSN: what opens it, what is told in a sentence, and that no sentence holds the password."""

# mypy: disable-error-code="no-untyped-call, no-any-return, call-arg, union-attr, type-arg, misc"

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import subprocess
import sys
import threading
import traceback
import uuid
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import conninfo, pq, sql
from sqlalchemy import text

from core import bridge
from core.errors import ConnectionFailed, MissingCapability, StoreError
from core.legs import PreparedQuery, legs
from core.progress import spaced
from core.store import collections
from core.store.conninfo import conninfo_of, embedded_conninfo
from core.store.engine import Store
from core.store.resolve_target import search_target
from core.store.verify import verify
from evals.schema import schema_chain as evals_chain
from tests.fakes import HashingEmbedder, rows
from tests.store.making import documents, ingest, make

SECRET = "s3cr3t-p4ss"
ROOT = Path(__file__).parents[2]


def everything_said(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + str(error) + repr(error) + repr(error.args)


@pytest.fixture
def owner(store):
    """Connects as the owner of the server to any of its databases."""
    if store.server is None:
        pytest.skip("makes roles and databases, which it does on the embedded server only")

    def connect(database: str = "postgres"):
        return psycopg.connect(store.server.conninfo(database), autocommit=True)

    return connect


@pytest.fixture
def elsewhere(owner):
    """A database with a role that owns nothing; gives both names."""
    database, role = (f"{kind}_{uuid.uuid4().hex[:8]}" for kind in ("db", "role"))
    with owner() as connection:
        connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(database)))
    yield database, role
    with owner() as connection:
        connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(database)))
        connection.execute(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


def dsn(store, database: str, role: str, form: str = "words") -> str:
    socket_folder = conninfo.conninfo_to_dict(store.server.conninfo())["host"]
    if form == "words":
        return conninfo.make_conninfo("", host=str(socket_folder), user=role, dbname=database, password=SECRET)
    return f"{form}://{role}:{SECRET}@/{database}?host={socket_folder}"


async def opened(string: str):
    async with await Store.open(string, chains=[evals_chain]) as store:
        return store.where, store.capabilities


@pytest.mark.slow
@pytest.mark.parametrize("form", ["words", "postgresql", "postgres", "postgresql+psycopg", "postgresql+asyncpg"])
def test_every_usual_form_of_a_dsn_opens_the_store_and_its_place_is_shown_without_the_password(
    store, owner, elsewhere, form
):
    database, role = elsewhere
    with owner(database) as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(*map(sql.Identifier, elsewhere)))
        connection.execute("CREATE EXTENSION vector")
    where, capabilities = bridge.run(opened(dsn(store, database, role, form)))
    assert capabilities.missing == {}
    assert capabilities.version >= 150000
    assert database in where
    assert SECRET not in where


@pytest.mark.slow
def test_a_password_among_the_options_is_not_shown_either(store, owner, elsewhere):
    database, role = elsewhere
    with owner() as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(*map(sql.Identifier, elsewhere)))
    string = dsn(store, database, role, "postgresql").replace(f":{SECRET}", "") + f"&password={SECRET}"
    where, _ = bridge.run(opened(string))
    assert SECRET not in where


PASSWORDS = ["a b", "a%b", "p@ss/w:rd?#[x]", "100%25", "ümlaut", "a+b"]


@pytest.mark.parametrize("password", PASSWORDS)
@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_what_is_escaped_in_a_password_reaches_the_server_as_it_was_meant(scheme, password):
    string = conninfo_of(f"{scheme}://someone:{quote(password, safe='')}@host:5433/some%20db")
    parts = conninfo.conninfo_to_dict(string)
    assert (parts["password"], parts["dbname"], parts["port"]) == (password, "some db", "5433")


ELSEWHERE = """
import sys
sys.modules["fcntl"] = sys.modules["pwd"] = None  # as on Windows, where neither can be imported
from core import bridge
from core.errors import ConnectionFailed
from core.store.engine import Store
assert "core.store.server.embedded" not in sys.modules
import core.doctor, workbench.session, workbench.cli
try:
    bridge.run(Store.open())
except ConnectionFailed as error:
    print(error)
"""


@pytest.mark.slow
def test_without_what_windows_lacks_a_server_of_ones_own_is_still_asked():
    environment = {**os.environ, "RANKBOOK_DSN": f"postgresql://user:{SECRET}@127.0.0.1:1/db"}
    command = [sys.executable, "-c", ELSEWHERE]
    answer = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, cwd=ROOT)
    assert "No PostgreSQL answers" in answer.stdout
    assert SECRET not in answer.stdout


def test_on_windows_the_loop_is_one_that_the_driver_can_wait_on():
    for platform in ("win32", "linux"):
        with contextlib.closing(bridge.new_loop(platform)) as made:
            assert isinstance(made, asyncio.SelectorEventLoop)


def test_who_waits_is_told_at_once_and_then_once_in_a_while():
    told: list[str] = []
    now = [100.0]
    say = spaced(told.append, lambda: now[0])
    for _ in range(200):
        say(f"{now[0]:.0f}")
        now[0] += 0.05
    assert told == ["100", "103", "106", "109"]


GARBAGE = [
    f"garbage {SECRET}",
    f"postgresql://user:{SECRET}@host:port/db",
    f"postgresql://user:{SECRET}@host:99999999/db",
    f"postgresql://user:{SECRET}@{'a' * 300}/db",
    f"postgresql://user:{SECRET}@[::1/db",
    f"postgresql://user:{SECRET}@localhost:1/db?no_such_option=1",
    f"host=localhost port=1 password={SECRET} sslmode=bogus",
    f"host=localhost port=1 password='{SECRET}",
    f"postgresql://user:{SECRET}%@host/db",
    f"postgresql://user:{SECRET}\x00@host/db",
    f"postgresql://user:{SECRET}\ud800@host/db",
    f"mysql://user:{SECRET}@localhost:1/db",
    f"://{SECRET}",
    f"{SECRET}",
]


@pytest.mark.parametrize("string", GARBAGE, ids=range(len(GARBAGE)))
def test_garbage_is_refused_in_a_sentence_without_the_password(string):
    with pytest.raises(ConnectionFailed) as caught:
        bridge.run(opened(string))
    assert "RANKBOOK_DSN" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert SECRET not in everything_said(caught.value)


def test_a_host_where_nobody_answers_is_told_in_a_sentence_without_the_password():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: whoever calls is refused
        port = taken.getsockname()[1]
        with pytest.raises(ConnectionFailed, match=r"No PostgreSQL answers at .*refused") as caught:
            bridge.run(opened(f"postgresql://user:{SECRET}@127.0.0.1:{port}/db"))
    assert str(port) in str(caught.value)
    assert SECRET not in everything_said(caught.value)


def test_something_that_is_no_postgres_is_told_in_a_sentence_without_the_password():
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            with contextlib.suppress(OSError):  # the test is over
                while True:
                    connection, _ = listening.accept()
                    with connection:
                        connection.recv(100)
                        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        threading.Thread(target=answer, daemon=True).start()
        port = listening.getsockname()[1]
        with pytest.raises(ConnectionFailed, match="No PostgreSQL answers") as caught:
            bridge.run(opened(f"postgresql://user:{SECRET}@127.0.0.1:{port}/db?gssencmode=disable"))
    assert SECRET not in everything_said(caught.value)


def test_a_wrong_password_is_told_in_a_sentence_without_it(store, owner, elsewhere):
    """The embedded server asks for none, so for this role it is made to."""
    database, role = elsewhere
    hba = store.server.data / "pg_hba.conf"
    whole = hba.read_text()
    hba.write_text(f"local all {role} scram-sha-256\n{whole}")
    try:
        with owner() as connection:
            connection.execute(sql.SQL("ALTER ROLE {} PASSWORD 'right'").format(sql.Identifier(role)))
            connection.execute("SELECT pg_reload_conf()")
            loaded = "SELECT count(*) FROM pg_hba_file_rules WHERE %s = ANY (user_name)"
            assert connection.execute(loaded, (role,)).fetchone() == (1,)
        attempts = []
        for _ in range(200):  # until the reload has reached the server's own process
            try:
                bridge.run(opened(dsn(store, database, role)))
            except ConnectionFailed as error:
                attempts.append(error)
                break
            except MissingCapability:
                continue
        (error,) = attempts
        assert "password authentication failed" in str(error)
        assert SECRET not in everything_said(error)
    finally:
        hba.write_text(whole)
        with owner() as connection:
            connection.execute("SELECT pg_reload_conf()")


@contextlib.contextmanager
def pretending(*answers: bytes):
    """A server that gives these answers, one a connection and the last one again and again; and how often it was
    called."""
    calls: list[bytes] = []

    def answer(listening: socket.socket) -> None:
        with contextlib.suppress(OSError):  # the test is over
            while True:
                connection, _ = listening.accept()
                with connection:
                    calls.append(connection.recv(1000))
                    connection.sendall(answers[min(len(calls), len(answers)) - 1])

    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=answer, args=(listening,), daemon=True).start()
        yield listening.getsockname()[1], calls


def refusal(code: str, words: str) -> bytes:
    fields = b"".join(letter + text.encode() + b"\0" for letter, text in ((b"S", "FATAL"), (b"C", code), (b"M", words)))
    return b"E" + (len(fields) + 5).to_bytes(4, "big") + fields + b"\0"


STARTS = refusal("57P03", "the database system is starting up")
REJECTS = refusal("28000", 'pg_hba.conf rejects connection for host "127.0.0.1"')


def test_a_server_that_refuses_is_not_waited_for():
    with pretending(REJECTS) as (port, calls):
        string = f"postgresql://user:{SECRET}@127.0.0.1:{port}/db?gssencmode=disable&sslmode=disable"
        with pytest.raises(ConnectionFailed, match=r"refuses the connection: .*pg_hba\.conf rejects") as caught:
            bridge.run(opened(string))
        assert len(calls) == 2  # the connection, and whether it is a refusal
    assert SECRET not in everything_said(caught.value)


@pytest.mark.slow
def test_a_server_that_starts_is_waited_for_and_then_refuses_or_not():
    with pretending(*[STARTS] * 4, REJECTS) as (port, calls):
        string = f"postgresql://user:{SECRET}@127.0.0.1:{port}/db?gssencmode=disable&sslmode=disable"
        with pytest.raises(ConnectionFailed, match=r"pg_hba\.conf rejects") as caught:
            bridge.run(opened(string))
        assert len(calls) > 4
    assert SECRET not in everything_said(caught.value)


@pytest.mark.slow
def test_a_socket_that_is_not_there_is_waited_for_a_moment(tmp_path):
    with pytest.raises(ConnectionFailed, match=r"No PostgreSQL answers") as caught:
        bridge.run(opened(f"host={tmp_path} user=u dbname=d password={SECRET}"))
    assert SECRET not in everything_said(caught.value)


async def session_of(string: str) -> dict[str, str]:
    names = ("datestyle", "timezone", "intervalstyle", "application_name", "geqo")
    async with await Store.open(string) as store, store.begin() as connection:
        return {name: (await connection.execute(text(f"SHOW {name}"))).scalar_one() for name in names}


@pytest.fixture
def own_database(owner, elsewhere):
    database, role = elsewhere
    with owner(database) as connection:
        connection.execute(sql.SQL("ALTER DATABASE {} OWNER TO {}").format(*map(sql.Identifier, elsewhere)))
        connection.execute(sql.SQL("ALTER ROLE {} SET intervalstyle = 'iso_8601'").format(sql.Identifier(role)))
        connection.execute("CREATE EXTENSION vector")
    return database, role


def test_a_connection_by_dsn_honours_libpqs_variables_and_settles_what_values_are_read_by(
    store, own_database, monkeypatch
):
    monkeypatch.setenv("PGTZ", "Pacific/Chatham")
    monkeypatch.setenv("PGDATESTYLE", "German")
    monkeypatch.setenv("PGGEQO", "off")
    monkeypatch.setenv("PGAPPNAME", "somebody")
    monkeypatch.setenv("PGUSER", own_database[1])
    string = dsn(store, *own_database).replace(f"user={own_database[1]}", "")
    found = bridge.run(session_of(string))
    assert found == {
        "datestyle": "ISO, MDY",
        "timezone": "UTC",
        "intervalstyle": "postgres",
        "application_name": "somebody",
        "geqo": "off",
    }


def test_a_service_of_libpqs_leads_to_the_server(store, own_database, monkeypatch, tmp_path):
    database, role = own_database
    host = conninfo.conninfo_to_dict(store.server.conninfo())["host"]
    (tmp_path / "services").write_text(f"[mine]\nhost={host}\nport=5432\nuser={role}\ndbname={database}\n")
    monkeypatch.setenv("PGSERVICEFILE", str(tmp_path / "services"))
    assert bridge.run(session_of("service=mine"))["application_name"] == "rankbook"
    monkeypatch.setenv("PGSERVICE", "mine")
    assert bridge.run(session_of("sslmode=prefer"))["timezone"] == "UTC"


def test_the_environment_is_as_it_was_after_a_connection_to_the_embedded_server(store, monkeypatch):
    if store.server is None:
        pytest.skip("connects to the embedded server")
    monkeypatch.setenv("PGSERVICE", "nowhere")
    monkeypatch.setenv("PGTZ", "nonsense")
    assert bridge.run(session_of(store.server.conninfo()))["timezone"] == "UTC"
    assert (os.environ["PGSERVICE"], os.environ["PGTZ"]) == ("nowhere", "nonsense")


def test_every_parameter_that_libpq_takes_from_the_environment_is_said_to_the_embedded_server():
    taken = {each.keyword.decode() for each in pq.Conninfo.get_defaults() if each.envvar}
    said = conninfo.conninfo_to_dict(embedded_conninfo(host="/tmp", user="u", dbname="d"))
    assert taken - set(said) == {"service"}  # no value of it means none: its variable is hidden


def test_a_database_that_is_not_there_is_told_in_a_sentence(store, owner, elsewhere):
    with pytest.raises(ConnectionFailed, match='database "nowhere" does not exist') as caught:
        bridge.run(opened(dsn(store, "nowhere", elsewhere[1])))
    assert SECRET not in everything_said(caught.value)


@pytest.mark.slow
def test_a_role_that_may_create_nothing_is_told_what_to_run(store, owner, elsewhere):
    database, role = elsewhere
    with pytest.raises(MissingCapability, match="may not create schemas") as caught:
        bridge.run(opened(dsn(store, database, role)))
    assert f'GRANT CREATE ON DATABASE "{database}" TO "{role}";' in str(caught.value)
    assert SECRET not in everything_said(caught.value)
    with owner() as connection:
        connection.execute(str(caught.value).split("to run: ")[1])
    _, capabilities = bridge.run(opened(dsn(store, database, role)))
    assert "vector" in capabilities.missing


@pytest.mark.slow
def test_without_pgvector_the_other_legs_work_and_the_vector_leg_says_what_to_run(store, owner, elsewhere):
    database, role = elsewhere
    with owner() as connection:
        connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(*map(sql.Identifier, elsewhere)))
    embedder = HashingEmbedder()

    async def work(action):
        async with await Store.open(dsn(store, database, role), chains=[evals_chain]) as poorer:
            return await action(poorer)

    async def without(poorer):
        assert set(poorer.capabilities.missing) == {"vector"}
        view = await collections.create(poorer, "c")
        with pytest.raises(MissingCapability, match="CREATE EXTENSION vector;"):
            await collections.add_embedding_set(poorer, view, view.chunk_set("items"), embedder.model, 16)
        from core.store.ingest import Ingest

        await Ingest(poorer, view, {}, embedder).run(rows(documents(5)))
        view = await collections.get(poorer, "c")
        assert not [found for found in await verify(poorer, view) if found.wrong]
        async with poorer.begin(view.namespace, read_only=True) as connection:
            where = search_target(poorer, view, "items")
            for kind in ("fulltext", "trigram"):
                assert await legs[kind]().recall(connection, where, PreparedQuery("unique3"), 5)
            with pytest.raises(MissingCapability, match=r"Vector search needs .*vector") as caught:
                await legs["vector"]().recall(connection, where, PreparedQuery("unique3"), 5)
        return str(caught.value)

    sentence = bridge.run(work(without))
    with owner(database) as connection:
        connection.execute(sentence.split("to run: ")[1])

    async def with_it(richer):
        return richer.capabilities.missing

    assert bridge.run(work(with_it)) == {}


def test_an_environment_that_names_a_server_is_overruled_by_a_home_given(store, monkeypatch):
    if store.server is None:
        pytest.skip("opens the embedded server again")
    monkeypatch.setenv("RANKBOOK_DSN", f"postgresql://user:{SECRET}@127.0.0.1:1/db")

    async def work():
        async with await Store.open(home=store.server.home) as again:
            return again.where

    assert str(store.server.cluster) in bridge.run(work())
    with pytest.raises(ConnectionFailed, match="unset it to use the embedded server"):
        bridge.run(Store.open())


def test_a_store_error_is_what_all_of_them_are():
    assert issubclass(ConnectionFailed, StoreError)
    assert issubclass(MissingCapability, StoreError)


@pytest.mark.slow
def test_making_and_ingesting_work_over_a_dsn_as_over_the_embedded_server(store, owner, elsewhere):
    database, role = elsewhere
    with owner(database) as connection:
        connection.execute("CREATE EXTENSION vector")
        connection.execute(sql.SQL("GRANT CREATE ON DATABASE {} TO {}").format(*map(sql.Identifier, elsewhere)))
    foreign = bridge.run(Store.open(dsn(store, database, role), chains=[evals_chain]))
    try:
        embedder = HashingEmbedder()
        make(foreign, "c", [embedder])
        assert ingest(foreign, "c", documents(10), [embedder]).added == 10
    finally:
        bridge.run(foreign.close())
