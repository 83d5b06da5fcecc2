"""The whole command line: what help teaches, what comes out where, and what a mistake looks like."""

# mypy: disable-error-code="no-untyped-call, no-any-return"

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import unicodedata
import uuid
from pathlib import Path
from typing import Any

import pytest
import typer
from sqlalchemy import text
from typer.testing import CliRunner

from core import bridge
from core.errors import RankbookError
from core.llm import Session, using
from core.store import collections
from core.store.chunk_and_embed import forget as forget_embeddings
from core.types import Item
from evals.collections import load
from tests.app.corpus import MODEL, Listed
from tests.unit.misbehaving import Reply, completion, serving
from workbench.cli import app
from workbench.commands import output

HERE = Path(__file__).parents[2]
PROGRAM = "import tests.app.corpus; from workbench.cli import main; main()"
TAKEOVER = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x08\r"
ITEMS = [
    Item("kettle", "The kettle boils water. Descale it with vinegar once a month.", "Kettle", {"kind": "guide"}),
    Item("toaster", "The toaster browns bread. Empty the crumbs.", "Toaster", {"kind": "guide"}),
    Item("bill", "Pay the bill within thirty days, or a fee is due.", "Bill", {"kind": "policy"}),
]


def rankbook(*words: str, typed: str | None = None, code: int | None = 0) -> Any:
    """The command, in this process. A mistake that `main` would put into a sentence stands in `exception`."""
    result = CliRunner().invoke(app, list(words), input=typed)
    if result.exception is not None and not isinstance(result.exception, SystemExit | RankbookError):
        raise result.exception
    if code is not None:
        assert result.exit_code == code, result.output + str(result.exception)
    return result


def mistake(*words: str) -> str:
    """The sentence that somebody gets."""
    found = rankbook(*words, code=1)
    assert isinstance(found.exception, RankbookError), found.output
    return str(found.exception)


def data(*words: str) -> Any:
    """What --json prints: JSON, and nothing else."""
    return json.loads(rankbook(*words, "--json", code=None).stdout)


