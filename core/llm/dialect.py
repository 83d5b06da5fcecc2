"""How a chat endpoint wants to be asked. Endpoints differ, and say so by refusing: then less is asked, step by step."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from core.llm.posting import NoAnswer

Form = Literal["json_schema", "json_object", "plain"]
SIMPLER: dict[Form, Form] = {"json_schema": "json_object", "json_object": "plain"}
REFUSALS = {400, 422}  # OpenAI's own status, and that of servers which validate requests by a schema


@dataclass(frozen=True, slots=True)
class Dialect:
    """Which answer form is asked for, and which of the disputed parameters."""

    form: Form = "json_schema"
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    temperature: bool = True

    def parameters(self, name: str, schema: dict[str, Any], answer_tokens: int) -> dict[str, Any]:
        asked: dict[str, Any] = {self.limit: answer_tokens}
        if self.temperature:
            asked["temperature"] = 0
        if self.form == "json_object":
            asked["response_format"] = {"type": "json_object"}
        if self.form == "json_schema":
            wanted = {"name": name, "strict": True, "schema": schema}
            asked["response_format"] = {"type": "json_schema", "json_schema": wanted}
        return asked

    def after(self, refused: NoAnswer) -> Dialect | None:
        """What to try next, or None where nothing simpler is left or the refusal is about something else."""
        if refused.status not in REFUSALS:
            return None
        if self.limit == "max_tokens" and "max_completion_tokens" in refused.refusal:
            return replace(self, limit="max_completion_tokens")
        if self.temperature and "temperature" in refused.refusal:
            return replace(self, temperature=False)
        return replace(self, form=SIMPLER[self.form]) if self.form in SIMPLER else None
