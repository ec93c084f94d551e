"""One turn: start the agent, shake hands, ask, print what happens, and leave nothing of it behind."""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Sequence
from typing import Any, TypeVar

import acp
from acp import schema
from pydantic import ValidationError

from resolvent.adapters.agents.acp_driver.client import Client
from resolvent.adapters.agents.acp_driver.narrator import Narrator
from resolvent.adapters.agents.acp_driver.pipe import MOST_BYTES, Pipe
from resolvent.adapters.agents.acp_driver.report import Began, Ended, Reason, Trouble
from resolvent.domain.model import Value
from resolvent.domain.transcript import shortened

T = TypeVar("T")

MOST_MESSAGE = 4000
# How long the agent may take to end its turn when it is told to, and to end itself afterwards.
CANCEL_S, FAREWELL_S, HURRIED_S, LAST_S = 2.0, 3.0, 0.5, 1.0
CANCELLED = 128 + signal.SIGTERM


class _Failed(Exception):
    """The turn cannot go on."""

    def __init__(self, reason: Reason, message: str, *, code: int = 0) -> None:
        super().__init__(message)
        self.trouble = Trouble(reason=reason, message=shortened(message, MOST_MESSAGE), code=code)


class Turn:
    """One prompt in one session of one agent process."""

    def __init__(self, order: argparse.Namespace, process: asyncio.subprocess.Process, narrator: Narrator) -> None:
        assert process.stdin and process.stdout
        self.session = ""
        self._order = order
        self._process = process
        self._narrator = narrator
        self._client = Client(narrator)
        stray = lambda line: narrator.notice(f"a line that is no message: {line}", lasting=False)  # noqa: E731
        self._pipe = Pipe(process.stdout, process.stdin, stray=stray)
        self._agent: Any = acp.ClientSideConnection(self._client, self._pipe)

    async def play(self, prompt: str) -> str:
        """Shake hands, ask, and return the protocol's reason for the end of the turn."""
        began = await self._begin()
        say(began)
        self.session, self._client.listening = began.id, True
        answer: schema.PromptResponse = await self._asked(
            self._agent.prompt(session_id=began.id, prompt=[acp.text_block(prompt)])
        )
        self._narrator.tokens(answer.usage)
        return answer.stop_reason

    async def cancel(self) -> None:
        """Ask the agent to end the turn."""
        if self.session:
            with contextlib.suppress(ConnectionError):
                await self._agent.cancel(session_id=self.session)

    async def _begin(self) -> Began:
        hello: schema.InitializeResponse = await self._within(
            "initialize",
            self._agent.initialize(
                protocol_version=acp.PROTOCOL_VERSION,
                client_capabilities=schema.ClientCapabilities(),
                client_info=schema.Implementation(name="resolvent", version="1"),
            ),
        )
        if hello.protocol_version != acp.PROTOCOL_VERSION:
            raise _Failed(
                "garbled", f"speaks version {hello.protocol_version} of ACP; {acp.PROTOCOL_VERSION} is needed"
            )
        if self._order.authenticate:
            method = self._order.authenticate
            await self._within("authenticate", self._agent.authenticate(method_id=method))
        can = hello.agent_capabilities or schema.AgentCapabilities()
        goes_on = bool(can.session_capabilities and can.session_capabilities.resume)
        name = hello.agent_info.name if hello.agent_info else ""
        lasting = goes_on or bool(can.load_session)
        if not self._order.session:
            new = self._agent.new_session(cwd=os.getcwd(), mcp_servers=[])
            session: schema.NewSessionResponse = await self._within("session/new", new)
            return Began(id=session.session_id, agent=shortened(name, 200), lasting=lasting)
        if not lasting:
            raise _Failed("session_gone", "cannot go on with a session")
        method = self._agent.load_session if can.load_session else self._agent.resume_session
        known = method(session_id=self._order.session, cwd=os.getcwd(), mcp_servers=[])
        try:
            await self._within("session/load" if can.load_session else "session/resume", known)
        except _Failed as failed:
            if failed.trouble.reason == "refused":
                raise _Failed("session_gone", failed.trouble.message, code=failed.trouble.code) from failed
            raise
        return Began(id=self._order.session, agent=shortened(name, 200), lasting=True)

    async def _within(self, method: str, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(self._order.patience):
                return await self._asked(answer)
        except TimeoutError as error:
            raise _Failed("silent", f"gave no answer to {method} within {self._order.patience:g} s") from error

    async def _asked(self, answer: Awaitable[T]) -> T:
        try:
            return await answer
        except acp.RequestError as error:
            more = "" if error.data is None else f": {_shown(error.data)}"
            raise _Failed("refused", f"{error}{more}", code=error.code if isinstance(error.code, int) else 0) from error
        except ValidationError as error:
            raise _Failed("garbled", f"gave an answer that is not after the protocol: {error}") from error
        except ConnectionError as error:
            if self._pipe.trouble:
                raise _Failed("garbled", self._pipe.trouble) from error
            raise _Failed("died", await _how_it_ended(self._process)) from error


async def _how_it_ended(process: asyncio.subprocess.Process) -> str:
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(LAST_S):
            await process.wait()
    if process.returncode is None:
        return "stopped talking in the middle of the turn"
    how = f"exit {process.returncode}" if process.returncode >= 0 else f"signal {-process.returncode}"
    return f"ended with {how} in the middle of the turn"


async def _end(process: asyncio.subprocess.Process, patience: float) -> None:
    """Let the agent go, then make it: nothing it does now counts."""
    if process.stdin:
        process.stdin.close()
    for seconds, act in ((patience, process.terminate), (LAST_S, process.kill), (LAST_S, process.kill)):
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
            return
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                act()


async def _played(order: argparse.Namespace, prompt: str, stop: asyncio.Event) -> Ended:
    narrator = Narrator(say, before=order.before)
    pipe = asyncio.subprocess.PIPE
    try:
        process = await asyncio.create_subprocess_exec(*order.command, stdin=pipe, stdout=pipe, limit=MOST_BYTES)
    except OSError as error:
        return Ended(error=Trouble(reason="unstartable", message=f"cannot be started: {error.strerror}"))
    stopped, reason, trouble = asyncio.ensure_future(stop.wait()), "", None
    try:
        turn = Turn(order, process, narrator)
        playing = asyncio.ensure_future(turn.play(prompt))
        await asyncio.wait({playing, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if not playing.done():
            await turn.cancel()
            await asyncio.wait({playing}, timeout=CANCEL_S)
        if not playing.done():
            playing.cancel()
        reason = await playing
    except _Failed as failed:
        trouble = failed.trouble
    except asyncio.CancelledError:
        reason = "cancelled"
    finally:
        stopped.cancel()
        await _end(process, HURRIED_S if trouble or stop.is_set() else FAREWELL_S)
    narrator.close()
    return Ended(stop_reason=reason, usage=narrator.usage, notices=tuple(narrator.notices), error=trouble)


def say(line: Value) -> None:
    """Print one line, at once: who listens may be waiting for it."""
    sys.stdout.buffer.write(line.model_dump_json().encode() + b"\n")
    sys.stdout.buffer.flush()


def _shown(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


async def _run(order: argparse.Namespace) -> int:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    prompt = sys.stdin.buffer.read().decode(errors="replace")
    ended = await _played(order, prompt, stop)
    say(ended)
    if stop.is_set():
        return CANCELLED
    return 1 if ended.error else 0


def main(words: Sequence[str]) -> int:
    """Play one turn of the agent whose command follows `--`; the prompt is read from standard input."""
    parser = argparse.ArgumentParser(prog="acp_driver")
    parser.add_argument("--session", default="", help="go on with this one")
    parser.add_argument("--authenticate", default="", help="by this method")
    parser.add_argument("--patience", type=float, default=120.0, help="seconds for each step of the handshake")
    parser.add_argument("--before", type=float, default=0.0, help="dollars the session had cost")
    parser.add_argument("command", nargs="+")
    order = parser.parse_args(words)
    # What the library logs of bad messages is told as notices, or as the reason for the end.
    logging.disable(logging.CRITICAL)
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(_run(order))
    finally:
        loop.close()