def process(*words: str, home: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command as a program of its own."""
    variables = {**os.environ, **environment, **({"RANKBOOK_HOME": home} if home else {})}
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, *words],
        cwd=HERE,
        env=variables,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def folder(tmp_path):
    """A collection as BEIR lays it out."""
    made = tmp_path / "beir"
    (made / "qrels").mkdir(parents=True)
    lines = [json.dumps({"_id": item.id, "title": item.title, "text": item.text}) for item in ITEMS]
    (made / "corpus.jsonl").write_text("\n".join(lines))
    (made / "queries.jsonl").write_text(json.dumps({"_id": "q1", "text": "descale with vinegar"}))
    (made / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tkettle\t1\n")
    return made


@pytest.fixture
def added(store, name, folder):
    """A collection that was added by command, and is dropped afterwards."""
    rankbook(
        "data",
        "add",
        name,
        str(folder),
        "--model",
        MODEL,
        "--chunks",
        "small=fixed,max_tokens=8,overlap=0",
        "--no-check",
    )
    yield name
    if bridge.run(collections.find(store, name)):
        bridge.run(load.drop(store, name))


# -- help --------------------------------------------------------------------------------------------------------------


TREE: Any = typer.main.get_command(app)


def every_command() -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []

    def walk(path: str, command: Any) -> None:
        found.append((path, command))
        for name, inner in getattr(command, "commands", {}).items():
            walk(f"{path} {name}", inner)

    walk("rankbook", TREE)
    return found


COMMANDS = every_command()
each_command = pytest.mark.parametrize(("path", "command"), COMMANDS, ids=[path for path, _ in COMMANDS])
RUN = [(path, command) for path, command in COMMANDS if path == "rankbook" or not hasattr(command, "commands")]


def examples(path: str, command: Any) -> list[str]:
    """The lines of a command's help that call it, whatever stands before the call or is piped after it."""
    own = re.findall(r"rankbook\b[^\n]*", command.help or "")
    return [line for line in own if line.startswith(path)] if path != "rankbook" else own


@each_command
def test_every_command_and_option_says_what_it_is_for(path, command):
    assert command.help or command.get_short_help_str(), path
    for parameter in command.params:
        if parameter.name != "help":
            assert getattr(parameter, "help", None), f"{path}: {parameter.name}"


@each_command
def test_help_is_shown_for_every_command(path, command):
    shown = rankbook(*path.split()[1:], "--help")
    assert "Usage:" in shown.stdout
    assert not shown.stderr


@pytest.mark.parametrize("words", [(), ("data",), ("data", "add")])
def test_help_has_a_short_name(words):
    assert rankbook(*words, "-h").stdout == rankbook(*words, "--help").stdout


@pytest.mark.parametrize(("path", "command"), RUN, ids=[path for path, _ in RUN])
def test_every_command_teaches_by_an_example_that_could_be_typed(path, command):
    assert examples(path, command), f"{path} has no example"
    for line in examples(path, command):
        _check_example(line)


def _check_example(line: str) -> None:
    words = shlex.split(re.split(r"\s{2,}|\s[|>]", line)[0])  # without what a pipe or a remark adds
    command, words = TREE, words[1:]
    while words and words[0] in getattr(command, "commands", {}):
        command, words = command.commands[words[0]], words[1:]
    known = {flag for parameter in command.params for flag in parameter.opts + parameter.secondary_opts} | {"--help"}
    for word in words:
        if re.match(r"--?[a-zA-Z]", word):
            assert word in known, f"{line}: {word}"
    if "--help" not in words and command is not TREE:
        command.make_context(command.name, list(words))


def test_every_command_is_named_in_the_help_of_its_group():
    for path, command in COMMANDS:
        for inner in getattr(command, "commands", {}):
            assert inner in rankbook(*path.split()[1:], "--help").stdout


def test_the_version_is_said_and_nothing_is_opened():
    assert re.fullmatch(
        r"rankbook( \d+\.\d+\.\d+\S*|, run from a checkout that is not installed)\n", rankbook("--version").stdout
    )


# -- mistakes ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["search", "cat", "-c", "kettels"], "No collection is called 'kettels'. Did you mean 'kettles'?"),
        (["search", "cat", "-c", "kettles", "--leg", "vectr"], "No leg is called 'vectr'. Did you mean 'vector'?"),
        (["search", "cat", "-c", "kettles", "-v", "local-rga"], "Did you mean 'local-rag'?"),
        (["search", "cat", "-c", "kettles", "-v", "gone.toml"], "cannot be read"),
        (["search", "cat", "-c", "kettles", "--leg", "bm25", "--chunks", "none"], "No chunk set of 'kettles'"),
        (["search", "cat", "-c", "no vectors"], "has no embeddings"),
        (["why", "descal", "cat", "-c", "kettles", "--leg", "bm25"], "The nearest ids are: 'descale'"),
        (["why", "descale", "cat", "-c", "kettles", "--leg", "bm25", "-v", "local-rag"], "not both"),
        (["variant", "show", "local-rga"], "Did you mean 'local-rag'?"),
        (["data", "show", "kettels"], "No collection is called 'kettels'"),
        (["data", "verify", "kettels"], "No collection is called 'kettels'"),
        (["data", "drop", "kettels", "--yes"], "No collection is called 'kettels'"),
        (["data", "embed", "kettels", MODEL], "No collection is called 'kettels'"),
        (["data", "chunk", "kettles", "new=sentnces"], "No chunker is called 'sentnces'"),
        (["data", "chunk", "kettles", "new=fixed,max_tokens=many"], "max_tokens"),
        (["data", "chunk", "kettles", "new=fixed,max_tokens"], "has no value"),
        (["data", "label", "kettles", "/nowhere/at/all"], "/nowhere/at/all"),
        (["data", "aside", "kettles"], "kettles"),
        (["data", "add", "fresh", "/nowhere/at/all"], "/nowhere/at/all"),
        (["data", "add", "fresh", ".", "-o", "columns=a", "-o", "columns.id=b"], "it was given a value"),
        (["data", "add", "fresh", ".", "-o", "columns"], "has no value"),
        (["data", "add", "fresh", ".", "-o", "columns.id=a", "-o", "columns=b"], "given twice"),
        (["data", "add", "fresh", ".", "--as", "bier"], "Did you mean 'beir'?"),
        (["data", "attach", "fresh", "--table", "public.nowhere", "--id", "i", "--text", "t"], "nowhere"),
        (["data", "attach", "fresh", "--table", "t", "--id", "i", "--text", "b", "--where", "kind"], "COLUMN=VALUE"),
        (["data", "attach", "fresh", "--table", "t", "--like", "langchain"], "--model"),
    ],
)
def test_a_mistake_is_told_in_a_sentence(store, words, said):
    sentence = mistake(*words)
    assert said in sentence
    assert "Traceback" not in sentence
    assert sentence.count("\n") <= 1


