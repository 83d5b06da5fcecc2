"""What a server logs: a JSON object a line, or lines for a terminal; never a secret, and queries only if wanted.

Owns the form, what is left out, and that other libraries log the same way. Queries are logged with `--log-queries`
alone. Without it an exception is logged by its type and where it was raised, because its sentence may quote a query.
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
SILENT: Final = "uvicorn.access"  # each address that is requested, with the query in it
FRAMES: Final = 8  # of a traceback, the innermost
SHORTEST: Final = 6  # characters of a secret that is looked for: shorter ones are ordinary words
HIDDEN: Final = "***"
_SECRET_NAME: Final = re.compile(r"PASSWORD|PASSWD|SECRET|TOKEN|API_?KEY|(^|_)KEY$|DSN$", re.IGNORECASE)
_PATTERNS: Final = (
    # Headers, first: what they say has quotes of its own. It ends with its line or, in a mapping, with the string.
    (
        re.compile(
            r"(?i)((?:authorization|cookie)\w*[\"']\s*:\s*)(?:\"(?:\\.|[^\"\\\r\n])*\"|'(?:\\.|[^'\\\r\n])*')"
            r"|((?:authorization|cookie)\w*\\*[\"']?\s*[=:]\s*)[^\r\n]+"
        ),
        rf"\1\2{HIDDEN}",
    ),
    (re.compile(r"(\w://[^\s:/@]*:)[^\s@]+(?=@)"), rf"\1{HIDDEN}"),
    (
        re.compile(r"(?i)((?:password|passwd|secret|token|api[_-]?key)\w*[\"']?\s*[=:]\s*)(?:\"[^\"]*\"|'[^']*')"),
        rf"\1{HIDDEN}",
    ),
    (
        re.compile(
            r"(?i)((?:password|passwd|secret|token|api[_-]?key)\w*[\"']?\s*[=:]\s*[\"']?)"
            r"(?:bearer\s+|basic\s+)?[^\s,;\"'&)]+"
        ),
        rf"\1{HIDDEN}",
    ),
    (re.compile(r"(?i)\b(bearer\s+)[\w.~+/=-]+"), rf"\1{HIDDEN}"),
    (re.compile(r"\beyJ[\w-]{8,}(?:\.[\w-]+)*"), HIDDEN),
    (re.compile(r"\bsk-[\w-]{8,}"), HIDDEN),
)
_QUERY: Final = re.compile(r"([?&](?:query|q)=)[^&\s\"]+")
_STANDARD: Final = "rankbook"
_log = logging.getLogger(_STANDARD)


# -- left out ----------------------------------------------------------------------------------------------------------


class Redaction:
    """Takes out secrets that are known, whatever looks like one, and queries in addresses."""

    def __init__(self, secrets: Sequence[str] = (), *, queries: bool = False) -> None:
        known = sorted({each for each in secrets if len(each) >= SHORTEST}, key=len, reverse=True)
        self._known = re.compile("|".join(map(re.escape, known))) if known else None
        self.queries = queries

    def __call__(self, value: Any) -> Any:
        """The same texts, also in lists and mappings, without them."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {str(self(key)): self(value) for key, value in value.items()}
        return [self(each) for each in value] if isinstance(value, list | tuple) else value

    def _text(self, text: str) -> str:
        if self._known is not None:
            text = self._known.sub(HIDDEN, text)
        for pattern, instead in _PATTERNS:
            text = pattern.sub(instead, text)
        return text if self.queries else _QUERY.sub(rf"\1{HIDDEN}", text)


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """The values of variables whose names say that they are secret, and the passwords in connection strings."""
    from urllib.parse import unquote

    secrets = []
    for name, value in environment.items():
        if _SECRET_NAME.search(name) and value.strip():
            in_address = re.search(r"://[^\s:/@]*:([^\s@]+)@", value)
            in_fields = re.search(r"\bpassword\s*=\s*'?([^\s']+)", value)
            passwords = [match[1] for match in (in_address, in_fields) if match]
            secrets += [value.strip(), *passwords, *map(unquote, passwords)]
    return secrets


# -- forms -------------------------------------------------------------------------------------------------------------


class Lines(logging.Formatter):
    """For a terminal."""

    def __init__(self, redaction: Redaction) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s: %(message)s")
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        record.exc_text = None  # as another handler wrote it, nothing left out
        return str(self._redaction(super().format(record)))

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        fields = self._redaction(getattr(record, "fields", {}))  # before texts are put into one line with their quotes
        parts = [f"{name}={' '.join(str(value).split())}" for name, value in fields.items()]
        record.message = " ".join([event_of(record, whole=self._redaction.queries), *parts])
        return super().formatMessage(record)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Where it was raised, and its type. Its sentence may quote a query."""
        if self._redaction.queries:
            return super().formatException(ei)
        return "\n".join([*(f"  {each}" for each in raised_at(ei[1])), type(ei[1]).__name__])


class Objects(logging.Formatter):
    """A JSON object a line: time, level, event, logger, and the event's own fields."""

    def __init__(self, redaction: Redaction) -> None:
        super().__init__()
        self._redaction = redaction

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": event_of(record, whole=self._redaction.queries),
            "logger": record.name,
            **getattr(record, "fields", {}),
        }
        if record.exc_info and (error := record.exc_info[1]) is not None:
            exception: dict[str, Any] = {"type": type(error).__name__, "at": raised_at(error)}
            if state := getattr(getattr(error, "orig", error), "sqlstate", None):
                exception["sqlstate"] = state
            if self._redaction.queries:
                exception["says"] = str(error)
            entry["exception"] = exception
        return json.dumps(self._redaction(entry), default=str, ensure_ascii=False)


