"""Cuts items into chunks. Importing this registers every chunker; a new one is a file here and a line below."""

from core.chunking.base import Chunker, chunker_from, chunkers, spec_of, word_tokens
from core.chunking.builtin import (
    FixedChunker,
    HeadingChunker,
    PageChunker,
    ParentChildChunker,
    SentenceChunker,
    WholeTextChunker,
)
from core.chunking.text_scan import Tokenizer

__all__ = [
    "Chunker",
    "FixedChunker",
    "HeadingChunker",
    "PageChunker",
    "ParentChildChunker",
    "SentenceChunker",
    "Tokenizer",
    "WholeTextChunker",
    "chunker_from",
    "chunkers",
    "spec_of",
    "word_tokens",
]
