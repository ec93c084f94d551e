"""A conversation with one git over pipes: question by question, and never waited for without an end."""

import math
import os
import select
import subprocess
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from resolvent.adapters.git import Git, failed

_CHUNK = 1 << 16


class Unanswered(Exception):
    """Git took longer for its answers than anybody should wait; it was ended."""


class Conversation:
    """Git is started by the first question and ended with the conversation; blocking, for threads."""

    def __init__(
        self, git: Git, *command: str, env: Mapping[str, str] = {}, answer_s: float, total_s: float = math.inf
    ) -> None:
        """An answer may take so long, and so long all of them together."""
        self._git = git
        self._command = command
        self._env = env
        self._answer_s = answer_s
        self._left_s = total_s
        self._process: subprocess.Popen[bytes] | None = None
        self._said = tempfile.TemporaryFile()  # noqa: SIM115, closed in __exit__
        self._heard = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, failure: object = None, *_: object) -> None:
        if self._process is not None:
            if failure is not None:
                self._process.kill()
            with suppress(BrokenPipeError):
                self._process.communicate()
        self._said.close()

    def ask(self, question: bytes) -> None:
        """Say something; it must be so short that no pipe is full of it."""
        if self._process is None:
            self._process = self._git.popen(*self._command, stderr=self._said, env=self._env)
        assert self._process.stdin is not None
        # One that is gone is noticed by who waits for its answer, and can be asked what it died of.
        with suppress(BrokenPipeError):
            self._process.stdin.write(question)
            self._process.stdin.flush()

    def until(self, mark: bytes) -> bytes:
        """What is said up to the mark, a single byte, which is left out; Unanswered when it takes too long."""
        looked = 0
        while (end := self._heard.find(mark, looked)) < 0:
            looked = len(self._heard)
            self._listen()
        said = self.take(end + 1)
        return said[:-1]

    def take(self, size: int) -> bytes:
        """The next so many bytes; Unanswered when they take too long."""
        while len(self._heard) < size:
            self._listen()
        said = bytes(self._heard[:size])
        del self._heard[:size]
        return said

    def _listen(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        output = self._process.stdout.fileno()
        waiting = select.poll()
        waiting.register(output, select.POLLIN)
        began = time.monotonic()
        ready = waiting.poll(1000 * min(self._answer_s, self._left_s))
        self._left_s = max(0.0, self._left_s - (time.monotonic() - began))
        if not ready:
            self._process.kill()
            raise Unanswered
        chunk = os.read(output, _CHUNK)
        if not chunk:
            self._said.seek(0)
            raise failed(self._command, exit=self._process.wait(), stderr=self._said.read())
        self._heard += chunk
