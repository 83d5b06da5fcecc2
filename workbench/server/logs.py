"""What a server writes down: a JSON object a line, or lines for a terminal; never a secret, nor what people ask.

Owns the form, what is left out, and that other libraries' words go the same way. What a search was for is written only
where somebody asked for that (`--log-queries`); of an exception, then too, no more than its type and where it was
raised, because its sentence may quote a query.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final, Literal

Form = Literal["text", "json"]
FORM: Final = "RANKBOOK_LOG"
QUERIES: Final = "RANKBOOK_LOG_QUERIES"
OTHERS: Final = ("streamlit", "uvicorn", "websockets", "tornado")  # who set up handlers of their own
SILENT: Final = "uvicorn.access"  # each address that is asked for, and what is searched for with it
FRAMES: Final = 8  # of a traceback, the innermost
SHORTEST: Final = 6  # characters of a secret that is looked for: shorter ones are ordinary words
SHOWN: Final = "***"
_SECRET_NAME: Final = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|(^|_)KEY$|DSN$", re.IGNORECASE)
_PATTERNS: Final = (
    # Headers, first: what they say has quotes of its own. It ends with its line or, in a mapping, with the string.
    (
        re.compile(
            r"(?i)((?:authorization|cookie)\w*[\"']\s*:\s*)(?:\"(?:\\.|[^\"\\\r\n])*\"|'(?:\\.|[^'\\\r\n])*')"
            r"|((?:authorization|cookie)\w*\\*[\"']?\s*[=:]\s*)[^\r\n]+"
        ),
        rf"\1\2{SHOWN}",
    ),
    (re.compile(r"(\w://[^\s:/@]*:)[^\s@]+(?=@)"), rf"\1{SHOWN}"),
    (
        re.compile(r"(?i)((?:password|passwd|secret|token|api[_-]?key)\w*[\"']?\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*')"),
        rf"\1{SHOWN}",
    ),
    (
        re.compile(
            r"(?i)((?:password|passwd|secret|token|api[_-]?key)\w*[\"']?\s*[=:]\s*[\"']?)"
            r"(?:bearer\s+|basic\s+)?[^\s,;\"'&)]+"
        ),
        rf"\1{SHOWN}",
    ),
    (re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]+"), rf"\1{SHOWN}"),
    (re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]+)*"), SHOWN),
    (re.compile(r"\bsk-[\w-]{8,}"), SHOWN),
)
_ASKED: Final = re.compile(r"([?&](?:query|q)=)[^&\s\"]+")
_STANDARD: Final = "rankbook"
_log = logging.getLogger(_STANDARD)


# -- left out ----------------------------------------------------------------------------------------------------------


class Redaction:
    """Takes out secrets that are known, whatever looks like one, and queries in addresses."""

    def __init__(self, secrets: Sequence[str] = (), *, queries: bool = False) -> None:
        known = sorted({each for each in secrets if len(each) >= SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None
        self.queries = queries

    def __call__(self, said: Any) -> Any:
        """The same, without them: texts, and texts in lists and mappings."""
        if isinstance(said, str):
            return self._text(said)
        if isinstance(said, Mapping):
            return {str(self(key)): self(value) for key, value in said.items()}
        return [self(each) for each in said] if isinstance(said, list | tuple) else said

    def _text(self, said: str) -> str:
        if self._known is not None:
            said = self._known.sub(SHOWN, said)
        for pattern, instead in _PATTERNS:
            said = pattern.sub(instead, said)
        return said if self.queries else _ASKED.sub(rf"\1{SHOWN}", said)


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """What the environment holds under names that say so, and the passwords of connection strings."""
    found = []
    for name, value in environment.items():
        if _SECRET_NAME.search(name) and value.strip():
            found.append(value.strip())
            found += _passwords(value)
    return found


def _passwords(value: str) -> list[str]:
    from urllib.parse import unquote

    inside = re.search(r"://[^\s:/@]*:([^\s@]+)@", value)
    among = re.search(r"\bpassword\s*=\s*'?([^\s']+)", value)
    return [form for match in (inside, among) if match for form in (match[1], unquote(match[1]))]


# -- forms -------------------------------------------------------------------------------------------------------------


class Lines(logging.Formatter):
    """For a terminal."""

    def __init__(self, redaction: Redaction) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None  # another handler's, with all that it says
        return str(self._redaction(super().format(record)))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        fields = self._redaction(getattr(record, "fields", {}))  # while it is plain what quotes are a text's own
        told = [f"{name}={' '.join(str(value).split())}" for name, value in fields.items()]
        record.message = " ".join([event_of(record, whole=self._redaction.queries), *told])
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Where it was raised and what it is. Its sentence may quote a query."""
        if self._redaction.queries:
            return super().formatException(ei)
        return "\n".join([*(f"  {each}" for each in raised_at(ei[1])), type(ei[1]).__name__])


