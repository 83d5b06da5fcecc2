"""Language models, always opt-in: one question to an OpenAI-compatible chat endpoint, within a budget."""

from core.llm.chat import Question, ask
from core.llm.endpoint import Endpoint, endpoint_from
from core.llm.options import Asking
from core.llm.posting import NoAnswer, Patience
from core.llm.session import AnswerCache, RecentAnswers, Session, session, using
from core.llm.spending import Cap, Estimate, Prices, Spending

__all__ = [
    "AnswerCache",
    "Asking",
    "Cap",
    "Endpoint",
    "Estimate",
    "NoAnswer",
    "Patience",
    "Prices",
    "Question",
    "RecentAnswers",
    "Session",
    "Spending",
    "ask",
    "endpoint_from",
    "session",
    "using",
]
