"""Chunkers as plain data and back: `{"kind": "fixed", "max_tokens": 120}`. Knows no chunker by name."""

from core.chunking.base import chunkers
from core.specs import Tagged

CHUNKERS = Tagged(chunkers, "kind")
chunker_from, spec_of = CHUNKERS.read, CHUNKERS.write
