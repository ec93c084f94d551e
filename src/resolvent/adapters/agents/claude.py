"""Claude Code: `claude -p` with its own schema, sessions and budget; the key of its model stays outside of its box."""

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path

from resolvent.adapters.agents.claude_events import ClaudeListener, by_model, told_usage
from resolvent.adapters.agents.claude_turn import ClaudeTurn, ended_turn
from resolvent.adapters.agents.endings import FURTHEST, noted_reset, require_no_limit, reset_time, told
from resolvent.adapters.agents.lines import mapping, text
from resolvent.adapters.agents.programs import CLAUDE, PATH, Program, contract, find, lay_out, left, secrets_in
from resolvent.domain.job import Abilities, Gateway, Job, JobExit, Reply, Session, Task, Usage
from resolvent.domain.record import AgentChoice
from resolvent.errors import (
    AgentBusy,
    AgentFailed,
    AgentMissing,
    BudgetSpent,
    KeyRefused,
    MalformedAnswer,
    ResolventError,
)

KEY = "ANTHROPIC_API_KEY"
# What people with a subscription have: `claude setup-token` prints one.
TOKEN = "CLAUDE_CODE_OAUTH_TOKEN"
# What other servers that speak its protocol often take.
BEARER = "ANTHROPIC_AUTH_TOKEN"
SERVER = "ANTHROPIC_BASE_URL"
# Its models from a cloud: what opens the door there is the person's own affair, by `env` and `sandbox.network`.
CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
ENDPOINT = "https://api.anthropic.com"
GATEWAY_PORT = 4180
PLACEHOLDER = "sk-ant-oat01-put-in-by-the-gateway"
MOST_TEXT = 12 << 20
# It takes no budget of nothing.
SMALLEST_USD = 0.000001
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    # Long outages are waited for by us, with nothing running. Whoever allows the variable sets it.
    "CLAUDE_CODE_MAX_RETRIES": "4",
    # The project's CLAUDE.md counts, its settings do not: they could name another server and commands to run.
    "CLAUDE_CODE_ADDITIONAL_DIRECTORIES_CLAUDE_MD": "1",
}
_SESSIONS = uuid.UUID("5f0a8f0c-6f0e-5a53-9d3c-8e4a3b1c7d21")


