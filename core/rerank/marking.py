"""Candidates as material for a language model, and its marks back. Text in a candidate can change neither.

Each candidate goes by a handle made for this call. A handle depends on the query and on all the candidates, so no
text could have been written to name one; and marks count only if they name every handle once and nothing else.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pydantic

from core.llm import NoAnswer
from core.rerank.base import Mark
from core.rerank.rubrics import HundredMark, Rubric, TenMark

LONGEST_EVIDENCE = 1_000  # characters

Candidates = Mapping[str, tuple[str, str]]  # handle -> id and text


def candidates_of(query: str, texts: Sequence[tuple[str, str]]) -> Candidates:
    """A handle for each pair of id and text, in order."""
    everything = json.dumps([query, *texts])
    return {
        f"c{number:02}-{hashlib.sha256(f'{number} {everything}'.encode()).hexdigest()[:8]}": pair
        for number, pair in enumerate(texts, start=1)
    }


def material_of(query: str, candidates: Candidates) -> str:
    """One JSON object: its quotes and escapes are the delimiters, which no text inside can close."""
    rows = [{"id": handle, "text": text} for handle, (_, text) in candidates.items()]
    return json.dumps({"query": query, "candidates": rows}, ensure_ascii=False)


def schema_of(rubric: Rubric, candidates: Candidates) -> dict[str, Any]:
    """The answer's shape, with the handles as the only ids there are."""
    properties = {
        name: {key: value for key, value in described.items() if key != "title"}
        for name, described in rubric.row.model_json_schema()["properties"].items()
    }
    properties["chunk_id"]["enum"] = list(candidates)
    row = _closed(properties)
    return _closed({"results": {"type": "array", "items": row}})


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


def marks_of(answer: Any, rubric: Rubric, candidates: Candidates, *, strict: bool) -> list[Mark]:
    """One mark a candidate, in the candidates' order, or no answer at all."""
    rows = {row.chunk_id: row for row in _rows(answer, rubric, strict=strict)}
    if set(rows) - set(candidates):
        raise NoAnswer("it marked a candidate that was not sent", passes=True)
    if missing := len(set(candidates) - set(rows)):
        raise NoAnswer(f"it left {missing} of {len(candidates)} candidates without a mark", passes=True)
    return [_mark(chunk_id, rows[handle]) for handle, (chunk_id, _) in candidates.items()]


def _rows(answer: Any, rubric: Rubric, *, strict: bool) -> list[TenMark] | list[HundredMark]:
    if not isinstance(answer, dict) or not isinstance(answer.get("results"), list) or (strict and len(answer) > 1):
        raise NoAnswer("its JSON is not one object with a list of results", passes=True)
    given = answer["results"] if strict else [_known_parts(row, rubric) for row in answer["results"]]
    try:
        rows: list[Any] = [rubric.row.model_validate(row, strict=strict) for row in given]
    except pydantic.ValidationError as error:
        names = sorted({str(part) for problem in error.errors(include_url=False) for part in problem["loc"]})
        known = [name for name in names if name in rubric.row.model_fields]
        raise NoAnswer(
            f"a mark is malformed or out of its range ({', '.join(known) or 'shape'})", passes=True
        ) from None
    if len({row.chunk_id for row in rows}) < len(rows):
        raise NoAnswer("it marked a candidate twice", passes=True)
    return rows


def _known_parts(row: Any, rubric: Rubric) -> Any:
    return {name: row[name] for name in rubric.row.model_fields if name in row} if isinstance(row, dict) else row


def _mark(chunk_id: str, row: TenMark | HundredMark) -> Mark:
    if isinstance(row, TenMark):
        return Mark(chunk_id, row.relevance_score)
    return Mark(chunk_id, row.relevance_score, row.answerability == "yes", row.key_evidence[:LONGEST_EVIDENCE])
