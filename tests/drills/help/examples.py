"""Every example of every command's help, run as it stands: in one process, over a home with all that they speak of.

    RANKBOOK_HOME=<an empty folder> python -m tests.drills.help.examples    in the folder that files are to lie in

prints what came of each as JSON. The collection is a part of the demo's, embedded by the hashing model; what examples
need besides is made before, under the names that they have for it. A shell's pipes and redirections are done here.
"""

from __future__ import annotations

import io
import json
import re
import shlex
import subprocess
import sys
import time
import traceback
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final

import typer
from sqlalchemy import text
from typer.testing import CliRunner

from core import bridge
from core.home import home
from core.types import Row
from evals.collections import load
from evals.runs import exchange, run_store
from evals.sources import guess
from tests.app import corpus  # the hashing model is registered there
from workbench import session
from workbench.cli import app

MODEL: Final = "hashing:64"
QUERIES: Final = {"test": 20, "train": 60}  # of each split: weights are tuned with 50 and more
BEGINNING: Final = 500  # characters of a document
CHUNKS: Final = {
    "default": {"kind": "headings", "max_tokens": 200},
    "parents": {"kind": "parent_child", "parents": "sections", "parent_tokens": 800, "child_tokens": 100},
}
SERVES: Final = "serves pages until it is stopped: tests/app/test_serving.py and tests/browser start them"
PARTS: Final = "needs a table of passages: tests/app/test_command_line.py attaches one"
LABELS: Final = "names a label of its own: tests/app/test_query_set_commands.py corrects and undoes labels"
FOLDERS: Final = "needs folders of its own: tests/app/test_command_line.py reads and reloads some"
TRASH: Final = "names an entry of its own: tests/app/test_trash_command.py brings back and empties"
# What is not run here, each with the reason. It is parsed even so.
NOT_RUN: Final = {
    "rankbook": SERVES,
    "rankbook notebook open tour": SERVES,
    "rankbook notebook open mine.md": SERVES,
    "rankbook demo": SERVES,
    'rankbook demo handbook -v bm25 -v hybrid-retriever --name "Today" --name "Tomorrow"': SERVES,
    "rankbook demo handbook -v today.toml -v new.toml --blind --host 0.0.0.0": SERVES,
    'rankbook demo handbook -q "reset hub 3" -q "FL-4021"': SERVES,
    "rankbook data add handbook": "embeds for a minute: tests/app/test_book_shipped.py loads it, by another model",
    "rankbook notebook run tour": "needs the whole demo collection: tests/app/test_book_shipped.py runs it",
    "rankbook data add scifact": "downloads: tests/evals/test_sources_public.py reads what would come",
    "rankbook data add wiki --as ir_datasets -o id=wikir/en1k": "downloads, and needs a package that is not installed",
    "rankbook judge model handbook bm25 local-rag --again -n 100 --yes": "needs a language model's endpoint",
    "rankbook data attach parts --table parts --id nr --text body --metadata meta --parent meta.source": PARTS,
    "rankbook data label docs --undo": LABELS,
    "rankbook data add notes ./notes -o suffixes=.md,.log --exclude drafts --exclude '*.tmp.md'": FOLDERS,
    "rankbook data reload docs ./docs-moved --reader --yes": FOLDERS,
    "rankbook trash restore 3f9a1c2b": TRASH,
    "rankbook trash restore handbook --as handbook-before": TRASH,
    "rankbook trash empty": TRASH,
    "rankbook restore --fresh monday.tar": "moves the server aside: tests/drills/packaging/test_major_move.py does it",
}
TYPED: Final = {  # at what asks a question or goes on asking
    "rankbook runs prune --keep 3": "y\n",
    "rankbook judge grade handbook bm25 local-rag": "q\n",
    "rankbook judge grade handbook bm25 local-rag --judge ada --again": "q\n",
}
# What has to be so first: names that examples use for different things, and runs that would make others' ambiguous.
BEFORE: Final = {
    "rankbook data add docs ./docs --chunks small=fixed,max_tokens=100 --chunks sections=headings": [
        "rankbook data drop docs --yes"
    ],
    "rankbook data add faq faq.csv -o columns.id=nr -o columns.text=answer --field product": [
        "rankbook data drop faq --yes"
    ],
    "rankbook data add scifact ./beir/scifact.zip": ["rankbook data drop scifact --yes"],
    "rankbook data attach docs --table public.docs --id id --text body --embedding emb --model all-MiniLM-L6-v2": [
        "rankbook data drop docs --yes"
    ],
    "rankbook data embed handbook all-MiniLM-L6-v2@fp32": [
        "rankbook data drop handbook --yes",
        f"rankbook data add handbook beir-folder --model {MODEL} --no-check",
    ],
    "rankbook variant keep mine.toml --over my-rag": [
        "rankbook variant drop mine --yes",
        "rankbook variant show local-rag | rankbook variant keep - --name my-rag",
    ],
    "rankbook judge queue handbook bm25 vector hybrid-retriever --split train --depth 20 --json": [
        "rankbook eval handbook bm25 vector hybrid-retriever --split train --time-live 0"
    ],
    "rankbook runs delete 3f9a1c2b --yes": ["rankbook runs unpin main@scifact"],
    "rankbook notebook new mine": ["rm mine.md"],
}
LAST: Final = (  # in this order, after everything that needs what they change or take away
    "rankbook eval handbook bm25 lucene.trec --split all --time-live 50",
    "rankbook data relabel handbook q001 fix-wifi-hub-3 0",
    'rankbook data relabel handbook q001 fix-wifi-hub-3 2 --split test --why "answers the second half"',
    "rankbook data relabel handbook q001 fix-wifi-hub-3 --remove",
    "rankbook judge queue handbook bm25 vector hybrid-retriever --split train --depth 20 --json",
    "echo 'how do I reset a hub' | rankbook queries add handbook -",
    "rankbook queries add handbook mine.tsv",
    "rankbook judge merge handbook --into default --overrule",
    "rankbook queries drop handbook known-items --yes",
    "rankbook variant drop my-rag --yes",
    "rankbook variant keep mine.toml --over my-rag",
    "rankbook variant show local-rag > mine.toml",
    "rankbook runs unpin main",
    "rankbook runs delete 3f9a1c2b --yes",
    "rankbook data embed handbook all-MiniLM-L6-v2@fp32",
    "rankbook data drop handbook --yes",
    "rankbook data forget all-MiniLM-L6-v2@fp32 --yes",
)


