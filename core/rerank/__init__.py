"""The rerankers, each one file. Importing this registers them; a new one is a file here and a line below."""

from core.rerank.api import ApiReranker
from core.rerank.base import OverlapReranker, Reranker, ScoreReranker, reranker_from, rerankers, spec_of
from core.rerank.llm import LanguageModelReranker
from core.rerank.local_models import CrossEncoderReranker, LateInteractionReranker, TokenEmbedder

__all__ = [
    "ApiReranker",
    "CrossEncoderReranker",
    "LanguageModelReranker",
    "LateInteractionReranker",
    "OverlapReranker",
    "Reranker",
    "ScoreReranker",
    "TokenEmbedder",
    "reranker_from",
    "rerankers",
    "spec_of",
]
