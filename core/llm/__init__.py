"""Language models, always opt-in: one question to an OpenAI-compatible chat endpoint, within a budget."""

from core.http import EndpointFailure, RetryPolicy
from core.llm.chat import Prompt, ask_cached, ask_model
from core.llm.endpoint import Endpoint, LanguageModelOptions, endpoint_from
from core.llm.session import Cap, CostEstimate, Prices, RecentAnswers, Session, Spending, session, using

__all__ = [
    "Cap",
    "CostEstimate",
    "Endpoint",
    "EndpointFailure",
    "LanguageModelOptions",
    "Prices",
    "Prompt",
    "RecentAnswers",
    "RetryPolicy",
    "Session",
    "Spending",
    "ask_cached",
    "ask_model",
    "endpoint_from",
    "session",
    "using",
]