@dataclass(frozen=True)
class Example:
    """A line of a command's help, without the remark behind it."""

    path: str
    line: str


@dataclass(frozen=True)
class Result:
    line: str
    code: int
    said: str


@cache
def tree() -> Any:
    return typer.main.get_command(app)


def examples() -> list[Example]:
    """All there are, each once, in the order of the help."""
    found = [Example(path, line) for path, command in commands("rankbook", tree()) for line in _lines(command)]
    return list({each.line: each for each in found}.values())


def commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    yield path, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(f"{path} {name}", inner)


def _lines(command: Any) -> Iterator[str]:
    for line in (command.help or "").splitlines():
        written = line.strip().removeprefix("Example: ")
        if re.match(r"(rankbook|echo|printf)( |$)", written):
            yield re.split(r"\s{2,}", written)[0]


def ordered() -> list[str]:
    """What makes something comes before what takes it away."""
    lines = [each.line for each in examples() if each.line not in NOT_RUN]
    first = [line for line in lines if line.startswith(("rankbook backup", "printf")) and line not in LAST]
    rest = [line for line in lines if line not in first and line not in LAST]
    return [*first, *rest, *LAST]


# -- one of them -------------------------------------------------------------------------------------------------------


def run(line: str) -> Result:
    """The line as a shell would run it; of another program's part in a pipe there is nothing to see."""
    given, code, said = TYPED.get(line, ""), 0, ""
    for part in line.split(" | "):
        written, _, file = part.partition(" > ")
        words = shlex.split(written)
        if words[0] in {"psql", "jq"}:
            break
        if words[0] != "rankbook":
            given = subprocess.run(["sh", "-c", written], capture_output=True, text=True, check=True).stdout
        else:
            code, given, said = _invoke(words[1:], given)
        if file:
            Path(file.strip()).write_text(given, encoding="utf-8")
        if code:
            break
    return Result(line, code, said)


