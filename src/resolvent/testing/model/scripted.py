"""A model that says what it is told to, on loopback: real agent programs run against it, and tests read what it saw."""

import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from resolvent.errors import UsageError
from resolvent.testing.model.conversation import Conversation
from resolvent.testing.model.exchange import Exchange
from resolvent.testing.model.faults import Hits
from resolvent.testing.model.log import Log, Seen
from resolvent.testing.model.server import Server
from resolvent.testing.model.sides import is_side, side_answer
from resolvent.testing.model.steps import END, FAULTS, Fault, Scenario, Step, fault, filled, parsed, scenarios

PLACEHOLDER = "scenario-default"


@dataclass(frozen=True)
class Choice:
    """The step of a scenario that answers a request, and what strikes instead."""

    scenario: str
    number: int
    step: Step
    side: bool = False
    fault: Fault | None = None
    # What came where the step expected something else.
    unexpected: str = ""


class ScriptedModel:
    """Anthropic Messages, OpenAI Responses and OpenAI Chat on one port; `key`, if any, is the only one it takes."""

    def __init__(
        self,
        script: Scenario | Mapping[str, Scenario],
        *,
        key: str = "",
        port: int = 0,
        log_file: Path | None = None,
        toolless: bool = False,
    ) -> None:
        self.scenarios = scenarios(script)
        self.key = key
        # Requests that offer no tools are answered from the scenario too: for agents that work by text alone.
        self.toolless = toolless
        self._log = Log(log_file)
        self._hits = Hits()
        self._lock = threading.Lock()
        self._disturbance: tuple[Fault, object] | None = None
        self._server = Server(port, type("Exchange", (Exchange,), {"model": self}))

    def __enter__(self) -> "ScriptedModel":
        self._server.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.end()
        if self._server.broken and error is None:
            raise self._server.broken[0]

    @property
    def url(self) -> str:
        """Where it is; a `/v1` behind it does no harm."""
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def log(self) -> tuple[Seen, ...]:
        """Every request so far."""
        return self._log.all

    @property
    def asked(self) -> tuple[Seen, ...]:
        """Every request so far that is no housekeeping of the program."""
        return self._log.asked

    async def requests(self, count: int, *, timeout: float = 30.0) -> tuple[Seen, ...]:
        """The first so many of `asked`, as soon as they came; TimeoutError says what came instead."""
        return await self._log.reached(count, timeout=timeout)

    def disturb(self, told: Mapping[str, Any] | None) -> None:
        """From now on every request is struck by this fault, as a step would spell it; None ends it."""
        if told is None:
            self._disturbance = None
            return
        if len(told) != 1 or not set(told) <= set(FAULTS):
            raise UsageError(f"one fault, not {', '.join(told)}", hint=f"one of: {', '.join(FAULTS)}")
        [(name, how)] = told.items()
        self._disturbance = (fault(name, how), object())

    def note(self, seen: Seen) -> None:
        """Keep a request in the log."""
        self._log.note(seen)

    def choose(self, conversation: Conversation, key: str) -> Choice:
        """What answers this request: the scenario it names, at the step its transcript has reached."""
        name, start = conversation.marked()
        name = name or (key.removeprefix("scenario-") if key.startswith("scenario-") else "default")
        number = conversation.steps_since(start)
        if is_side(conversation) and not self.toolless:
            return Choice(name, number, side_answer(conversation), side=True)
        step = self._step(name, conversation, number)
        struck = self._striking(step, (name, number, conversation.prompt))
        if struck is None and not re.search(step.expect, conversation.last_input, re.S):
            said = f"the script expected /{step.expect}/"
            wrong = Fault("fail", status=418, message=said)
            return Choice(name, number, step, fault=wrong, unexpected=conversation.last_input)
        return Choice(name, number, step, fault=struck)

    def _step(self, name: str, conversation: Conversation, number: int) -> Step:
        scenario = self.scenarios.get(name)
        if scenario is None:
            return parsed({"text": f"(there is no scenario {name})"})
        if callable(scenario):
            told = scenario(conversation, number)
        else:
            told = scenario[number] if number < len(scenario) else {"text": END}
        return parsed(filled(told, conversation.cwd), number=number)

    def _striking(self, step: Step, where: tuple[Any, ...]) -> Fault | None:
        with self._lock:
            if self._disturbance:
                disturbing, once = self._disturbance
                if struck := self._hits.strike(disturbing, (once,)):
                    return struck
            return self._hits.strike(step.fault, where) if step.fault else None

    def environment(self, program: str, *, key: str = "") -> dict[str, str]:
        """What points a program here, to be put over an otherwise clean environment."""
        key = key or self.key or PLACEHOLDER
        known = {
            "claude": {
                "ANTHROPIC_BASE_URL": self.url,
                "ANTHROPIC_API_KEY": key,
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "DISABLE_AUTOUPDATER": "1",
                "DISABLE_TELEMETRY": "1",
                "DISABLE_ERROR_REPORTING": "1",
            },
            "codex": {"SCRIPTED_KEY": key},
            "goose": {
                "GOOSE_PROVIDER": "openai",
                "OPENAI_HOST": self.url,
                "OPENAI_API_KEY": key,
                "GOOSE_MODEL": "scripted",
                "GOOSE_MODE": "auto",
                "GOOSE_DISABLE_KEYRING": "1",
            },
            "openai": {"OPENAI_BASE_URL": f"{self.url}/v1", "OPENAI_API_KEY": key},
        }
        if program not in known:
            raise UsageError(f"nobody knows how {program} is pointed here", hint=f"one of: {', '.join(known)}")
        return known[program]

    def codex_config(self, model: str = "gpt-5.5", *, retries: int = 2) -> str:
        """The config.toml that points codex here; its CODEX_HOME must not lie under /tmp."""
        return (
            f'model = "{model}"\nmodel_provider = "scripted"\ncheck_for_update_on_startup = false\n'
            f"[analytics]\nenabled = false\n[model_providers.scripted]\n"
            f'name = "scripted"\nbase_url = "{self.url}/v1"\nenv_key = "SCRIPTED_KEY"\nwire_api = "responses"\n'
            f"request_max_retries = {retries}\nstream_max_retries = {retries}\nstream_idle_timeout_ms = 20000\n"
        )