class ClaudeAgent:
    """The program of Anthropic: `environment` holds the values its choice allows, `key` the key of its model."""

    def __init__(self, choice: AgentChoice, *, environment: Mapping[str, str], key: str = "") -> None:
        self.name = choice.name
        self.family = choice.family or "anthropic"
        self.account = choice.account or choice.name
        self.abilities = Abilities(structured=True, resume=True, fork=True, budget=True, cost=True, cancel=True)
        self._choice = choice
        self._allowed = {name: environment[name] for name in choice.env if environment.get(name)}
        # These have ways of their own; a second one would only be a leak.
        own = {name: self._allowed.pop(name, "") for name in (TOKEN, BEARER, KEY, SERVER)}
        self._endpoint = choice.endpoint or own[SERVER]
        self._named = choice.key.removeprefix("$") or KEY
        # What a person allowed by name comes before a key that only happens to be there.
        self._variable, self._secret = KEY, key or own[KEY]
        if self._named.endswith("AUTH_TOKEN"):
            self._variable = BEARER
        for name in (BEARER, TOKEN):
            if own[name]:
                self._variable, self._secret, self._named = name, own[name], name

    def ready(self) -> None:
        """AgentMissing or KeyRefused, with what to type, when its program cannot be started or has no key."""
        self._program()
        if not (self._secret or self._cloud):
            raise KeyRefused(
                f"agent {self.name} has no key: ${self._named} is not set",
                hint=f"export {self._named}=…  # or: claude setup-token, and agents.{self.name}.env = ['{TOKEN}']",
            )

    def asked_version(self) -> tuple[str, ...]:
        """The command that prints its version; empty when there is none."""
        try:
            return (self._program().path, "--version")
        except AgentMissing:
            return ()

    def listener(self) -> ClaudeListener:
        """For one job's output, from its first line."""
        return ClaudeListener(self._choice.price)

    def job(self, task: Task, *, id: str) -> Job:
        """The process to start for this turn in a branch; AgentMissing when its program is not there."""
        self.ready()
        program = self._program()
        lay_out(task, "claude")
        return Job(
            id=id,
            argv=(program.path, *self._words(task, id), *program.words),
            reads=program.reads,
            writes=self._choice.writes,
            gateways=self._gateways() if task.boxed else (),
            # The key as well in a box that never sees it: its server may repeat it in an answer.
            secrets=tuple(filter(None, (self._secret, *secrets_in(self._allowed)))),
            environment=self._environment(task),
            stdin=task.prompt,
            streams="apart",
            limits=self._choice.limits,
        )

    def session(self, task: Task, output: Path) -> Session | None:
        """The session of a turn that was interrupted, to go on with; None when there is none."""
        found = ended_turn(output).session
        if not found or not _recorded(Path(task.directory), found):
            return None
        before = task.session if task.session and task.session.id == found else None
        return Session(id=found, spent=before.spent if before else Usage())

    def reply(self, task: Task, exit: JobExit, output: Path) -> Reply:
        """Read what the ended process left; an error that says who must act when it did not end well."""
        found = ended_turn(output)
        spent, usage = _accounts(task, found)
        if not (found.good and exit.ended and exit.exit == 0 and not exit.message):
            error = self._refused(task, found, exit=exit, output=output)
            error.details |= {"usage": usage.model_dump(), "session": found.session, "exit": exit.exit}
            raise error
        said = text(found.result.get("result"), MOST_TEXT)
        answer = found.result.get("structured_output")
        try:
            given = json.dumps(answer) if answer is not None else left(task)
        except (OSError, ValueError, RecursionError) as error:
            raise MalformedAnswer(f"agent {self.name}: its answer cannot be used: {error}", raw=said) from error
        session = Session(id=found.session, spent=spent) if found.session else None
        return Reply(text=said, answer=given, usage=usage, session=session, notices=found.notices)

    def _refused(self, task: Task, found: ClaudeTurn, *, exit: JobExit, output: Path) -> ResolventError:
        """What a turn that did not end well is for whoever has to act."""
        if not found.good and found.trouble == "key":
            return self._no_entry(found)
        # Stopped while its model's server sent it away, or by itself in the end.
        waiting = exit.ending == "cancelled" and found.retry is not None and not found.result
        if not found.good and found.trouble == "busy" and (waiting or (exit.ended and not exit.message)):
            noted = noted_reset(output, now=exit.ended_at, status=found.status)
            until = noted or _until(found, now=exit.ended_at)
            how = found.said or f"its model's server answered {found.status or 'nothing'}"
            return AgentBusy(f"agent {self.name}: {how}", until=until)
        try:
            require_no_limit(self.name, exit, output)
        except ResolventError as error:
            return error
        return self._failed(task, found, exit=exit, output=output)

    def _no_entry(self, found: ClaudeTurn) -> KeyRefused:
        if found.error == "billing_error":
            return KeyRefused(f"agent {self.name}: {found.said}", hint="add credit at https://console.anthropic.com")
        name = self._named
        said = found.said or f"its model's server answered {found.status}"
        return KeyRefused(f"agent {self.name}: the key in ${name} is refused: {said}", hint=f"export {name}=…")

    def _failed(self, task: Task, found: ClaudeTurn, *, exit: JobExit, output: Path) -> ResolventError:
        reason = text(found.result.get("terminal_reason"), 100) or text(found.result.get("subtype"), 100)
        if reason in ("budget_exhausted", "error_max_budget_usd"):
            allowed = f" (it may spend ${task.budget_usd:g})" if task.budget_usd is not None else ""
            return BudgetSpent(f"agent {self.name}: {found.said}{allowed}", reason=reason)
        if reason in ("structured_output_retry_exhausted", "error_max_structured_output_retries"):
            return MalformedAnswer(f"agent {self.name}: it never answered after its schema", raw=found.said)
        if task.session and "No conversation found" in (found.said or told(output)):
            return AgentFailed(f"agent {self.name}: its session {task.session.id} is gone", session_gone=True)
        if found.result and not found.good:
            return AgentFailed(f"agent {self.name}: {reason or 'failed'}: {found.said}"[:6000], reason=reason)
        lacks = "after its result" if found.good else "without a result"
        return AgentFailed(f"agent {self.name}: ended with exit {exit.exit} {lacks}{told(output)}")

    def _program(self) -> Program:
        return find(self._choice, CLAUDE, path=self._allowed.get("PATH", PATH))

    @property
    def _cloud(self) -> bool:
        return any(name in self._allowed for name in CLOUDS)

    def _words(self, task: Task, id: str) -> tuple[str, ...]:
        # The box is the wall; without one it asks nobody, and what is not named here is refused.
        rights = ("bypassPermissions",) if task.boxed else ("acceptEdits", "--allowedTools", "Bash,WebFetch,WebSearch")
        begun = ("--resume", task.session.id) if task.session else ("--session-id", str(uuid.uuid5(_SESSIONS, id)))
        words = ["-p", "--output-format", "stream-json", "--verbose", "--strict-mcp-config", *begun]
        words += ["--setting-sources", "user", "--add-dir", ".", "--permission-mode", *rights]
        words += ["--json-schema", task.json_schema] if task.json_schema else []
        if task.budget_usd is not None:
            words += ["--max-budget-usd", f"{max(task.budget_usd, SMALLEST_USD):.6f}"]
        words += ["--model", self._choice.model] if self._choice.model else []
        return tuple(words)

    def _environment(self, task: Task) -> dict[str, str]:
        server, key = (
            (f"http://127.0.0.1:{GATEWAY_PORT}", PLACEHOLDER) if task.boxed else (self._endpoint, self._secret)
        )
        if self._cloud:
            server, key = self._endpoint, ""
        return {
            "PATH": PATH,
            **QUIET,
            **self._allowed,
            **({SERVER: server} if server else {}),
            **({self._variable: key} if key else {}),
            **contract(task),
            "CLAUDE_CONFIG_DIR": f"{task.inside}/claude",
            "CLAUDE_CODE_TMPDIR": f"{task.inside}/tmp",
        }

    def _gateways(self) -> tuple[Gateway, ...]:
        if self._cloud:
            return ()
        key = {"x-api-key": self._secret} if self._variable == KEY else {"authorization": f"Bearer {self._secret}"}
        return (Gateway(port=GATEWAY_PORT, upstream=self._endpoint or ENDPOINT, headers=key),)


