"""Which files may be uploaded: by whom, and how much together. Streamlit itself only limits each file.

A file is in memory as soon as it has come, whatever a page makes of it, so it is refused before. Each time that a page
is drawn, it says whether its user may upload.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

PATH: Final = "/_stcore/upload_file/"
MOST_BYTES: Final = 2 * 2**30  # that one window holds at a time
MOST_SESSIONS: Final = 10_000  # remembered; the oldest are forgotten, and have to draw their page again


@dataclass
class WindowUploads:
    """A window: whether it may upload, and the sizes of the files that it has sent, and of those still coming."""

    allowed: bool = False
    sizes: dict[str, int] = field(default_factory=dict)
    coming: dict[str, int] = field(default_factory=dict)


class Uploads:
    """All windows of this process."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self._held: OrderedDict[str, WindowUploads] = OrderedDict()
        self._lock = threading.Lock()

    def allow(self, allowed: bool) -> None:
        """For the window whose page is being drawn."""
        from streamlit.runtime.scriptrunner import get_script_run_ctx

        if (context := get_script_run_ctx()) is not None:
            self.allow_window(context.session_id, allowed)

    def allow_window(self, window: str, allowed: bool) -> None:
        with self._lock:
            self._held.setdefault(window, WindowUploads()).allowed = allowed
            self._held.move_to_end(window)
            while len(self._held) > MOST_SESSIONS:
                self._held.popitem(last=False)

    def refusal(self, window: str, file: str, size: int | None) -> tuple[int, str] | None:
        """Why that file may not come, with HTTP's status; None if it may, and is counted."""
        with self._lock:
            held = self._held.get(window)
            if held is None or not held.allowed:
                return 403, "You may not upload files here."
            if size is None:
                return 411, "How long the file is has to be said before it is sent."
            if file in held.coming:  # else a short one of that name would be counted in the place of a long one
                return 409, "This file is on its way already."
            every = sum(held.sizes.values()) + sum(held.coming.values())
            if size + every - held.sizes.get(file, 0) > self.most:
                return 413, "These files are larger together than an upload may be."
            held.coming[file] = size
            return None

    def finish(self, window: str, file: str, *, came: bool) -> None:
        """Count the file in the place of an earlier one of that name, or not at all if it did not come."""
        with self._lock:
            held = self._held.get(window)
            if held is not None and (size := held.coming.pop(file, None)) is not None and came:
                held.sizes[file] = size

    def remove(self, window: str, file: str) -> None:
        """Count the file no more."""
        with self._lock:
            if (held := self._held.get(window)) is not None:
                held.sizes.pop(file, None)


uploads: Final = Uploads()


class UploadGuard:
    """A middleware before Streamlit that answers uploads that are refused."""

    def __init__(self, app: ASGIApp, uploads: Uploads = uploads) -> None:
        self._app, self._uploads = app, uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if scope["type"] != "http" or PATH not in path:
            await self._app(scope, receive, send)
            return
        window, _, file = path.partition(PATH)[2].partition("/")
        method = scope["method"]
        sends = method not in {"DELETE", "OPTIONS"}
        headers = dict(scope["headers"])
        length = headers.get(b"content-length", b"")
        size = int(length) if length.isdigit() and b"transfer-encoding" not in headers else None
        if sends and (refusal := self._uploads.refusal(window, file, size)):
            from starlette.responses import PlainTextResponse

            status, sentence = refusal
            await PlainTextResponse(sentence, status)(scope, receive, send)
            return
        done = False

        async def note_status(message: Message) -> None:
            nonlocal done
            if message["type"] == "http.response.start":
                done = message["status"] < 300
            await send(message)

        try:
            await self._app(scope, receive, note_status)
        finally:
            if sends:
                self._uploads.finish(window, file, came=done)
            elif method == "DELETE" and done:
                self._uploads.remove(window, file)