@pytest.mark.parametrize(
    "words",
    [["serch", "cat"], ["search"], ["search", "cat", "--top", "0"], ["search", "cat", "--nosuch"], ["data", "drop"]],
)
def test_a_call_that_is_not_in_the_syntax_ends_with_2(words):
    shown = rankbook(*words, code=2)
    assert not shown.stdout
    assert "Traceback" not in shown.stderr


def test_the_program_says_one_sentence_to_standard_error_and_ends_with_1(store):
    found = process("search", "cat", "-c", "kettels", "--json")
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.startswith("Error: No collection is called 'kettels'.")
    assert found.stderr.count("\n") == 1


def test_a_server_that_is_not_there_is_told_in_a_sentence_without_its_password():
    found = process("data", "list", RANKBOOK_DSN="postgresql://me:secret@127.0.0.1:1/none")
    assert found.returncode == 1
    assert found.stderr.count("\n") == 1
    assert "No PostgreSQL answers" in found.stderr
    assert "secret" not in found.stderr + found.stdout


def test_the_program_answers_in_json_and_ends_with_0(store):
    found = process("search", "descale", "-c", "kettles", "--leg", "bm25", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)[0]["hits"][0]["item_id"] == "descale"
    assert found.stderr == ""


# -- searching ---------------------------------------------------------------------------------------------------------


def test_a_search_shows_a_table_for_each_leg(store):
    shown = rankbook("search", "descale", "-c", "kettles", "--leg", "bm25", "--leg", "trigram")
    assert shown.stdout.index("bm25, ") < shown.stdout.index("trigram, ")
    assert shown.stdout.count("descale") >= 2