def _invoke(words: Sequence[str], typed: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, list(words), input=typed)
    said = result.output
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        said += "".join(traceback.format_exception_only(result.exception))
    return result.exit_code, result.stdout, said


# -- what they speak of ------------------------------------------------------------------------------------------------

VARIANT = 'name = "{name}"\nchunks = "default"\npack = {{}}\n[[leg]]\nkind = "bm25"\nk1 = {k1}\n'
SUITE = """
name = "small"
metrics = ["mrr@5"]
time_live = 0
rules = { samples = 200 }
[[collection]]
name = "handbook"
[[variant]]
kind = "bm25"
[gate]
variants = ["bm25"]
minimum = { "mrr@5" = 0.01 }
"""
BEIR = {
    "corpus.jsonl": '{"_id": "d1", "text": "descale the kettle with vinegar"}\n{"_id": "d2", "text": "toast"}\n',
    "queries.jsonl": '{"_id": "q1", "text": "scale in the kettle"}\n',
    "qrels/test.tsv": "query-id\tcorpus-id\tscore\nq1\td1\t1\n",
}
TABLES = (
    "CREATE TABLE public.docs (id text PRIMARY KEY, body text, emb vector(384))",
    "INSERT INTO public.docs (id, body) VALUES ('d1', 'descale the kettle'), ('d2', 'toast')",
    "CREATE TABLE public.faq (nr int PRIMARY KEY, answer text, product text, lang text)",
    "INSERT INTO public.faq VALUES (1, 'Vinegar.', 'kettle', 'en'), (2, 'Two years.', 'toaster', 'en')",
    "CREATE TABLE public.langchain_pg_collection (uuid uuid PRIMARY KEY, name text)",
    "INSERT INTO public.langchain_pg_collection VALUES ('00000000-0000-0000-0000-000000000001', 'my_collection')",
    """CREATE TABLE public.langchain_pg_embedding
        (id text PRIMARY KEY, collection_id uuid, embedding vector(1536), document text, cmetadata jsonb)""",
    """INSERT INTO public.langchain_pg_embedding (id, collection_id, document, cmetadata)
        VALUES ('k1', '00000000-0000-0000-0000-000000000001', 'descale the kettle', '{}')""",
)


def prepare() -> None:
    """In the folder that is at hand, and in the home."""
    _files(Path())
    (home() / "access.toml").write_text('[people]\n"ada@example.org" = "editor"\n', encoding="utf-8")
    (home() / "access.toml").chmod(0o600)
    store = session.store()

    async def tables() -> None:
        async with store.begin() as connection:
            for statement in TABLES:
                await connection.execute(text(statement))

    bridge.run(tables())
    plan = load.LoadPlan(models=(MODEL,), chunks=CHUNKS, fields=("type", "date"), check=False)
    bridge.run(load.load_collection(store, "handbook", part_of_the_demo(), plan))
    bridge.run(
        load.load_collection(store, "scifact", guess("beir-folder"), load.LoadPlan(models=(MODEL,), check=False))
    )
    _ok("data attach docs --table public.docs --id id --text body --embedding emb --model all-MiniLM-L6-v2")
    _ok("variant keep today.toml")
    _ok("queries generate handbook")
    _runs()


