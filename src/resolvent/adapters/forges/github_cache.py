"""Answers of GitHub that are kept to ask whether they still hold: every read is asked again, most are 304.

Written here and not taken from hishel, whose file keeps the headers of each request, and so our token, and grows
without end.
"""

import json
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import httpx

MAX_BYTES = 64 << 20
MAX_ANSWER = 4 << 20
# Of a response: its body is what was kept. A header of a request, which is not sent: what is kept shall not be taken.
KEPT, ANEW = "kept", "x-resolvent-anew"
_KEPT_HEADERS = ("content-type", "etag", "link")
_TABLE = """
CREATE TABLE IF NOT EXISTS answers (asked TEXT PRIMARY KEY, etag TEXT NOT NULL, headers TEXT NOT NULL,
  body BLOB NOT NULL, used REAL NOT NULL)
"""
_KEEP = "INSERT OR REPLACE INTO answers (asked, etag, headers, body, used) VALUES (?, ?, ?, ?, ?)"
# The newest whose bodies together fit.
_TRIM = """
DELETE FROM answers WHERE asked IN (SELECT asked FROM (
  SELECT asked, sum(length(body) + 500) OVER (ORDER BY used DESC, asked) AS upto FROM answers) WHERE upto > ?)
"""
_TRIM_EVERY = 50


class Answers:
    """Bodies by address with the tag that names their version, in a file only we can read, or in memory.

    It is a cache: whatever is wrong with the file, it is only as if nothing were kept.
    """

    def __init__(self, directory: Path | None, *, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes, self._kept = max_bytes, 0
        try:
            self._database = self._open(directory)
        except (OSError, sqlite3.Error):
            self._database = self._open(None)

    def find(self, asked: str) -> tuple[str, dict[str, str], bytes] | None:
        """The tag, headers and body that are kept for an address."""
        with suppress(sqlite3.Error, ValueError):
            found = self._database.execute("SELECT etag, headers, body FROM answers WHERE asked = ?", (asked,))
            for etag, headers, body in found:
                return str(etag), dict(json.loads(headers)), bytes(body)
        return None

    def keep(self, asked: str, headers: httpx.Headers, body: bytes) -> None:
        """Have this for the address from now on; the least used make room."""
        said = json.dumps({name: headers[name] for name in _KEPT_HEADERS if name in headers})
        with suppress(sqlite3.Error):
            self._database.execute(_KEEP, (asked, headers["etag"], said, body, time.time()))
            self._kept += 1
            if self._kept % _TRIM_EVERY == 0:
                self._database.execute(_TRIM, (self._max_bytes,))

    def used(self, asked: str) -> None:
        """It was good for something just now."""
        with suppress(sqlite3.Error):
            self._database.execute("UPDATE answers SET used = ? WHERE asked = ?", (time.time(), asked))

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._database.execute(_TRIM, (self._max_bytes,))
            self._database.close()

    def _open(self, directory: Path | None) -> sqlite3.Connection:
        if directory is None:
            return self._prepared(":memory:")
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        file = directory / "answers.sqlite"
        # Made by us first, so that it is never readable by others, nor is what SQLite puts beside it.
        os.close(os.open(file, os.O_CREAT | os.O_RDWR, 0o600))
        os.chmod(file, 0o600)
        try:
            return self._prepared(str(file))
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):
                raise
            # It is no database, or a broken one: nothing in it is worth a question.
            file.write_bytes(b"")
            return self._prepared(str(file))

    def _prepared(self, name: str) -> sqlite3.Connection:
        # Whoever holds the file for long makes us forget, not wait.
        database = sqlite3.connect(name, timeout=0.2, isolation_level=None, check_same_thread=False)
        database.execute("PRAGMA synchronous=OFF")
        database.execute(_TABLE)
        return database


class Revalidating(httpx.AsyncBaseTransport):
    """A transport that asks with the tag it knows, and takes what it kept only when the server says it still holds."""

    def __init__(
        self, wire: httpx.AsyncBaseTransport, answers: Answers, heard: Callable[[httpx.Response], None]
    ) -> None:
        self._wire, self._answers, self._heard = wire, answers, heard

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        asked = f"{request.url} {request.headers.get('accept', '')}" if request.method == "GET" else ""
        anew = request.headers.pop(ANEW, "")
        kept = self._answers.find(asked) if asked and not anew else None
        if kept:
            request.headers["If-None-Match"] = kept[0]
        answer = await self._wire.handle_async_request(request)
        self._heard(answer)
        if kept and answer.status_code == httpx.codes.NOT_MODIFIED:
            await answer.aread()
            self._answers.used(asked)
            whole = _whole(answer.headers, kept[1])
            return httpx.Response(200, headers=whole, content=kept[2], extensions={KEPT: True})
        fresh = answer.status_code == httpx.codes.OK and "etag" in answer.headers
        if not asked or not fresh or "json" not in answer.headers.get("content-type", ""):
            return answer
        body = await answer.aread()
        if len(body) <= MAX_ANSWER and _whole_document(body):
            self._answers.keep(asked, answer.headers, body)
        return httpx.Response(200, headers=_whole(answer.headers, {}), content=body)

    async def aclose(self) -> None:
        """Nothing: githubkit makes a client for each call, and all of them share our connections."""

    def end(self) -> Awaitable[None]:
        """Close the connections for good."""
        self._answers.close()
        return self._wire.aclose()


def _whole_document(body: bytes) -> bool:
    """It has sense: what is kept is taken again for as long as the server does not change it."""
    try:
        json.loads(body)
    except ValueError:
        return False
    return True


def _whole(headers: httpx.Headers, kept: dict[str, str]) -> dict[str, str]:
    """The headers of an answer whose body is read: nothing of them is about how it was sent."""
    about_sending = ("content-encoding", "content-length", "transfer-encoding", "connection")
    # What an answer without a body says of its pages is newer; what it says of its type is about nothing.
    old = {name: value for name, value in kept.items() if name == "content-type" or name not in headers}
    return {name: value for name, value in headers.items() if name not in about_sending} | old
