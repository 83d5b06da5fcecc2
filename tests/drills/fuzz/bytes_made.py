"""Inputs without a fuzzing engine: pieces of sound inputs, words of the language and noise, put together by hypothesis.

The test suite draws from it, and so does the runner on machines that atheris has no wheel for.
"""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.drills.fuzz.target import Target

MOST_PIECES = 12


def inputs(target: Target) -> SearchStrategy[bytes]:
    """A sound input with some of it cut out, doubled or replaced; or anything."""
    pieces = st.lists(_piece(target), max_size=MOST_PIECES).map(b"".join)
    return st.one_of(_bent(target), pieces, st.binary(max_size=64)).map(lambda made: made[: target.longest])


def _piece(target: Target) -> SearchStrategy[bytes]:
    words = st.sampled_from(target.words) if target.words else st.nothing()
    return st.one_of(_slice(target), words, st.binary(max_size=8))


@st.composite
def _slice(draw: st.DrawFn, target: Target) -> bytes:
    seed = draw(st.sampled_from(target.seeds))
    start = draw(st.integers(0, len(seed)))
    return seed[start : draw(st.integers(start, len(seed)))]


@st.composite
def _bent(draw: st.DrawFn, target: Target) -> bytes:
    made = draw(st.sampled_from(target.seeds))
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(made)))
        end = min(len(made), start + draw(st.sampled_from((0, 0, 1, 4, 32))))
        made = made[:start] + draw(_piece(target)) + made[end:]
    return made