def event_of(record: logging.LogRecord, *, whole: bool) -> str:
    """The record's sentence. Unless it is to be `whole`, exceptions in it are replaced by their types."""
    if whole:
        return record.getMessage()

    def without_sentence(part: object) -> object:
        return type(part).__name__ if isinstance(part, BaseException) else part

    message, parts = str(without_sentence(record.msg)), record.args
    if isinstance(parts, tuple):
        parts = tuple(map(without_sentence, parts))
    message = message % parts if parts else message
    error = record.exc_info[1] if record.exc_info else None
    if error is not None:  # asyncio quotes the error of a task that nobody waited for
        for words in (repr(error), str(error)):
            message = message.replace(words, type(error).__name__) if len(words) >= SHORTEST else message
    return message


def raised_at(error: BaseException) -> list[str]:
    """The innermost frames, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)[-FRAMES:]
    return [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in frames]


class _Quiet(logging.Logger):
    """A logger of a library that would set up handlers of its own: its records go to the root instead."""

    def addHandler(self, hdlr: logging.Handler) -> None:  # noqa: N802 - the library's name
        if self.name.partition(".")[0] not in OTHERS:
            super().addHandler(hdlr)

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "propagate" and self.name.partition(".")[0] in OTHERS:
            value = self.name != SILENT
        super().__setattr__(name, value)


def form_of(option: str | None) -> Form:
    """The form by the command line's option, or by the environment."""
    from core.errors import InputError

    form = (option or os.environ.get(FORM, "") or "text").strip().lower()
    if form == "json":
        return "json"
    if form == "text":
        return "text"
    raise InputError(f"Logs come as text or json, not as {form!r:.40}. Say --log-format json, or {FORM}=json.")


def _is_warning(record: logging.LogRecord) -> bool:
    return record.levelno >= logging.WARNING


def _never(_: logging.LogRecord) -> bool:
    return False


def _log_hook(hook: threading.ExceptHookArgs | sys.UnraisableHookArgs) -> None:
    """What ended a thread, or could not be raised: Python itself would print the exception's sentence."""
    if hook.exc_value is not None and not isinstance(hook.exc_value, SystemExit):
        _log.error("unexpected error in the background", exc_info=hook.exc_value)


def install(form: Form, *, queries: bool = False, secrets: Sequence[str] = ()) -> None:
    """From now on everything that this process logs goes to standard error in that form."""
    redaction = Redaction([*secrets, *secrets_of(os.environ)], queries=queries)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(Objects(redaction) if form == "json" else Lines(redaction))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
    logging.raiseExceptions = False  # else a record that cannot be formatted is printed with all its parts
    threading.excepthook = _log_hook
    sys.unraisablehook = _log_hook
    _log.setLevel(logging.INFO if form == "json" else logging.WARNING)
    logging.setLoggerClass(_Quiet)
    for name in [name for name in root.manager.loggerDict if name.partition(".")[0] in OTHERS]:
        logger = logging.getLogger(name)
        logger.__class__ = _Quiet if type(logger) is logging.Logger else logger.__class__
        logger.handlers[:] = []
        logger.propagate = name != SILENT
    for name in ("uvicorn", "uvicorn.error"):  # it sets its own level when it starts, and greets
        logging.getLogger(name).addFilter(_is_warning)  # a filter that is there already is not added again
    logging.getLogger(SILENT).addFilter(_never)


# -- events ------------------------------------------------------------------------------------------------------------


def info(event: str, **fields: Any) -> None:
    """Log that this happened. Never pass a text that people typed."""
    _log.info(event, extra={"fields": fields})


def warning(event: str, raised: BaseException | None = None, /, **fields: Any) -> None:
    """Log something that needs attention. The form for terminals shows nothing below this level."""
    _log.warning(event, exc_info=raised, extra={"fields": fields})


def query_field(query: str) -> dict[str, str]:
    """The query as a field, if queries are logged."""
    return {"query": query} if query and os.environ.get(QUERIES) == "1" else {}


def user_mark(user: Mapping[str, Any]) -> str:
    """A mark that tells a person from others without naming them."""
    identity = str(user.get("sub") or user.get("email") or "")
    return hashlib.sha256(f"rankbook\0{identity}".encode()).hexdigest()[:12] if identity else ""


@contextmanager
def page(name: str, user: Mapping[str, Any], query: str = "") -> Iterator[None]:
    """Log that a page was drawn: for whom, how long it took, and what type of error ended it."""
    begun, failed = time.perf_counter(), ""
    try:
        yield
    except Exception as error:
        failed = type(error).__name__
        raise
    finally:
        spent = round(1000 * (time.perf_counter() - begun))
        fields = {"page": name, "milliseconds": spent, **query_field(query)}
        if mark := user_mark(user):
            fields["user"] = mark
        if failed:
            fields["failed"] = failed
        info("page", **fields)
