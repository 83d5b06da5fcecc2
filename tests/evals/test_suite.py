"""The form of suite files: what they come to, and what a slip in one is told as."""

from __future__ import annotations

from pathlib import Path

import pytest

from core.errors import InputError, RankbookError, SpecError
from evals.suites.suite import Suite

WHOLE = """
name = "demo"
metrics = ["mrr@10", "ndcg@10"]
baseline = "words"
seed = 7

[[collection]]
name = "handbook"

[[variant]]
kind = "bm25"

[[variant]]
name = "words"
top_k = 20
[[variant.leg]]
kind = "fulltext"

[[variant]]
file = "mine.toml"
top_k = 5

[[variant]]
preset = "local-rag"
name = "shipped"

[[grid]]
base = "words"
vary = { top_k = [5, 50] }

[[tune]]
base = "shipped"
split = "train"
fusions = [{ method = "rrf", k = 10 }]
procedure = { folds = 3 }

[[run]]
file = "runs/lucene.trec"
collection = "handbook"

[gate]
minimum = { "ndcg@10" = 0.5 }
"""
LEAST = '[[collection]]\nname = "handbook"\n'


@pytest.fixture
def whole(tmp_path):
    (tmp_path / "mine.toml").write_text('name = "mine"\n[[leg]]\nkind = "bm25"\n')
    (tmp_path / "suite.toml").write_text(WHOLE)
    return Suite.from_file(tmp_path / "suite.toml")


def test_a_suite_stands_for_its_legs_variants_files_presets_and_grids_in_their_order(whole):
    names = ["bm25", "words", "mine", "shipped", "words, top_k=5", "words, top_k=50"]
    made = whole.all_variants()
    assert [each.name for each in made] == names
    assert (made[2].top_k, made[3].leg_names) == (5, whole.base_of(whole.tune[0]).leg_names)


def test_files_are_looked_for_beside_the_suite(whole, tmp_path):
    assert whole.files_of(whole.targets[0]) == [tmp_path / "runs" / "lucene.trec"]


@pytest.mark.parametrize("vary", ['{ "fusion.method" = ["rrf", "linear"] }', '{ fusion.method = ["rrf", "linear"] }'])
def test_a_grids_field_is_written_with_dots_in_quotes_or_without(vary):
    grid = f'[[variant]]\npreset = "hybrid-retriever"\n[[grid]]\nbase = "hybrid-retriever"\nvary = {vary}\n'
    names = [each.name for each in Suite.from_toml(LEAST + grid).all_variants()[1:]]
    assert names == [f"hybrid-retriever, fusion.method={each}" for each in ("rrf", "linear")]


def test_one_seed_is_for_everything_unless_something_has_its_own(whole):
    (tune,) = whole.tune
    assert (whole.judged_by.seed, whole.procedure_of(tune).seed, whole.procedure_of(tune).folds) == (7, 7, 3)
    own = Suite.from_toml(LEAST + "[rules]\nseed = 3\ntie = 0.01\n")
    assert (own.judged_by.seed, own.judged_by.tie) == (3, 0.01)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("metric = ['mrr']\n", "Did you mean 'metrics'?"),
        ("metrics = ['ndgc@10']\n", "Did you mean 'ndcg'?"),
        ("metrics = []\n", "metrics: must not be empty"),
        ("seed = -1\n", "seed: must be 0 or more"),
        ("[[variants]]\n", "Did you mean 'variant'?"),
        ("[gate]\nminimun = { mrr = 0.5 }\n", "did you mean 'minimum'?"),
        ("[gate]\nminimum = { mmr = 0.5 }\n", "Did you mean 'mrr'?"),
        ("[rules]\nlevels = 0.9\n", "did you mean 'level'?"),
        ("[[tune]]\nbase = 'local-rag'\nstep = 3\n", "did you mean 'steps'?"),
        ("[[tune]]\nbase = 'local-rag'\nfusions = [{ method = 'rff' }]\n", "Did you mean 'rrf'?"),
        ("[[tune]]\nbase = 'local-rag'\nmetric = 'bpref'\n", "metric of a weight surface"),
        ("[[run]]\nfile = 'x'\ncollection = 'handbok'\n", "Did you mean 'handbook'?"),
        ("[[grid]]\nbase = 'local-rag'\nvari = {}\n", "did you mean 'vary'?"),
        ("name = \n", "This is not TOML"),
    ],
)
def test_a_slip_is_a_sentence_with_the_nearest_that_is_known(text, said):
    head, tables = (LEAST, text) if text.startswith("[") else (text, LEAST)
    with pytest.raises(RankbookError) as caught:
        Suite.from_toml(head + tables)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[variant]]\npreset = 'local-rga'\n", "Did you mean 'local-rag'?"),
        ("[[variant]]\nkind = 'bm52'\n", "Did you mean 'bm25'?"),
        ("[[variant]]\npreset = 'local-rag'\ntopk = 3\n", "Did you mean 'top_k'?"),
        ("[[variant]]\nfile = 'gone.toml'\n", "cannot be read"),
        ("[[grid]]\nbase = 'local-rga'\nvary = { top_k = [1] }\n", "Did you mean 'local-rag'?"),
        ("[[grid]]\nbase = 'local-rag'\nvary = { topk = [1] }\n", "Did you mean 'top_k'?"),
        ("[[variant]]\nkind = 'bm25'\n[[variant]]\nkind = 'bm25'\n", "several variants called 'bm25'"),
        ("[[variant]]\nkind = 'bm25'\n[[tune]]\nname = 'bm25'\nbase = 'local-rag'\n", "several variants called 'bm25'"),
        ("", "has no variant"),
    ],
)
def test_a_variant_that_cannot_be_made_is_told_when_variants_are_asked_for(text, said):
    with pytest.raises(RankbookError) as caught:
        Suite.from_toml(LEAST + text).all_variants()
    assert said in str(caught.value)


@pytest.mark.parametrize(("tuned", "reported"), [("test", "test"), ("all", "test"), ("train", "all")])
def test_weights_are_never_looked_for_where_scores_are_reported(tuned, reported):
    with pytest.raises(SpecError, match="says nothing"):
        Suite.from_toml(f"{LEAST}split = '{reported}'\n[[tune]]\nbase = 'local-rag'\nsplit = '{tuned}'\n")


def test_a_file_that_is_not_there_or_no_text_is_named(tmp_path):
    with pytest.raises(InputError, match="cannot be read"):
        Suite.from_file(Path("/nowhere/suite.toml"))
    (tmp_path / "suite.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        Suite.from_file(tmp_path / "suite.toml")


def test_a_collection_is_needed_and_a_baseline_may_be_anything_that_is_kept():
    with pytest.raises(SpecError, match="collection: is missing"):
        Suite.from_toml("name = 'x'")
    assert Suite.from_toml("baseline = 'main'\n" + LEAST).baseline == "main"