def part_of_the_demo() -> corpus.Listed:
    """A few queries of each split, and how the documents begin that are relevant to them; one whole, as it is named."""
    whole = guess("handbook")
    labels = [row.value for row in whole.labels() if isinstance(row, Row) and row.value.grade > 0]
    asked: set[str] = set()
    for split, most in QUERIES.items():
        asked |= set(list(dict.fromkeys(each.query_id for each in labels if each.split == split))[:most])
    wanted = [each for each in labels if each.query_id in asked]
    ids = {each.item_id for each in wanted} | {"acc-sla"}
    items = [row.value for row in whole.items() if isinstance(row, Row) and row.value.id in ids]
    return corpus.Listed(
        documents=tuple(each if each.id == "acc-sla" else replace(each, text=each.text[:BEGINNING]) for each in items),
        asked=tuple(row.value for row in whole.queries() if isinstance(row, Row) and row.value.id in asked),
        judged=tuple(wanted),
    )


def _files(folder: Path) -> None:
    for name, k1 in (("mine", 0.9), ("today", 1.2), ("new", 1.5)):
        (folder / f"{name}.toml").write_text(VARIANT.format(name=name, k1=k1), encoding="utf-8")
    (folder / "suite.toml").write_text(SUITE, encoding="utf-8")
    for name, content in BEIR.items():
        path = folder / "beir-folder" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, encoding="utf-8")
    (folder / "beir").mkdir()
    with zipfile.ZipFile(folder / "beir" / "scifact.zip", "w") as packed:
        for name, content in BEIR.items():
            packed.writestr(name, content)
    (folder / "docs").mkdir()
    (folder / "docs" / "kettle.md").write_text("# Kettle\n\nDescale it with vinegar.\n", encoding="utf-8")
    (folder / "faq.csv").write_text("nr,answer,product\n1,Vinegar.,kettle\n2,Two years.,toaster\n", encoding="utf-8")
    (folder / "judged.qrels").write_text("q1 0 d1 1\n", encoding="utf-8")
    (folder / "questions.csv").write_text("id,text\nq1,scale in the kettle\n", encoding="utf-8")
    (folder / "mine.jsonl").write_text('{"text": "how do I reset a hub"}\n', encoding="utf-8")
    (folder / "grades.tsv").write_text("query_id\titem_id\tgrade\nq001\tfix-wifi-hub-3\t3\n", encoding="utf-8")
    (folder / "mine.md").write_text(NOTEBOOK, encoding="utf-8")


NOTEBOOK = """# Mine

```notebook
collection = "handbook"
```

```search
query = "reset hub 3"
variants = ["bm25"]
```

```search
query = "late fee"
variants = ["bm25"]
```
"""


def _runs() -> None:
    """Those that examples name: of variants, by pins, by the beginning of an id, and files."""
    _ok("eval handbook bm25 vector local-rag hybrid-retriever -m ndcg@10 --time-live 0")
    store = session.store()
    one, other = (
        bridge.run(run_store.load(store, name, collection="handbook", split="test"))
        for name in ("hybrid-retriever", "bm25")
    )
    candidate = replace(other, id="3f9a1c2b" + other.id[8:], name="candidate", made_at=None)
    bridge.run(run_store.save(store, candidate))
    for pin, run in (("main", other), ("before", other), ("after", one)):
        bridge.run(run_store.pin(store, run.id, pin))
    for name, run in (("lucene", one), ("ours", other)):
        exchange.write_run(run, Path(f"{name}.trec"))


def _ok(words: str) -> None:
    code, _, said = _invoke(shlex.split(words), "")
    if code:
        raise RuntimeError(f"rankbook {words}: {said}")


def main() -> None:
    assert corpus.MODEL  # which registers it
    setattr(typer.testing, "_get_command", lambda _: tree())  # noqa: B010 - else it is built anew for each call
    results = []
    with redirect_stdout(io.StringIO()):
        prepare()
        for line in ordered():
            for step in BEFORE.get(line, ()):
                made = run(step)
                if made.code:
                    raise RuntimeError(f"{step}: {made.said}")
            begun = time.monotonic()
            results.append(run(line))
            print(f"{time.monotonic() - begun:5.1f} s  {line}", file=sys.stderr, flush=True)
        session.close()
    json.dump([asdict(each) for each in results], sys.stdout)


if __name__ == "__main__":
    main()
