"""The rerankers, each one file. Importing this registers them; a new one is a file here and a line below."""

from core.rerank.api import ApiReranker
from core.rerank.base import Mark, Reranked, Reranker, reranker_from, rerankers, spec_of
from core.rerank.cross_encoder import CrossEncoderReranker
from core.rerank.late_interaction import LateInteractionReranker, TokenEmbedder
from core.rerank.llm import LanguageModelReranker
from core.rerank.overlap import OverlapReranker
from core.rerank.score import ScoreReranker

__all__ = [
    "ApiReranker",
    "CrossEncoderReranker",
    "LanguageModelReranker",
    "LateInteractionReranker",
    "Mark",
    "OverlapReranker",
    "Reranked",
    "Reranker",
    "ScoreReranker",
    "TokenEmbedder",
    "reranker_from",
    "rerankers",
    "spec_of",
]