def test_a_search_as_json_tells_hits_stages_and_notes_of_each_variant(store, tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('name = "mine"\ntop_k = 2\n[[leg]]\nkind = "bm25"\n')
    found = data("search", "kettle", "-c", "kettles", "-v", str(mine), "--leg", "fulltext")
    assert [each["variant"] for each in found] == ["mine", "fulltext"]
    assert [hit["rank"] for hit in found[0]["hits"]] == [1, 2]
    assert {"fuse", "cut", "leg bm25"} <= found[0]["stages"].keys()


def test_a_variant_keeps_its_own_number_of_hits_unless_another_is_asked_for(store, tmp_path):
    mine = tmp_path / "mine.toml"
    mine.write_text('top_k = 1\n[[leg]]\nkind = "bm25"\n')
    assert len(data("search", "kettle", "-c", "kettles", "-v", str(mine))[0]["hits"]) == 1
    assert len(data("search", "kettle", "-c", "kettles", "-v", str(mine), "-k", "3")[0]["hits"]) == 3
    assert len(data("search", "kettle", "-c", "kettles", "--leg", "bm25", "-k", "2")[0]["hits"]) == 2


def test_items_and_chunks_are_searched_as_asked(store):
    whole = data("search", "kettle", "-c", "kettles", "--leg", "bm25", "--chunks", "items")[0]["hits"]
    assert all(hit["id"] == hit["item_id"] for hit in whole)
    assert all("#" in hit["id"] for hit in data("search", "kettle", "-c", "kettles", "--leg", "bm25")[0]["hits"])


def test_why_tells_in_sentences_and_in_json(store):
    words = ("why", "warranty", "kettle", "-c", "kettles", "--leg", "bm25", "--chunks", "items", "-k", "1")
    shown = rankbook(*words)
    assert shown.stdout.startswith("“Warranty” is ")
    found = data(*words)
    lines = shown.stdout.splitlines()
    assert [line for line in lines if not line.startswith("    ")] == found["sentences"]
    assert [line.strip() for line in lines if line.startswith("    ")] == [each for each in found["exact"] if each]
    assert found["standings"][0]["leg"] == "bm25"
    deeper = data(*words[:-1], "10")
    assert deeper["there"]
    assert not deeper["remedies"]


# -- variants ----------------------------------------------------------------------------------------------------------


def test_presets_are_listed_and_shown_as_toml_that_reads_back(tmp_path):
    listed = data("variant", "list")
    assert {"hybrid-retriever", "local-rag"} <= {each["name"] for each in listed}
    assert "local-rag" in rankbook("variant", "list").stdout
    mine = tmp_path / "mine.toml"
    mine.write_text(rankbook("variant", "show", "local-rag").stdout)
    known = next(each["id"] for each in listed if each["name"] == "local-rag")
    assert known[:12] in rankbook("variant", "check", str(mine)).stderr
    assert "overfetch" in rankbook("variant", "show", "local-rag", "--all").stdout


def test_checking_tells_every_file_and_ends_with_1_where_one_is_wrong(tmp_path):
    wrong = tmp_path / "wrong.toml"
    wrong.write_text('topk = 3\n[[leg]]\nkind = "bm25"\n')
    shown = rankbook("variant", "check", "local-rag", str(wrong), code=1)
    assert "local-rag" in shown.stderr
    assert "Did you mean 'top_k'?" in shown.stderr
    good, bad = json.loads(rankbook("variant", "check", "local-rag", str(wrong), "--json", code=1).stdout)
    assert (good["file"], good["name"], good["problem"]) == ("local-rag", "local-rag", None)
    assert good["id"] == data("variant", "show", "local-rag")["id"]
    assert bad["file"] == str(wrong)
    assert "Did you mean 'top_k'?" in bad["problem"]
    assert rankbook("variant", "check", "local-rag", "--json").stderr == ""
    missing = rankbook("variant", "check", str(tmp_path / "none.toml"), code=1).stderr
    assert missing.count("none.toml") == 1


def test_a_variant_is_shown_as_json_with_every_option_as_the_list_has_it():
    shown = data("variant", "show", "local-rag")
    assert shown in data("variant", "list")
    assert shown["fusion"]["method"]


# -- collections -------------------------------------------------------------------------------------------------------


def test_a_collection_is_added_listed_shown_and_verified(added, folder):
    listed = {each["name"]: each for each in data("data", "list")}
    assert (listed[added]["items"], listed[added]["queries"]) == (3, 1)
    assert "Collections" in rankbook("data", "list").stdout
    assert data("data", "show", added)
    assert "small" in rankbook("data", "show", added).stdout
    assert all(not finding["wrong"] for finding in data("data", "verify", added))
    assert "none" in rankbook("data", "verify", added).stdout
    again = data("data", "add", added, str(folder), "--model", MODEL, "--chunks", "small=fixed,max_tokens=8,overlap=0")
    assert again["report"]["unchanged"] == 3


def test_a_collection_goes_out_as_a_folder_that_comes_in_again(added, tmp_path):
    folder = tmp_path / "out"
    told = data("data", "export", added, str(folder))
    assert told["documents"] == len((folder / "corpus.jsonl").read_text().splitlines()) > 0
    assert "is there already" in mistake("data", "export", added, str(folder))


@pytest.fixture
def docs(tmp_path):
    """A folder as somebody has it, with files of many kinds."""
    made = tmp_path / "docs"
    for place, content in {
        "guide/kettle.md": "# Kettle\n\nThe kettle boils water.",
        "guide/toaster.html": "<title>Toaster - Site</title><nav>All appliances</nav><main><h1>Toaster</h1>It browns."
        "</main>",
        "drafts/oven.md": "# Oven",
        "notes.log": "Descaled on Monday.",
        "a.png": "x",
        "b.png": "x",
        "_static/page.html": "x",
    }.items():
        (made / place).parent.mkdir(parents=True, exist_ok=True)
        (made / place).write_text(content)
    return made


LOADED = ("--model", MODEL, "--chunks", "small=fixed,max_tokens=8,overlap=0", "--no-check")


def test_what_a_folder_holds_besides_is_listed_and_globs_and_suffixes_can_be_given(store, name, docs):
    told = rankbook("data", "add", name, str(docs), *LOADED, "--exclude", "drafts").stderr
    assert "2 documents added" in told
    shown = " ".join(rankbook("data", "add", name, str(docs), *LOADED, "--exclude", "drafts").output.split())
    for sentence in ("2 .png", "1 .log", "_static (1)", "Left out by include and exclude: 1 files."):
        assert sentence in shown
    some = ("-o", "suffixes=.md,.log", "--include", "guide", "--include", "*.log")
    report = data("data", "add", name, str(docs), *LOADED, *some)
    assert (report["report"]["added"], report["report"]["unchanged"]) == (1, 1)
    assert any("1 .html" in flaw["message"] for flaw in report["flaws"])
    bridge.run(load.drop(store, name))
    assert "is not known here" in mistake("data", "add", name, str(docs), "--as", "beir", "--exclude", "x")


def test_a_collection_changes_its_reader_after_it_was_said_what_changes(store, name, docs):
    rankbook("data", "add", name, str(docs), *LOADED, "-o", "reader=1")
    again = rankbook("data", "add", name, str(docs), *LOADED).output
    assert "--reader" in " ".join(again.split())
    assert "reload" in mistake("data", "add", name, str(docs), *LOADED, "-o", "reader=2")
    refused = rankbook("data", "reload", name, "--reader", typed="n\n", code=1)
    assert "Reader 1 becomes 2: 1 documents have another text or title, 0 come in, 1 go, 2 stay" in refused.stderr
    assert "No documents any more: _static/page." in refused.stderr
    assert bridge.run(collections.get(store, name)).row.origin["reader"] == 1
    changed = data("data", "reload", name, "--reader", "--yes")
    assert changed["documents"] == {"added": 0, "changed": 1, "unchanged": 2, "removed": ["_static/page"]}
    assert changed["texts_to_embed"] == changed["report"]["embedded"]
    assert data("data", "reload", name, "--reader") == {"name": name, "changed": False}
    (docs / "new.md").write_text("# New")
    assert data("data", "reload", name)["report"]["added"] == 1
    assert "1 unchanged" not in rankbook("data", "reload", name, str(docs)).stderr
    bridge.run(load.drop(store, name))


def test_a_table_says_how_its_columns_are_parted(store, name, tmp_path):
    (tmp_path / "faq.csv").write_text("id;text\n1;The kettle, boiling\n")
    told = " ".join(rankbook("data", "add", name, str(tmp_path / "faq.csv"), *LOADED).output.split())
    assert "The columns are parted by semicolons" in told
    bridge.run(load.drop(store, name))


def test_verify_ends_with_1_where_something_is_off(store, added):
    view = bridge.run(collections.get(store, added))

    async def break_it() -> None:
        async with store.begin() as connection:
            await connection.execute(text(f'DELETE FROM "{view.namespace}".lexemes_0'))

    bridge.run(break_it())
    shown = rankbook("data", "verify", added, code=1)
    assert "lexemes" in shown.output
    assert rankbook("data", "verify", added, "--json", code=1).exit_code == 1


def test_chunks_models_and_labels_are_put_beside_what_is_there(store, added, folder):
    rankbook("data", "chunk", added, "tiny=fixed,max_tokens=4,overlap=0")
    rankbook("data", "embed", added, "hashing:8", "--over", "items")
    assert "1 queries, 1 labels" in rankbook("data", "label", added, str(folder)).stderr
    view = bridge.run(collections.get(store, added))
    assert [each.name for each in view.chunk_sets] == ["items", "small", "tiny"]
    assert {each.model for each in view.embedding_sets if each.chunk_set == 0} == {MODEL, "hashing:8"}


def test_what_changes_a_collection_answers_in_json_too(store, added, folder):
    bridge.run(forget_embeddings(store, "hashing:8"))  # other tests embed the same texts
    assert data("data", "chunk", added, "tiny=fixed,max_tokens=4,overlap=0")["report"]["chunks"] > 3
    assert data("data", "embed", added, "hashing:8", "--over", "items")["report"]["embedded"] == 3
    assert data("data", "label", added, str(folder))
    assert data("data", "forget", "hashing:8", "--yes")["forgotten"] == 3
    dropped = data("data", "drop", added, "--yes")
    assert (dropped["name"], dropped["dropped"], len(dropped["trash"])) == (added, True, 1)


def test_dropping_asks_first_and_no_is_no(store, added):
    refused = rankbook("data", "drop", added, typed="n\n", code=1)
    assert "Drop" in refused.output
    assert bridge.run(collections.find(store, added))
    nothing_typed = rankbook("data", "drop", added, typed="", code=1)
    assert "Traceback" not in nothing_typed.output
    assert bridge.run(collections.find(store, added))
    rankbook("data", "drop", added, typed="y\n")
    assert bridge.run(collections.find(store, added)) is None


def test_dropping_does_not_ask_where_that_was_said(store, added):
    assert "is gone" in rankbook("data", "drop", added, "--yes").stderr
    assert bridge.run(collections.find(store, added)) is None


def test_forgetting_asks_first(store, added):
    rankbook("data", "embed", added, "hashing:24", "--over", "items")
    rankbook("data", "forget", "hashing:24", typed="n\n", code=1)
    assert "3 embeddings forgotten" in rankbook("data", "forget", "hashing:24", "--yes").stderr
    assert bridge.run(forget_embeddings(store, "hashing:24")) == 0


def test_the_catalogue_is_told_with_licences():
    listed = data("data", "catalog")
    assert "scifact" in {each["name"] for each in listed}
    assert all(each["licence"] for each in listed)
    assert "scifact" in rankbook("data", "catalog").stdout


@pytest.fixture
def their_table(store):
    table = f"theirs_{uuid.uuid4().hex[:12]}"

    async def run(*statements: str) -> None:
        async with store.begin() as connection:
            for statement in (*statements, "SELECT pg_stat_force_next_flush()"):  # else it counts what is written later
                await connection.execute(text(statement))

    bridge.run(
        run(
            f"CREATE TABLE public.{table} (nr integer PRIMARY KEY, body text, kind text)",
            f"INSERT INTO public.{table} VALUES (1, 'The kettle boils', 'a'), (2, 'A late fee', 'b')",
        )
    )
    yield table
    bridge.run(run(f"DROP TABLE public.{table}"))


def test_a_table_is_attached_searched_built_aside_and_let_go(store, name, their_table):
    words = ("data", "attach", name, "--table", f"public.{their_table}", "--id", "nr", "--text", "body")
    assert "is attached" in rankbook(*words, "--metadata", "kind").stderr
    assert data("search", "kettle", "-c", name, "--leg", "fulltext")[0]["hits"][0]["id"] == "1"
    assert "Build it aside" in mistake("search", "kettle", "-c", name, "--leg", "bm25")
    rankbook("data", "aside", name)
    assert data("search", "kettle", "-c", name, "--leg", "bm25")[0]["hits"][0]["id"] == "1"
    rankbook("data", "aside", name, "--drop")
    assert "Build it aside" in mistake("search", "kettle", "-c", name, "--leg", "bm25")
    asked = rankbook("data", "drop", name, typed="y\n")
    assert "the table itself stays" in asked.output


def test_what_was_built_aside_is_refreshed_when_the_table_grew_and_verify_tells_both(store, name, their_table):
    async def grow():
        async with store.begin() as connection:
            await connection.execute(text(f"INSERT INTO public.{their_table} VALUES (3, 'A second kettle', 'a')"))

    rankbook("data", "attach", name, "--table", f"public.{their_table}", "--id", "nr", "--text", "body", "--aside")
    assert "none" in rankbook("data", "verify", name).stdout
    bridge.run(grow())
    off = rankbook("data", "verify", name, code=1)
    assert "that are not there: 1. Run `rankbook data aside" in off.stderr
    assert mistake("data", "aside", name, "--refresh", "--drop").endswith("Give one of them.")
    told = data("data", "aside", name, "--refresh")
    assert (told["new"], told["changed"], told["gone"], told["rebuilt"]) == (1, 0, 0, False)
    assert "Nothing to do: all 3 rows stand aside" in rankbook("data", "aside", name, "--refresh").stderr
    assert len(data("search", "kettle", "-c", name, "--leg", "bm25")[0]["hits"]) == 2
    rankbook("data", "drop", name, "--yes")


@pytest.mark.parametrize("parent", ["kind", "meta.of.kind"])
def test_rows_are_parts_of_documents_by_a_column_or_a_path(store, name, their_table, parent):
    async def more():
        async with store.begin() as connection:
            await connection.execute(text(f"ALTER TABLE public.{their_table} ADD COLUMN meta jsonb"))
            meta = "jsonb_build_object('of', jsonb_build_object('kind', kind))"
            await connection.execute(text(f"UPDATE public.{their_table} SET meta = {meta}"))

    bridge.run(more())
    words = ("data", "attach", name, "--table", f"public.{their_table}", "--id", "nr", "--text", "body")
    rankbook(*words, "--parent", parent)
    hit = data("search", "kettle", "-c", name, "--leg", "fulltext")[0]["hits"][0]
    assert (hit["id"], hit["item_id"]) == ("1", "a")
    path = parent.split(".")
    assert f'"parent": {json.dumps(path if len(path) > 1 else parent)}' in str(data("data", "show", name))
    rankbook("data", "drop", name, "--yes")


def test_only_rows_that_hold_the_condition_are_attached(store, name, their_table):
    words = ("data", "attach", name, "--table", f"public.{their_table}", "--id", "nr", "--text", "body")
    rankbook(*words, "--where", "kind=b", "--aside")
    assert [hit["id"] for hit in data("search", "kettle fee", "-c", name, "--leg", "bm25")[0]["hits"]] == ["2"]
    rankbook("data", "drop", name, "--yes")


def test_the_doctor_ends_with_0_where_all_is_well_and_1_where_not(store):
    found = data("doctor")
    shown = rankbook("doctor", code=None)
    assert shown.exit_code == (0 if all(each["ok"] for each in found) else 1)
    assert "Rankbook" in shown.stdout
    unwell = process("doctor", "--json", RANKBOOK_DSN="postgresql://me:secret@127.0.0.1:1/none")
    assert unwell.returncode == 1
    assert any(not each["ok"] for each in json.loads(unwell.stdout))
    assert "secret" not in unwell.stdout + unwell.stderr


def test_the_doctor_tells_how_psql_reaches_the_server_that_is_running(store):
    told = {each["what"]: each["found"] for each in data("doctor")}
    if store.server is None:
        assert "psql" not in told
        return
    program, address = shlex.split(told["psql"].split(", while")[0])
    assert "password" not in address
    if not Path(program).exists():
        pytest.skip("needs psql")
    asked = [program, "--no-psqlrc", "--tuples-only", "--command=SELECT 6 * 7", address]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)
    assert answer.stdout.strip() == "42", answer.stderr


