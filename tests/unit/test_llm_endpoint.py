"""Which language model is asked, what it may cost, and what sessions keep."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import bridge
from core.errors import BudgetError, SpecError
from core.llm import Cap, CostEstimate, Prices, RecentAnswers, Session, Spending, endpoint_from, session, using
from core.llm.session import estimate

SET = {"RANKBOOK_LLM_URL": "http://localhost:11434/v1/", "RANKBOOK_LLM_MODEL": "small", "RANKBOOK_LLM_KEY": "k"}


def test_the_environment_names_the_endpoint():
    endpoint = endpoint_from(SET)
    assert (endpoint.url, endpoint.model, endpoint.key) == ("http://localhost:11434/v1", "small", "k")
    assert endpoint.cap == Cap(1_000_000)


def test_options_stand_before_the_environment():
    assert endpoint_from(SET, model="large").model == "large"
    assert endpoint_from({}, url="https://a.test/v1", model="m").url == "https://a.test/v1"


@pytest.mark.parametrize("missing", ["RANKBOOK_LLM_URL", "RANKBOOK_LLM_MODEL"])
def test_nothing_configured_is_a_sentence_with_the_way_out(missing):
    environment = {name: value for name, value in SET.items() if name != missing}
    with pytest.raises(SpecError, match=f"No language model is configured: {missing} is not set"):
        endpoint_from(environment)
    with pytest.raises(SpecError, match="RANKBOOK_LLM_URL and RANKBOOK_LLM_MODEL are not set"):
        endpoint_from({})


def test_the_key_does_not_follow_an_option_to_another_server():
    with pytest.raises(SpecError, match="belongs to http://localhost:11434") as refused:
        endpoint_from(SET | {"RANKBOOK_LLM_KEY": "s3cret"}, url="https://elsewhere.test/v1")
    assert "s3cret" not in str(refused.value)
    assert endpoint_from(SET, url="http://localhost:11434/v2").key == "k"
    keyless = {name: value for name, value in SET.items() if name != "RANKBOOK_LLM_KEY"}
    assert endpoint_from(keyless, url="https://elsewhere.test/v1").key == ""


@pytest.mark.parametrize(
    "url",
    [
        "localhost:11434",
        "ftp://a.test",
        "http://",
        "http://user:s3cret@a.test",
        "http://a.test?key=s3cret",
        "http://a:s3cret",
        "x",
    ],
)
def test_an_address_that_is_none_or_carries_a_secret_is_refused_unseen(url):
    with pytest.raises(SpecError) as refused:
        endpoint_from(SET | {"RANKBOOK_LLM_URL": url})
    assert "s3cret" not in str(refused.value)


@pytest.mark.parametrize("value", ["many", "-1", "nan", "inf"])
@pytest.mark.parametrize("name", ["RANKBOOK_LLM_MAX_TOKENS", "RANKBOOK_LLM_PRICE_IN"])
def test_limits_that_are_no_numbers_are_refused(name, value):
    with pytest.raises(SpecError, match=name):
        endpoint_from(SET | {name: value})


def test_a_cost_cap_needs_both_prices():
    cap = SET | {"RANKBOOK_LLM_MAX_COST": "2"}
    with pytest.raises(SpecError, match="needs prices"):
        endpoint_from(cap)
    with pytest.raises(SpecError, match="both prices"):
        endpoint_from(cap | {"RANKBOOK_LLM_PRICE_IN": "1"})
    endpoint = endpoint_from(cap | {"RANKBOOK_LLM_PRICE_IN": "1", "RANKBOOK_LLM_PRICE_OUT": "2"})
    assert (endpoint.cap.cost, endpoint.prices) == (2, Prices(1, 2))


@given(st.text(max_size=200), st.text(max_size=200))
def test_more_text_never_costs_less(text, more):
    assert estimate([text], 5).sent <= estimate([text + more], 5).sent
    assert estimate([text, more], 5, Prices(3, 7)).cost == pytest.approx(
        (estimate([text, more], 5).sent * 3 + 35) / 1e6
    )


def test_two_calls_cannot_both_take_what_is_left():
    spending, cap = Spending(), Cap(100)
    spending.reserve(CostEstimate(50, 10), cap)
    with pytest.raises(BudgetError, match="60 of 100 are spent"):
        spending.reserve(CostEstimate(50, 10), cap)
    spending.settle(CostEstimate(50, 10), CostEstimate(20, 10))
    spending.reserve(CostEstimate(50, 10), cap)
    assert (spending.tokens, spending.calls) == (90, 2)


def test_recent_answers_forget_the_least_recently_used():
    answers = RecentAnswers(2)
    answers.put("a", "1")
    answers.put("b", "2")
    answers.get("a")
    answers.put("c", "3")
    assert [answers.get(key) for key in "abc"] == ["1", None, "3"]


def test_a_chosen_session_holds_inside_only_and_across_the_bridge():
    async def seen() -> Session:
        return session()

    before = session()
    with using(Session()) as chosen:
        assert session() is chosen
        assert bridge.run(seen()) is chosen
    assert session() is before is bridge.run(seen())
