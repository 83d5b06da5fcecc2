"""A question to a chat endpoint, and what comes of an endpoint that does not answer as it should."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import httpx
import pytest

from core import bridge
from core.context import Resources
from core.errors import BudgetError, LanguageModelError
from core.http import EndpointFailure, RetryPolicy
from core.llm import Prompt, Session, ask_model, endpoint_from, using
from tests.unit.misbehaving import Endpoint, Pauses, Reply, completion, language_model, serving

QUESTION = Prompt("colour", "Answer with a colour.", "the sky", {"type": "object"}, answer_tokens=10)
BLUE = completion({"colour": "blue"})


def colour(answer: Any) -> str:
    if not isinstance(answer, dict) or "colour" not in answer:
        raise EndpointFailure("it names no colour", passes=True)
    return str(answer["colour"])


def asked(
    endpoint: Endpoint,
    *,
    question: Prompt = QUESTION,
    patience: RetryPolicy | None = None,
    pauses: Pauses | None = None,
    session: Session | None = None,
    environment: Mapping[str, str] | None = None,
) -> str:
    resources = language_model(endpoint, pauses, environment)
    with using(session or Session()):
        return bridge.run(ask_model(resources, endpoint_from(resources.environment), question, colour, patience))


def test_it_sends_instructions_and_material_apart_and_asks_for_the_schema():
    with serving(BLUE) as endpoint:
        assert asked(endpoint) == "blue"
    (body,) = endpoint.asked
    assert endpoint.paths == ["/v1/chat/completions"]
    assert body["model"] == "small"
    assert body["messages"] == [
        {"role": "system", "content": "Answer with a colour."},
        {"role": "user", "content": "the sky"},
    ]
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "colour", "strict": True, "schema": {"type": "object"}},
    }
    assert (body["max_tokens"], body["temperature"]) == (10, 0)


def test_the_key_goes_into_the_header_and_nowhere_else(caplog):
    caplog.set_level(logging.DEBUG)
    key = {"RANKBOOK_LLM_KEY": "s3cret-key"}
    with serving(BLUE, Reply({"error": "bad key s3cret-key"}, 401)) as endpoint:
        resources = language_model(endpoint, environment=key)
        described = repr(endpoint_from(resources.environment))
        asked(endpoint, environment=key)
        with pytest.raises(LanguageModelError) as refused:
            asked(endpoint, environment=key)
    assert endpoint.headers[0]["Authorization"] == "Bearer s3cret-key"
    assert "s3cret" not in f"{described} {refused.value} {refused.value.__cause__} {caplog.text}"
    assert "status 401" in str(refused.value)


def test_without_a_key_no_authorization_is_sent():
    with serving(BLUE) as endpoint:
        asked(endpoint)
    assert "Authorization" not in endpoint.headers[0]


@pytest.mark.parametrize("status", [400, 422])
def test_an_endpoint_that_refuses_the_schema_is_asked_for_json_and_then_plainly(status):
    no = Reply({"error": "response_format is not supported"}, status)
    session, pauses = Session(), Pauses()
    with serving(no, no, BLUE) as endpoint:
        assert asked(endpoint, session=session, pauses=pauses) == "blue"
        assert asked(endpoint, session=session) == "blue"
    forms = [body.get("response_format", {}).get("type") for body in endpoint.asked]
    assert forms == ["json_schema", "json_object", None, None]  # the fourth remembers
    assert pauses == []


def test_an_endpoint_that_refuses_every_form_is_not_asked_for_ever():
    too_long = Reply({"error": "the prompt is too long"}, 400)
    with serving(too_long) as endpoint, pytest.raises(LanguageModelError, match="status 400"):
        asked(endpoint)
    assert len(endpoint.asked) == 3


def test_an_endpoint_that_wants_other_parameters_gets_them():
    limit = Reply({"error": "Unsupported 'max_tokens', use 'max_completion_tokens'"}, 400)
    warm = Reply({"error": "Unsupported value: 'temperature'"}, 400)
    with serving(limit, warm, BLUE) as endpoint:
        assert asked(endpoint) == "blue"
    last = endpoint.asked[-1]
    assert last["max_completion_tokens"] == 10
    assert not {"max_tokens", "temperature"} & set(last)
    assert last["response_format"]["type"] == "json_schema"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(b"not json"), "not a chat completion"),
        (Reply([]), "not a chat completion"),
        (Reply({"choices": []}), "not a chat completion"),
        (Reply({"choices": [{"message": "hello"}]}), "not a chat completion"),
        (Reply(b"[" * 100_000), "not a chat completion"),
        (completion(""), "empty"),
        (Reply({"choices": [{"message": {"content": None}}]}), "empty"),
        (completion('{"colour": "blue"'), "not JSON alone"),
        (completion('Here you are: {"colour": "blue"}'), "not JSON alone"),
        (completion({"shape": "round"}), "names no colour"),
        (Reply(b"", 500), "status 500"),
        (Reply(b"x", closed=True), "connection failed"),
    ],
)
def test_a_bad_answer_is_asked_for_again_and_then_given_up_with_a_sentence(reply, said):
    pauses = Pauses()
    with serving(reply, BLUE) as endpoint:
        assert asked(endpoint, pauses=pauses) == "blue"
    assert len(pauses) == 1
    with serving(reply) as endpoint, pytest.raises(LanguageModelError, match=said):
        asked(endpoint, patience=RetryPolicy(attempts=3))
    assert len(endpoint.asked) == 3


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (completion('{"colour": "bl', finish_reason="length"), "cut at its token limit"),
        (Reply(b"", 401), "status 401"),
        (Reply(b"", 404), "status 404"),
        (Reply(b"", 307, {"Location": "http://127.0.0.1:1/elsewhere"}), "status 307"),
        (Reply(BLUE.content, headers={"Content-Encoding": "gzip"}), "compressed"),
    ],
)
def test_what_asking_again_cannot_mend_is_not_asked_again(reply, said):
    with serving(reply) as endpoint, pytest.raises(LanguageModelError, match=said):
        asked(endpoint)
    assert len(endpoint.asked) == 1


@pytest.mark.slow
def test_a_huge_answer_is_stopped_at_the_cap():
    with serving(completion("x" * 8_000_000)) as endpoint:
        with pytest.raises(LanguageModelError, match="longer than 1,000,000 bytes"):
            asked(endpoint)
        assert asked_with_room(endpoint) == 1


def asked_with_room(endpoint: Endpoint) -> int:
    """Attempts that a larger cap leads to: the text is read then, and is no JSON."""
    before = len(endpoint.asked)
    with pytest.raises(LanguageModelError, match="not JSON alone"):
        asked(endpoint, patience=RetryPolicy(attempts=1, largest_answer=10_000_000))
    return len(endpoint.asked) - before


def test_a_huge_refusal_is_a_refusal():
    with serving(Reply(b"x" * 8_000_000, 403)) as endpoint, pytest.raises(LanguageModelError, match="status 403"):
        asked(endpoint)


def test_an_endpoint_that_is_silent_is_left_after_the_time_out():
    with serving(Reply(silent=True)) as endpoint, pytest.raises(LanguageModelError, match=r"within 0\.3 s"):
        asked(endpoint, patience=RetryPolicy(timeout=0.3, attempts=2))
    assert len(endpoint.asked) == 2


def test_nobody_at_the_address_is_a_sentence():
    with serving(BLUE) as endpoint:
        pass
    with pytest.raises(LanguageModelError, match="connection failed"):
        asked(endpoint, patience=RetryPolicy(attempts=2))


def test_pauses_double_with_jitter_up_to_the_longest():
    pauses = Pauses()
    with serving(Reply(b"", 503)) as endpoint, pytest.raises(LanguageModelError):
        asked(endpoint, pauses=pauses, patience=RetryPolicy(attempts=6, longest_wait=5))
    bounds = [1, 2, 4, 5, 5]
    assert len(pauses) == len(bounds)
    assert all(bound / 2 <= pause <= bound for pause, bound in zip(pauses, bounds, strict=True))


def test_retry_after_is_honoured_as_seconds_and_as_a_date():
    pauses = Pauses()
    in_a_while = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    replies = [Reply(b"", 429, {"Retry-After": value}) for value in ("7", in_a_while)]
    with serving(*replies, BLUE) as endpoint:
        assert asked(endpoint, pauses=pauses) == "blue"
    assert pauses[0] == 7
    assert 15 < pauses[1] <= 20


@pytest.mark.parametrize("nonsense", ["soon", "-3", "²"])
def test_a_retry_after_that_says_nothing_is_a_usual_pause(nonsense):
    pauses = Pauses()
    with serving(Reply(b"", 429, {"Retry-After": nonsense}), BLUE) as endpoint:
        assert asked(endpoint, pauses=pauses) == "blue"
    assert 0.5 <= pauses[0] <= 1


def test_a_retry_after_beyond_our_patience_is_not_waited_for():
    pauses = Pauses()
    with serving(Reply(b"", 429, {"Retry-After": "3600"}), BLUE) as endpoint, pytest.raises(LanguageModelError):
        asked(endpoint, pauses=pauses)
    assert pauses == []


def test_without_strictness_json_is_found_in_the_text_and_no_form_is_asked_for():
    loose = Prompt("colour", "", "", {}, answer_tokens=10, strict=False)
    with serving(completion('Of course {sure}:\n```json\n{"colour": "blue"}\n``` Anything else?')) as endpoint:
        assert asked(endpoint, question=loose) == "blue"
    assert "response_format" not in endpoint.asked[0]


def test_text_without_an_object_is_no_answer_even_without_strictness():
    loose = Prompt("colour", "", "", {}, answer_tokens=10, strict=False)
    with serving(completion("{ " * 1000)) as endpoint, pytest.raises(LanguageModelError, match="no JSON object"):
        asked(endpoint, question=loose)


def test_the_answers_usage_takes_the_place_of_the_estimate():
    session = Session()
    prices = {"RANKBOOK_LLM_PRICE_IN": "1", "RANKBOOK_LLM_PRICE_OUT": "10"}
    with serving(completion({"colour": "blue"}, usage={"prompt_tokens": 30, "completion_tokens": 5})) as endpoint:
        asked(endpoint, session=session, environment=prices)
    assert (session.spending.tokens, session.spending.calls) == (35, 1)
    assert session.spending.cost == pytest.approx(80e-6)


@pytest.mark.parametrize("usage", [None, 7, {"prompt_tokens": -5, "completion_tokens": 1}, {"prompt_tokens": True}])
def test_usage_that_cannot_be_believed_leaves_the_estimate(usage):
    session = Session()
    with serving(completion({"colour": "blue"}, usage=usage)) as endpoint:
        asked(endpoint, session=session)
        expected = QUESTION.estimate(endpoint_from(language_model(endpoint).environment)).tokens
    assert session.spending.tokens == expected


def test_a_refusal_costs_nothing_and_a_time_out_counts():
    session = Session()
    with serving(Reply(b"", 401), Reply(silent=True)) as endpoint:
        for _ in range(2):
            with pytest.raises(LanguageModelError):
                asked(endpoint, session=session, patience=RetryPolicy(attempts=1, timeout=0.3))
            spent = session.spending.tokens
            assert (spent == 0) == (len(endpoint.asked) == 1)


def test_above_the_cap_nothing_is_sent():
    with serving(BLUE) as endpoint, pytest.raises(BudgetError, match="RANKBOOK_LLM_MAX_TOKENS"):
        asked(endpoint, environment={"RANKBOOK_LLM_MAX_TOKENS": "20"})
    assert endpoint.asked == []


def test_the_cap_is_on_the_sessions_total():
    session = Session()
    with serving(BLUE) as endpoint:
        one = QUESTION.estimate(endpoint_from(language_model(endpoint).environment)).tokens
        cap = {"RANKBOOK_LLM_MAX_TOKENS": str(one)}
        asked(endpoint, session=session, environment=cap)
        with pytest.raises(BudgetError):
            asked(endpoint, session=session, environment=cap)
        asked(endpoint, session=Session(), environment=cap)
    assert len(endpoint.asked) == 2


def test_above_the_cost_cap_nothing_is_sent():
    prices = {"RANKBOOK_LLM_PRICE_IN": "1", "RANKBOOK_LLM_PRICE_OUT": "10"}
    with serving(BLUE) as endpoint:
        with pytest.raises(BudgetError, match="RANKBOOK_LLM_MAX_COST"):
            asked(endpoint, environment=prices | {"RANKBOOK_LLM_MAX_COST": "0.0001"})
        assert endpoint.asked == []
        assert asked(endpoint, environment=prices | {"RANKBOOK_LLM_MAX_COST": "0.001"}) == "blue"


def test_cancelling_the_task_ends_the_exchange():
    async def cancelled(resources: Resources) -> bool:
        task = asyncio.create_task(ask_model(resources, endpoint_from(resources.environment), QUESTION, colour))
        await asyncio.to_thread(endpoint.began.wait, 10)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return True
        return False

    with serving(Reply(silent=True)) as endpoint, using(Session()):
        assert bridge.run(cancelled(language_model(endpoint)))


def test_the_exchange_goes_through_the_resources_transport():
    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json=BLUE.body)

    environment = {"RANKBOOK_LLM_URL": "https://models.test/v1", "RANKBOOK_LLM_MODEL": "small"}
    resources = Resources(transport=httpx.MockTransport(answer), environment=environment)
    with using(Session()):
        assert bridge.run(ask_model(resources, endpoint_from(environment), QUESTION, colour)) == "blue"
