"""Where sentences end, language by language and doubt by doubt."""

from __future__ import annotations

import pytest

from core.chunking.text_scan import sentences


def parted(text: str, *, lower_case: bool = False) -> list[str]:
    return [text[start:end].strip() for start, end in sentences(text, 0, len(text), lower_case=lower_case)]


@pytest.mark.parametrize(
    "expected",
    [
        ["One two.", "Three!", "Four?", "Five"],
        ["What?!", "No.", "“Yes.”", "(So it is.)", "Next."],
        ["He paid $3.14.", "She paid 2."],
        ["In 1999.", "The next year."],
        ["See section 3.1.", "Then go on."],
        ["It took 5 ms.", "Then it ended."],
        ["At 5 p.m.", "The shop closes."],
        ["Apples, pears, etc.", "Then more."],
        ["Wait... what?", "Yes… no.", "Right...", "Then."],
        ["¿Qué?", "¡Sí!", "Él dijo."],
        ["这是第一句。", "这是第二句！", "「他说。」", "然后走了？", "好"],  # noqa: RUF001
        ["これは文です。", "ＡＢ．", "次。"],  # noqa: RUF001
        ["यह एक वाक्य है।", "दूसरा।"],
        ["هل هذا سؤال؟", "نعم."],
    ],
)
def test_sentences_are_parted(expected):
    joiner = "" if "这" in expected[0] or "こ" in expected[0] else " "
    assert parted(joiner.join(expected)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "Dr. Smith met Mrs. Jones and Prof. Wu.",
        "J. K. Rowling of the U.S. Army.",
        "See e.g. Section 2, i.e. Part B.",
        "Fig. 3 and No. 5 in Vol. 2.",
        "On Jan. 5 it was 1.5 vs. Two.",
        "Das kostet z.B. Drei bzw. Vier Euro.",
        "rankbook.toml in /etc/x.y is 3.14.15 at example.com now.",
        '"Really?" he asked.',
        "Wait . . . what",
        "1. Open the lid",
        "2.1. Open the lid",
        "Version 1.2.3 of node.js, approx. five.",
        "３．１４は円周率",  # noqa: RUF001
    ],
)
def test_what_is_no_end(text):
    assert parted(text) == [text]


def test_a_text_without_capitals_is_parted_at_its_full_stops():
    text = "the flow is steady . a second one is not . approx. five ."
    assert parted(text, lower_case=True) == ["the flow is steady .", "a second one is not .", "approx. five ."]
    assert parted(text) == [text]


def test_spans_adjoin_and_cover():
    text = "  One. Two?  Three "
    spans = list(sentences(text, 2, len(text)))
    assert [start for start, _ in spans] == [2, *(end for _, end in spans[:-1])]
    assert spans[-1][1] == len(text)
