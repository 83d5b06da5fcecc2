"""What every registered source promises, whichever it is."""

# mypy: disable-error-code="union-attr, no-untyped-call, attr-defined"
# In a test a Flaw where a Row was expected fails by itself.

from __future__ import annotations

import json
from abc import ABC
from itertools import islice

import pyarrow as pa
import pytest
from pyarrow import parquet
from pydantic import BaseModel, ValidationError

from core.errors import RankbookError
from core.types import Flaw, Item, Query, Row
from evals.sources import Source, source_from, sources
from evals.types import Exclusion, Label, Span

KINDS = sorted(sources)
READS = {"items": Item, "queries": Query, "labels": Label, "spans": Span, "exclusions": Exclusion}


@pytest.fixture
def specs(tmp_path, monkeypatch):
    """A small collection for each kind that needs no network, and a spec that leads nowhere for each kind."""
    monkeypatch.setenv("IR_DATASETS_HOME", str(tmp_path / "home"))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "docs").mkdir()
    for name, content in {
        "corpus.jsonl": '{"_id": "a", "text": "t"}\n',
        "queries.jsonl": '{"_id": "1", "text": "q"}\n',
        "qrels/test.tsv": "1\ta\t1\n",
        "docs/a.md": "# T\n\ntext",
        "docs.sgml": "<DOC><DOCNO>a</DOCNO><TEXT>t</TEXT></DOC>",
        "topics": "1\tq\n",
    }.items():
        (tmp_path / name).write_text(content)
    parquet.write_table(pa.table({"id": ["a"], "text": ["t"]}), tmp_path / "items.parquet")
    at = str(tmp_path)
    good = {
        "beir": {"path": at},
        "folder": {"path": f"{at}/docs", "queries_path": f"{at}/queries.jsonl", "labels_path": f"{at}/qrels"},
        "tabular": {"path": f"{at}/items.parquet", "queries_path": f"{at}/queries.jsonl"},
        "trec": {"documents": f"{at}/docs.sgml", "topics": f"{at}/topics", "qrels": f"{at}/qrels/test.tsv"},
        "bundled": {"name": "handbook"},
    }
    bad = {
        "beir": {"path": f"{at}/none"},
        "folder": {"path": f"{at}/none"},
        "tabular": {"path": f"{at}/none.csv"},
        "trec": {"documents": f"{at}/none"},
        "bundled": {"name": "none"},
        "ir_datasets": {"id": "no/such/collection"},
    }
    for kind in sources:  # a source that is added here names its file or folder first
        bad.setdefault(kind, {next(iter(sources[kind].model_fields)): f"{at}/none"})
    return good, bad


@pytest.mark.parametrize("kind", KINDS)
def test_a_source_is_a_frozen_spec_whose_every_field_is_described(kind):
    source = sources[kind]
    assert issubclass(source, Source)
    assert source.kind == kind
    assert source.__doc__
    assert source.model_config.get("frozen")
    assert source.model_config.get("extra") == "forbid"
    assert described(source) == []


def described(model: type[BaseModel]) -> list[str]:
    nested = [field.default for field in model.model_fields.values() if isinstance(field.default, BaseModel)]
    bare = [f"{model.__name__}.{name}" for name, field in model.model_fields.items() if not field.description]
    return bare + [name for inner in nested for name in described(type(inner))]


@pytest.mark.parametrize("kind", KINDS)
def test_rows_are_of_their_type_with_a_place_and_can_be_read_twice(kind, specs):
    if kind not in specs[0]:
        pytest.skip(f"{kind} needs the network, or has no small collection above")
    source = source_from({"kind": kind, **specs[0][kind]})
    for name, wanted in READS.items():
        first, second = (list(islice(getattr(source, name)(), 50)) for _ in range(2))
        assert first == second
        for row in first:
            assert isinstance(row, (Row, Flaw))
            assert row.place.file
            assert not isinstance(row, Row) or isinstance(row.value, wanted)
    items = list(islice(source.items(), 3))
    assert items
    json.dumps([dict(row.value.metadata) for row in items if isinstance(row, Row)], allow_nan=False)
    assert isinstance(source.card(), str)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_missing_raises_our_own_error_when_read(kind, specs):
    source = source_from({"kind": kind, **specs[1][kind]})
    with pytest.raises(RankbookError) as caught:
        next(iter(source.items()))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_specs_survive_json_and_refuse_changes(kind, specs):
    source = source_from({"kind": kind, **specs[1][kind]})
    assert source_from(json.loads(json.dumps(source.spec()))) == source
    with pytest.raises(ValidationError):
        setattr(source, next(iter(type(source).model_fields)), "other")


def test_the_contract_itself_cannot_be_instantiated():
    assert ABC in Source.__mro__
    with pytest.raises(TypeError, match="abstract"):
        Source()  # type: ignore[abstract]
