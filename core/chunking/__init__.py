"""Cuts items into chunks. Importing this registers every chunker; a new one is a file here and a line below."""

from core.chunking.base import Chunker, Tokenizer, chunkers
from core.chunking.fixed import FixedChunker
from core.chunking.headings import HeadingChunker
from core.chunking.none import WholeTextChunker
from core.chunking.pages import PageChunker
from core.chunking.parent_child import ParentChildChunker
from core.chunking.sentences import SentenceChunker
from core.chunking.spec import chunker_from, spec_of
from core.chunking.words import word_tokens

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
