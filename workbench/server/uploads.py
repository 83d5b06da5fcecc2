"""What may be sent to the server as files: by whom, and how much together. Streamlit alone counts each file by itself.

A file is held in memory as soon as it has come, whatever a page makes of it: so it is refused before. Pages say, run by
run, whether whoever looks at them may upload.
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
class Held:
    """A window: whether it may upload, and how long the files are that it has sent, and those that are still coming."""

    allowed: bool = False
    sizes: dict[str, int] = field(default_factory=dict)
    coming: dict[str, int] = field(default_factory=dict)


class Uploads:
    """All windows of this process."""

    def __init__(self, most: int = MOST_BYTES) -> None:
        self.most = most
        self._held: OrderedDict[str, Held] = OrderedDict()
        self._lock = threading.Lock()

    def allow(self, allowed: bool) -> None:
        """For the window whose page is being drawn."""
        from streamlit.runtime.scriptrunner import get_script_run_ctx

        if (context := get_script_run_ctx()) is not None:
            self.allow_window(context.session_id, allowed)

    def allow_window(self, window: str, allowed: bool) -> None:
        with self._lock:
            self._held.setdefault(window, Held()).allowed = allowed
            self._held.move_to_end(window)
            while len(self._held) > MOST_SESSIONS:
                self._held.popitem(last=False)

    def refusal(self, window: str, file: str, size: int | None) -> tuple[int, str] | None:
        """Why that file may not come, with HTTP's number for it; None where it may, and is counted."""
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

    def settled(self, window: str, file: str, *, came: bool) -> None:
        """The file came, in the place of an earlier one of that name; or it did not."""
        with self._lock:
            held = self._held.get(window)
            if held is not None and (size := held.coming.pop(file, None)) is not None and came:
                held.sizes[file] = size

    def gone(self, window: str, file: str) -> None:
        """The file was taken away again."""
        with self._lock:
            if (held := self._held.get(window)) is not None:
                held.sizes.pop(file, None)


uploads: Final = Uploads()


class UploadGuard:
    """Stands before Streamlit, and lets through what `uploads` does."""

    def __init__(self, app: ASGIApp, uploads: Uploads = uploads) -> None:
        self._app, self._uploads = app, uploads

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope.get("path", "")
        if scope["type"] != "http" or PATH not in path:
            await self._app(scope, receive, send)
            return
        window, _, file = path.partition(PATH)[2].partition("/")
        method = scope["method"]
        if method not in {"DELETE", "OPTIONS"} and (no := self._uploads.refusal(window, file, _length(scope))):
            from starlette.responses import PlainTextResponse

            await PlainTextResponse(no[1], no[0])(scope, receive, send)
            return
        done = False

        async def noted(message: Message) -> None:
            nonlocal done
            if message["type"] == "http.response.start":
                done = message["status"] < 300
            await send(message)

        try:
            await self._app(scope, receive, noted)
        finally:
            if method not in {"DELETE", "OPTIONS"}:
                self._uploads.settled(window, file, came=done)
            elif method == "DELETE" and done:
                self._uploads.gone(window, file)


def _length(scope: Scope) -> int | None:
    """What was said, unless the file comes in pieces of which nobody said how many."""
    headers = dict(scope["headers"])
    said = headers.get(b"content-length", b"")
    return int(said) if said.isdigit() and b"transfer-encoding" not in headers else None