class Objects(logging.Formatter):
    """A JSON object a line: time, level, event, who wrote it, and whatever belongs to the event."""

    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        told: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": event_of(record, whole=self._redaction.queries),
            "logger": record.name,
            **getattr(record, "fields", {}),
        }
        if record.exc_info and record.exc_info[1] is not None:
            told["exception"] = self._exception(record.exc_info[1])
        return json.dumps(self._redaction(told), default=str, ensure_ascii=False)

    def _exception(self, error: BaseException) -> dict[str, Any]:
        told: dict[str, Any] = {"type": type(error).__name__, "at": raised_at(error)}
        if state := getattr(getattr(error, "orig", error), "sqlstate", None):
            told["sqlstate"] = state
        if self._redaction.queries:
            told["says"] = str(error)
        return told


def event_of(record: logging.LogRecord, *, whole: bool) -> str:
    """Its sentence; unless it is to be told `whole`, an exception in it by its type."""
    if whole:
        return record.getMessage()
    said, error = _message(record), record.exc_info[1] if record.exc_info else None
    if error is not None:  # asyncio says of a task that nobody waited for what it failed of
        for words in (repr(error), str(error)):
            said = said.replace(words, type(error).__name__) if len(words) >= SHORTEST else said
    return said


def _message(record: logging.LogRecord) -> str:
    message = _plain(record.msg)
    if not isinstance(record.args, tuple):
        return message % record.args if record.args else message
    return message % tuple(map(_plain_part, record.args)) if record.args else message


def _plain(said: object) -> str:
    return type(said).__name__ if isinstance(said, BaseException) else str(said)


def _plain_part(said: object) -> object:
    return type(said).__name__ if isinstance(said, BaseException) else said


def raised_at(error: BaseException) -> list[str]:
    """The innermost places, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]


class _Quiet(logging.Logger):
    """A logger of a library that would write lines of its own: everything goes to the root instead."""

    def addHandler(self, hdlr: logging.Handler) -> None:  # noqa: N802 - the library's name
        if self.name.partition(".")[0] not in OTHERS:
            super().addHandler(hdlr)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "propagate" and self.name.partition(".")[0] in OTHERS:
            value = self.name != SILENT
        super().__setattr__(name, value)


def form_of(given: str | None) -> Form:
    """As asked for, or as the environment says."""
    from core.errors import InputError

    said = (given or os.environ.get(FORM, "") or "text").strip().lower()
    if said == "json":
        return "json"
    if said == "text":
        return "text"
    raise InputError(f"Logs come as text or json, not as {said!r:.40}. Say --log-format json, or {FORM}=json.")


def _serious(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING


def _ended_by(told: threading.ExceptHookArgs | sys.UnraisableHookArgs) -> None:
    """A thread, or what is tidied up: Python itself would print what the exception says."""
    if told.exc_value is not None and not isinstance(told.exc_value, SystemExit):
        _log.error("unexpected error in the background", exc_info=told.exc_value)


def _never(_: logging.LogRecord) -> bool:
    return False


def install(form: Form, *, queries: bool = False, secrets: Sequence[str] = ()) -> None:
    """From now on everything that this process logs goes to standard error in that form."""
    redaction = Redaction([*secrets, *secrets_of(os.environ)], queries=queries)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Objects(redaction) if form == "json" else Lines(redaction))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # else a line that cannot be made is printed with all that was to stand in it
    threading.excepthook = _ended_by
    sys.unraisablehook = _ended_by
    _log.setLevel(logging.INFO if form == "json" else logging.WARNING)
    logging.setLoggerClass(_Quiet)
    for name in [name for name in root.manager.loggerDict if name.partition(".")[0] in OTHERS]:
        logger = logging.getLogger(name)
        logger.__class__ = _Quiet if type(logger) is logging.Logger else logger.__class__
        logger.handlers[:] = []
        logger.propagate = name != SILENT
    for name in ("uvicorn", "uvicorn.error"):  # it sets its own level when it starts, and greets
        logging.getLogger(name).addFilter(_serious)  # a filter that is there already is not added again
    logging.getLogger(SILENT).addFilter(_never)


# -- events ------------------------------------------------------------------------------------------------------------


def told(event: str, **fields: Any) -> None:
    """Write down that this happened. Texts that people typed have no place in it."""
    _log.info(event, extra={"fields": fields})


def warned(event: str, raised: BaseException | None = None, /, **fields: Any) -> None:
    """The same of what somebody has to look after: as text it is written too."""
    _log.warning(event, exc_info=raised, extra={"fields": fields})


def asked(query: str) -> dict[str, str]:
    """What was asked for, where it may be written down."""
    return {"query": query} if query and os.environ.get(QUERIES) == "1" else {}


def who(told_of: Mapping[str, Any]) -> str:
    """A person, told apart from others and not by name."""
    known = str(told_of.get("sub") or told_of.get("email") or "")
    return hashlib.sha256(f"rankbook\0{known}".encode()).hexdigest()[:12] if known else ""


@contextmanager
def page(name: str, told_of: Mapping[str, Any], query: str = "") -> Iterator[None]:
    """A page was drawn: by whom, how long it took, and what type of error ended it."""
    begun, failed = time.perf_counter(), ""
    try:
        yield
    except Exception as error:
        failed = type(error).__name__
        raise
    finally:
        spent = round(1000 * (time.perf_counter() - begun))
        fields = {"page": name, "milliseconds": spent, **asked(query)}
        if user := who(told_of):
            fields["user"] = user
        if failed:
            fields["failed"] = failed
        told("page", **fields)
