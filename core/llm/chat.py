"""Asks a language model for JSON of a given shape, within a budget, until it answers or patience ends.

Owns what is sent and when it is asked again. What the answer means is the caller's `read`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from core.errors import LanguageModelError
from core.llm.answers import content_of, found_json, strict_json, used
from core.llm.dialect import Dialect
from core.llm.endpoint import KEY, MODEL, URL, Endpoint
from core.llm.posting import NoAnswer, Patience, client, insist, post
from core.llm.session import Session, session
from core.llm.spending import Estimate, estimate
from core.resources import Resources

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: instructions and data kept apart, the shape of the answer, and how long it may be.

    `strict` wants JSON alone and asks the endpoint to enforce the schema; otherwise JSON is looked for in the text.
    """

    name: str
    instructions: str
    material: str
    schema: Mapping[str, Any]
    answer_tokens: int
    strict: bool = True

    def messages(self) -> list[dict[str, str]]:
        return [{"role": "system", "content": self.instructions}, {"role": "user", "content": self.material}]

    def estimate(self, endpoint: Endpoint) -> Estimate:
        """What one attempt may take. The schema is counted too, as some endpoints put it into the prompt."""
        texts = [self.instructions, self.material, str(self.schema)]
        return estimate(texts, self.answer_tokens, endpoint.prices)


async def ask(
    resources: Resources,
    endpoint: Endpoint,
    question: Question,
    read: Callable[[Any], T],
    patience: Patience | None = None,
) -> T:
    """What `read` makes of the answer's JSON. `read` raises `NoAnswer(..., passes=True)` to have it asked again."""
    patience = patience or Patience()
    try:
        async with client(resources, endpoint.key, KEY) as sender:
            call = _Call(sender, endpoint, question, patience, session())
            return await insist(resources, patience, lambda: call.attempt(read))
    except NoAnswer as failed:
        raise LanguageModelError(
            f"The language model {endpoint.model!r} at {endpoint.url} did not answer as asked: {failed.problem}. "
            f"Check {URL}, {MODEL} and {KEY}, or try again later."
        ) from failed


@dataclass(frozen=True, slots=True)
class _Call:
    sender: httpx.AsyncClient
    endpoint: Endpoint
    question: Question
    patience: Patience
    session: Session

    async def attempt(self, read: Callable[[Any], T]) -> T:
        """One answer, read. A refused form of asking is followed by a simpler one at once."""
        key = (self.endpoint.url, self.endpoint.model)
        dialect = self.session.dialects.get(key, Dialect()) if self.question.strict else Dialect("plain")
        while True:
            try:
                text = await self._text(dialect)
            except NoAnswer as refused:
                simpler = dialect.after(refused)
                if simpler is None:
                    raise
                dialect = simpler
            else:
                if self.question.strict:
                    self.session.dialects[key] = dialect
                return read(strict_json(text) if self.question.strict else found_json(text))

    async def _text(self, dialect: Dialect) -> str:
        asked = dialect.parameters(self.question.name, dict(self.question.schema), self.question.answer_tokens)
        body = {"model": self.endpoint.model, "messages": self.question.messages(), **asked}
        reserved = self.question.estimate(self.endpoint)
        spending = self.session.spending
        spending.reserve(reserved, self.endpoint.cap)
        try:
            answer = await post(self.sender, f"{self.endpoint.url}/chat/completions", body, self.patience)
        except NoAnswer as failed:
            if failed.status is not None:  # refused, hence not billed; after a time-out nobody here can know
                spending.settle(reserved, Estimate(0, 0))
            raise
        text, usage = content_of(answer)
        spending.settle(reserved, used(usage, reserved, self.endpoint.prices))
        return text
