"""Query expansions. Importing this registers them; a new one is a file here and a line below."""

from core.expansion.base import (
    ExpandedQuery,
    Expansion,
    Proposal,
    expansion_from,
    expansions,
    spec_of,
)
from core.expansion.feedback import FeedbackExpansion
from core.expansion.llm import LanguageModelExpansion
from core.expansion.patterns import PatternExpansion, Rule
from core.expansion.synonyms import SynonymExpansion

__all__ = [
    "ExpandedQuery",
    "Expansion",
    "FeedbackExpansion",
    "LanguageModelExpansion",
    "PatternExpansion",
    "Proposal",
    "Rule",
    "SynonymExpansion",
    "expansion_from",
    "expansions",
    "spec_of",
]