def _accounts(task: Task, found: ClaudeTurn) -> tuple[Usage, Usage]:
    """What the session has cost in all, and what this turn alone did."""
    before = task.session.spent if task.session else Usage()
    own, whole = told_usage(found.result), by_model(mapping(found.result.get("modelUsage")))
    # Dollars are of the whole session; the tokens by model too, but those of the process are only its own.
    total = (whole if whole != Usage() else before + own).model_copy(update={"usd": own.usd})
    on_top = total.beyond(before) if total.usd >= before.usd else total
    if not found.result or found.spent is None:
        return total, on_top
    # What a turn before this one spent and could not tell any more, for it was stopped, is told in the sum alone; and
    # one that was killed is missing in that.
    return total, max(found.spent, on_top, key=lambda usage: usage.usd)


def _until(found: ClaudeTurn, *, now: float) -> float | None:
    furthest = now + FURTHEST.total_seconds()
    if now < found.resets_at <= furthest:
        return found.resets_at
    stated = reset_time(found.said, now=now) if found.status == 429 else None
    if stated is None and found.retry is not None and found.retry.status == 429:
        stated = min(now + found.retry.delay_s, furthest)
    return stated


def _recorded(directory: Path, session: str) -> bool:
    """The program wrote that session down: one that was stopped before its first word did not."""
    try:
        with os.scandir(directory / "claude" / "projects") as projects:
            folders = [project.path for project in projects if project.is_dir(follow_symlinks=False)]
    except OSError:
        return False
    return any(os.path.isfile(os.path.join(folder, f"{session}.jsonl")) for folder in folders)
