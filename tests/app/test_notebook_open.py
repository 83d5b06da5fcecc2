"""`rankbook notebook open` and the folder of one's own notebooks; what headless runs say before they ask anybody."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError
from core.home import home
from tests.app.test_command_line import mistake, rankbook
from tests.unit.misbehaving import Reply, serving
from workbench.notebooks.files import FOLDER, address_of, folder_of, own_folder, shipped

ASKING = """```search
collection = "kettles"
query = "kettle"
variants = [{ name = "asking", leg = [{ kind = "bm25" }], rerank = { method = "llm" } }]
```
"""


def test_a_files_folder_becomes_the_folder_of_notebooks(tmp_path):
    assert folder_of(tmp_path / "mine.md") == tmp_path
    assert address_of(tmp_path / "what is it & why.md") == "/notebook?notebook=what%20is%20it%20%26%20why"


def test_what_ships_is_opened_beside_ones_own(tmp_path):
    assert folder_of(shipped("tour")) is None
    assert address_of(shipped("tour")) == "/notebook?notebook=tour"


def test_a_file_that_is_no_notebook_by_its_name_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"end in \.md"):
        folder_of(tmp_path / "mine.txt")


def test_what_is_not_there_is_said_before_anything_is_started(tmp_path):
    said = mistake("notebook", "open", str(tmp_path / "nothing"))
    assert "There is no such file" in said


def test_the_folder_is_the_options_else_the_environments_else_in_rankbooks_home(tmp_path, monkeypatch):
    monkeypatch.delenv(FOLDER, raising=False)
    assert own_folder().folder == home() / "notebooks"
    monkeypatch.setenv(FOLDER, str(tmp_path))
    assert own_folder().folder == tmp_path
    rankbook("--notebooks", str(tmp_path / "other"), "notebook", "list")
    assert own_folder().folder == tmp_path / "other"


def test_a_headless_run_says_what_it_will_ask_before_it_asks(store, tmp_path, monkeypatch):
    file: Path = tmp_path / "asking.md"
    file.write_text(ASKING, encoding="utf-8")
    with serving(Reply(status=500)) as endpoint:
        monkeypatch.setenv("RANKBOOK_LLM_URL", endpoint.url)
        monkeypatch.setenv("RANKBOOK_LLM_MODEL", "small")
        said = rankbook("notebook", "run", str(file), code=None).stderr
    assert "search: asking: The reranking asks small" in said
