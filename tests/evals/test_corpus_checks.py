"""Near-duplicate documents: what is found, what is not, and that memory stays bounded."""

# mypy: disable-error-code="union-attr, no-untyped-call, attr-defined"
# In a test a Flaw where a Row was expected fails by itself.

from __future__ import annotations

import random

import pytest

from evals.labels.corpus_checks import NearDuplicates


def words(seed: int, count: int = 200) -> list[str]:
    source = random.Random(seed)
    return [f"w{source.randrange(5000)}" for _ in range(count)]


def test_an_edited_copy_is_found_and_unrelated_texts_are_not():
    seen = NearDuplicates(capacity=1000)
    assert all(seen.add(str(seed), " ".join(words(seed))) is None for seed in range(300))
    copy = words(42)
    copy[100] = "changed"
    match = seen.add("copy", " ".join(copy).upper())
    assert match is not None
    assert match.id == "42"
    assert 0.85 <= match.similarity <= 1


def test_the_estimate_is_near_the_true_overlap():
    seen = NearDuplicates(threshold=0.3, capacity=10)
    base = words(1, 2004)
    seen.add("base", " ".join(base))
    match = seen.add("half", " ".join(base[:1504]))  # 1500 of 2000 shingles
    assert match is not None
    assert match.similarity == pytest.approx(0.75, abs=0.2)


def test_short_empty_and_unspaced_texts():
    seen = NearDuplicates(capacity=10)
    assert seen.add("a", "") is None
    assert seen.add("b", "...") is None
    assert seen.add("c", "one two") is None
    assert seen.add("d", "One, two!") is not None
    assert seen.add("e", "東京都は日本の首都である") is None
    assert seen.add("f", "東京都は日本の首都である。") is not None


def test_only_the_latest_documents_are_remembered():
    seen = NearDuplicates(capacity=5)
    for seed in range(50):
        assert seen.add(str(seed), " ".join(words(seed))) is None
    assert seen.add("old", " ".join(words(3))) is None
    assert seen.add("new", " ".join(words(49))) is not None


def test_the_same_documents_give_the_same_answers():
    texts = [" ".join(words(seed % 7)) for seed in range(30)]

    def answers():
        seen = NearDuplicates(capacity=20)
        return [seen.add(str(number), text) for number, text in enumerate(texts)]

    assert answers() == answers()


def test_options_out_of_range_are_refused():
    with pytest.raises(ValueError, match="threshold"):
        NearDuplicates(threshold=0)
