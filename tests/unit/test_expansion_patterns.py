"""Questions said as their answers would begin."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from core import bridge
from core.context import RequestContext
from core.expansion import ExpandedQuery, PatternExpansion, Rule
from core.expansion.patterns import ENGLISH, problem_of
from tests.effort import examples, quickly

NOWHERE: Any = None  # patterns look at nothing but the query


def expanded(query: str, **options: Any) -> ExpandedQuery:
    context = RequestContext(NOWHERE, NOWHERE, NOWHERE)
    return bridge.run(PatternExpansion(**options).expand(context, NOWHERE, query))


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("When was Stargate Atlantis cancelled?", "Stargate Atlantis was cancelled in"),
        ("When were the limits changed in Ghent?", "the limits were changed in Ghent in"),
        ("when is the late fee added to an invoice", "the late fee is added to an invoice when"),
        ("When did Apollo 11 land?", "Apollo 11 land in"),
        ("What is a Hub 3?", "a Hub 3 is"),
        ("what's MKT", "MKT is"),
        ("WHAT ARE   excursions ?!", "excursions ARE"),
        ("What does FL-4021 mean?", "FL-4021 means"),
        ("How do I reset a Hub Mini?", "To reset a Hub Mini,"),
        ("How can we pair a probe", "To pair a probe,"),
        ("how to export readings", "To export readings,"),
        ("How many people live in Ghent?", "The number of people live in Ghent is"),
        ("How much does a probe cost?", "The price of a probe is"),
        ("How is MKT calculated?", "MKT is calculated by"),
        ("How long are drafts kept?", "drafts are kept for"),
        ("Where are the readings stored?", "the readings are stored in"),
        ("Where is Ghent?", "Ghent is in"),
        ("Who is allowed to close a case?", "Those allowed to close a case are"),
        ("Who was Ada Lovelace?", "Ada Lovelace was"),
        ("Who invented the telephone?", "The person who invented the telephone is"),
        ("Why does the light blink?", "the light blink because"),
        ("Why was the alert suppressed?", "the alert was suppressed because"),
        ("Which report shows the trail?", "The report shows the trail is"),
        ("Can I undo a bulk change?", "You can undo a bulk change"),
        ("What is the fee, and when is it due?", "the fee is; when is it due"),
    ],
)
def test_a_question_is_said_as_its_answer_begins(question, answer):
    assert PatternExpansion().rewrite(question) == answer


@pytest.mark.parametrize(
    "query", ["late fee", "FL-4021", "reset a hub", "whatever is", "Was ist ein Hub?", "what is it"]
)
def test_what_is_no_question_or_asks_for_nothing_is_left_as_it_is(query):
    assert PatternExpansion().rewrite(query) is None
    assert expanded(query) == ExpandedQuery.unchanged(query)


def test_only_a_participle_ends_what_was_done():
    assert PatternExpansion().rewrite("When was the light red?") == "the light red was on"
    assert PatternExpansion().rewrite("When was the house built?") == "the house was built in"


def test_the_rewrite_stands_beside_the_question_or_in_its_place_or_is_not_embedded():
    query = "What does 409 mean?"
    assert expanded(query).meaning == "What does 409 mean?\n409 means"
    assert expanded(query, meaning="instead").meaning == "409 means"
    assert expanded(query, meaning="original").meaning == query


def test_new_content_words_of_the_rewrite_go_to_the_keyword_legs_unless_told_otherwise():
    found = expanded("What does 409 mean?")
    assert (found.words, found.added) == ("What does 409 mean? means", ("means",))
    assert expanded("What does 409 mean?", words=False).words == "What does 409 mean?"
    assert found.notes == ("Said as an answer begins: 409 means",)


def test_rules_of_ones_own_are_tried_before_the_english_ones_and_in_any_language():
    german = Rule(question="was {be:ist|sind} {ding}", answer="{ding} {be}")
    over = Rule(question="what is {thing}", answer="The definition of {thing}:")
    rules = PatternExpansion(rules=(german, over))
    assert rules.rewrite("Was ist ein Hub?") == "ein Hub ist"
    assert rules.rewrite("What is a hub?") == "The definition of a hub:"
    assert rules.rewrite("How to pair") == "To pair,"


def test_the_english_rules_can_be_left_out():
    assert PatternExpansion(english=False).rewrite("What is a hub?") is None


@pytest.mark.parametrize(
    ("question", "answer", "problem"),
    [
        ("", "x", "empty"),
        ("what is {thing}", " ", "empty"),
        ("what is {thing", "{thing}", "brace"),
        ("what is {Thing 2}", "x", "brace"),
        ("{a} or {a}", "{a}", "two blanks of one name"),
        ("{a} {b} {c} {d} {e}", "{a}", "5 blanks, and at most 4"),
        ("what is {thing}", "{think} is", "blank 'think', which its question has not"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused_and_says_why(question, answer, problem):
    with pytest.raises(ValidationError, match=problem):
        Rule(question=question, answer=answer)


@pytest.mark.parametrize(("question", "answer"), ENGLISH)
def test_every_rule_of_the_table_is_sound(question, answer):
    assert problem_of(question, answer) is None


def test_what_looks_like_a_regular_expression_in_a_rule_is_only_text():
    rule = Rule(question="(a+)+$ {x}", answer="{x} is")
    assert PatternExpansion(rules=(rule,)).rewrite("(a+)+$ word") == "word is"
    assert PatternExpansion(rules=(rule,), english=False).rewrite("aaaa word") is None


def test_the_slowest_rule_on_the_worst_query_answers_at_once():
    rule = Rule(question="{a} x {b} x {c} x {d} y", answer="{a}")
    with quickly(5):
        assert PatternExpansion(rules=(rule,)).rewrite("x " * 59 + "z") is None


@examples(60)
@given(st.text(max_size=300) | st.text("whatisrdone? {}|\n", max_size=300).map(lambda text: f"when was {text}"))
def test_any_text_keeps_its_words_first(query):
    found = expanded(query)
    assert found.words == query or found.words.startswith(query + " ")
