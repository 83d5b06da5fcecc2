"""The options that every stage with a language model has: whom it asks, in which form, and with how much patience."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from core.llm.endpoint import Endpoint, endpoint_from
from core.llm.posting import Patience
from core.resources import Resources


class Asking(BaseModel):
    """Fields for a spec to inherit. Knows nothing of what is asked."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    url: str | None = Field(
        None, description="The endpoint's address before `/chat/completions`; else RANKBOOK_LLM_URL."
    )
    model: str | None = Field(None, description="The endpoint's name for the model; else RANKBOOK_LLM_MODEL.")
    strict_json_output: bool = Field(
        True, description="Ask for the schema and take JSON alone; otherwise JSON is looked for in the text."
    )
    timeout: float = Field(60.0, gt=0, le=600, description="Seconds that one attempt may take.")
    attempts: int = Field(4, ge=1, le=10, description="How often it is asked where asking again can help.")

    @property
    def patience(self) -> Patience:
        return Patience(timeout=self.timeout, attempts=self.attempts)

    def endpoint(self, resources: Resources) -> Endpoint:
        """The one that the options name, or else the environment."""
        return endpoint_from(resources.environment, url=self.url, model=self.model)