# -- a variant as SQL, run -------------------------------------------------------------------------------------------


def test_the_printed_statement_run_gives_what_the_search_gives(added, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('chunks = "small"\nleg = [{ kind = "bm25" }, { kind = "vector", exact = true }]')
    rows = data("sql", str(file), "-c", added, "--run", "vinegar once")
    (found,) = data("search", "vinegar once", "-c", added, "-v", str(file))
    assert [(row["id"], row["score"]) for row in rows] == [(hit["id"], hit["score"]) for hit in found["hits"]] != []
    shown = rankbook("sql", str(file), "-c", added, "--run", "vinegar once").stdout
    assert all(row["id"] in shown and f"{row['score']:.6f}" in shown for row in rows)


def test_what_the_run_statement_leaves_out_is_said(added, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('chunks = "small"\nrerank = { method = "overlap" }\nleg = [{ kind = "bm25" }]')
    assert "Done outside the statement: Reranking" in rankbook("sql", str(file), "-c", added, "--run", "fee").stderr
    assert "Give one of the two" in mistake("sql", str(file), "-c", added, "--run", "fee", "--query", "fee")


# -- what a language model may cost ----------------------------------------------------------------------------------


def marking(body):
    given = json.loads(body["messages"][1]["content"])["candidates"]
    mark = {"relevance_score": 5, "answerability": "yes", "key_evidence": "none"}
    return completion({"results": [{"chunk_id": each["id"], **mark} for each in given]})


def test_what_a_language_model_may_take_is_said_before_anything_is_sent(added, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('chunks = "small"\nrerank = { method = "llm" }\nleg = [{ kind = "bm25" }]')
    prices = {"RANKBOOK_LLM_PRICE_IN": "1", "RANKBOOK_LLM_PRICE_OUT": "2"}
    with serving(Reply(status=400)) as endpoint, using(Session()):
        named = {"RANKBOOK_LLM_URL": endpoint.url, "RANKBOOK_LLM_MODEL": "small", **prices}
        none_left = {**named, "RANKBOOK_LLM_MAX_TOKENS": "1"}
        words = ["search", "vinegar", "-c", added, "-v", str(file)]
        stopped = CliRunner().invoke(app, words, env=none_left)
        assert stopped.exit_code == 1
        assert "The reranking asks small: up to" in stopped.stderr
        assert "at your prices" in stopped.stderr
        assert endpoint.asked == []
    with serving(marking) as endpoint, using(Session()):
        named = {"RANKBOOK_LLM_URL": endpoint.url, "RANKBOOK_LLM_MODEL": "small"}
        found = CliRunner().invoke(app, [*words, "--json"], env=named)
        estimated = int(re.findall(r"([\d,]+) sent", found.stderr)[0].replace(",", ""))
        (sent,) = endpoint.asked
        assert estimated * 3 >= sum(len(each["content"].encode()) for each in sent["messages"])
        assert json.loads(found.stdout)[0]["hits"]
        assert CliRunner().invoke(app, ["search", "vinegar", "-c", added, "--leg", "bm25"], env=named).stderr == ""


def test_every_stage_with_a_language_model_says_what_it_may_take(added, tmp_path):
    file = tmp_path / "both.toml"
    asks = 'expand = { method = "llm" }\nrerank = { method = "llm", depth = 2 }'
    file.write_text(f'chunks = "small"\n{asks}\nleg = [{{ kind = "bm25" }}]')
    with serving(Reply(status=400)) as endpoint, using(Session()):
        named = {"RANKBOOK_LLM_URL": endpoint.url, "RANKBOOK_LLM_MODEL": "small", "RANKBOOK_LLM_MAX_TOKENS": "1"}
        said = CliRunner().invoke(app, ["search", "vinegar", "-c", added, "-v", str(file)], env=named).stderr
        assert endpoint.asked == []
    assert "The expansion asks small: up to" in said
    assert "The reranking asks small: about" in said


# -- recall ----------------------------------------------------------------------------------------------------------


def test_the_recall_of_the_vector_index_is_measured_on_the_collections_queries(added):
    found = data("data", "recall", added, "--chunks", "items", "-k", "2")
    assert (found["queries"], found["k"], found["model"], found["index"]) == (1, 2, MODEL, "vector")
    assert found["recall"] == found["least"] == 1.0  # so few vectors are compared one by one, whatever the index says
    assert "recall@10" in rankbook("data", "recall", added).stdout
    assert "no-such" in mistake("data", "recall", added, "--model", "no-such")


def test_without_queries_there_is_nothing_to_measure_recall_by(store, name):
    bridge.run(load.load_collection(store, name, Listed(documents=tuple(ITEMS)), load.LoadPlan(models=(MODEL,))))
    assert "has no queries to measure by" in mistake("data", "recall", name)
    bridge.run(load.drop(store, name))


# -- hostile text ------------------------------------------------------------------------------------------------------


def commands_of_terminals(shown: str) -> set[str]:
    """What could move the cursor, colour, retitle or turn round what stands on the screen."""
    return {letter for letter in shown if unicodedata.category(letter) in {"Cc", "Cf", "Zl", "Zp"} and letter != "\n"}


@pytest.fixture(scope="module")
def hostile(store):
    name = f"test {uuid.uuid4().hex[:12]}"
    items = (Item(f"trap{TAKEOVER}id", f"trap {TAKEOVER} [red]text[/red]", f"Title {TAKEOVER}", {"kind": TAKEOVER}),)
    bridge.run(load.load_collection(store, name, Listed(documents=items), load.LoadPlan(models=())))
    yield name
    bridge.run(load.drop(store, name))


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_a_document_cannot_take_over_the_terminal(hostile, tmp_path, flags):
    mine = tmp_path / "mine.toml"
    mine.write_text(f'name = {json.dumps("v" + TAKEOVER)}\n[[leg]]\nkind = "bm25"\n')
    own = f"trap{TAKEOVER}id"
    for words in (
        ("search", "trap", "-c", hostile, "--leg", "bm25"),
        ("search", "trap", "-c", hostile, "-v", str(mine)),
        ("why", own, "trap", "-c", hostile, "--leg", "bm25"),
        ("data", "show", hostile),
        ("data", "list"),
    ):
        shown = rankbook(*words, *flags, code=None)
        assert commands_of_terminals(shown.output) == set(), words


def test_an_error_cannot_take_over_the_terminal_either(store):
    found = process("search", "cat", "-c", f"ket{TAKEOVER}tle")
    assert found.returncode == 1
    assert commands_of_terminals(found.stderr) == set()
    assert found.stderr.count("\n") == 1


def test_brackets_in_a_document_are_text_and_no_markup(hostile):
    assert "[red]text[/red]" in rankbook("search", "trap", "-c", hostile, "--leg", "bm25").stdout.replace("\n", "")


def test_json_gives_back_what_was_stored_to_the_letter(hostile):
    (hit,) = data("search", "trap", "-c", hostile, "--leg", "bm25", "--chunks", "items")[0]["hits"]
    assert hit["id"] == f"trap{TAKEOVER}id"
    assert hit["metadata"] == {"kind": TAKEOVER}


def test_spaces_and_joiners_of_ordinary_writing_stay_readable():
    assert output.printable("10\u00a0000\u202f€ co\u00adop \u0645\u06cc\u200c\u062e") == (
        "10 000 € co\u00adop \u0645\u06cc\u200c\u062e"
    )
    assert output.printable("a\x1b\u202eb\ud800") == "a\ufffd\ufffdb\ufffd"
