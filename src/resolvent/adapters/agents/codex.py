"""Codex, by its own `exec --json`: its configuration for one session, its process, and what the end of one means."""

import json
import re
from collections.abc import Mapping
from pathlib import Path

from resolvent.adapters.agents.codex_events import THREAD, CodexListener, Turn, began, read_turn
from resolvent.adapters.agents.codex_refusals import refusal
from resolvent.adapters.agents.endings import require_no_limit
from resolvent.adapters.agents.lines import SHOWN_LINES, end_of, plain
from resolvent.adapters.agents.programs import CODEX, PATH, Program, contract, find, lay_out, left, put, secrets_in
from resolvent.adapters.agents.strict_schema import strict
from resolvent.domain.job import Abilities, Gateway, Job, JobExit, Reply, Session, Task, Usage
from resolvent.domain.prices import price_of, priced
from resolvent.domain.record import AgentChoice
from resolvent.errors import AgentFailed, KeyRefused, MalformedAnswer, ResolventError

ENDPOINT = "https://api.openai.com"
KEY = "OPENAI_API_KEY"
# The newest with plain tools; later ones write programs for their tools, which is another program's work.
MODEL = "gpt-5.5"
# On the box's own loopback, where nothing else listens yet.
PORT = 47115
KEY_INSIDE = "RESOLVENT_MODEL_KEY"
KEPT_OUTSIDE = "kept-outside"
# It tells how long it was told to wait nowhere but in its log.
LOG = "codex_core::responses_retry=warn"
# A directory that it may write in is one it trusts, and then it starts whatever the repository's own .codex says, with
# the key in reach. Only an explicit word keeps it from that, and only from inside does anybody know the directory.
START = r"""if [ -n "$1" ]; then printf '%s\n' "$1"; fi; shift
here=$(pwd -P | sed 's/[\\"]/\\&/g') || exit
exec "$0" exec -c "projects={\"$here\"={trust_level=\"untrusted\"}}" "$@"
"""
# Everything it may know of where it runs. It retries a little by itself, and never for ever.
CONFIGURATION = """\
model = {model}
model_provider = "resolvent"
check_for_update_on_startup = false
# What is searched for leaves the box.
web_search = "disabled"

[analytics]
enabled = false

[feedback]
enabled = false

[history]
persistence = "none"

[features]
apps = false
plugins = false
# Whoever waits for the network longer than a few seconds is us.
unbounded_connection_retries = false

[shell_environment_policy]
exclude = ["{key}", "RUST_LOG"]

[sandbox_workspace_write]
# It has a TMPDIR of its own; this one is everybody's.
exclude_slash_tmp = true
writable_roots = [{home}]

[model_providers.resolvent]
name = "resolvent"
base_url = {base}
env_key = "{key}"
wire_api = "responses"
request_max_retries = 2
stream_max_retries = 2
"""
# Of a directory that it does not trust it does not read this by itself either.
INSTRUCTIONS = "If the working directory has an AGENTS.md, read it before you begin: it tells how to work there.\n"
_GONE = re.compile(r"no rollout found|no thread with id|thread not found", re.I)
_TOO_LONG = re.compile(r"input_too_large|exceeds the maximum length", re.I)


class CodexAgent:
    """The codex program; `environment` holds the values its choice allows, `key` the key of its model's server."""

    abilities = Abilities(structured=True, resume=True, fork=True, sandbox=True, cancel=True)

    def __init__(self, choice: AgentChoice, *, environment: Mapping[str, str], key: str = "") -> None:
        self.name = choice.name
        self.family = choice.family or "openai"
        self.account = choice.account or choice.name
        self._choice = choice
        self._allowed = {name: environment[name] for name in choice.env if name in environment}
        self._key = key
        self._model = choice.model or MODEL
        self._price = choice.price or price_of(self._model, {})
        self._endpoint = (choice.endpoint or ENDPOINT).rstrip("/").removesuffix("/v1")

    def ready(self) -> None:
        """AgentMissing when there is no codex; KeyRefused when its model's server wants a key and there is none."""
        self._program()
        # A server of one's own may want none: then none is named.
        if not self._key and (self._choice.key or not self._choice.endpoint):
            raise KeyRefused(f"agent {self.name}: {self._variable} holds no key", hint=f"export {self._variable}=…")

    def asked_version(self) -> tuple[str, ...]:
        """The command that prints its version."""
        return (self._program().path, "--version")

    def listener(self) -> CodexListener:
        """For one job's output, from its first line."""
        return CodexListener(self._price)

    def session(self, task: Task, output: Path) -> Session | None:
        """The thread an interrupted turn was in; None when it had not begun one."""
        thread = read_turn(output).thread
        if not thread:
            return task.session
        return Session(id=thread, spent=task.session.spent if task.session else Usage())

    def job(self, task: Task, *, id: str) -> Job:
        """The process to start for this turn in a branch; AgentMissing when its program is not there."""
        program = self._program()
        schema = _schema(task)
        try:
            self._furnish(task, schema)
        except OSError as error:
            # Between two turns it is the agent's: what lies there may be anything.
            raise AgentFailed(f"agent {self.name}: its private directory cannot be used: {error}") from error
        key = KEPT_OUTSIDE if task.boxed or not self._key else self._key
        environment = {
            "PATH": PATH,
            **self._allowed,
            **contract(task),
            "CODEX_HOME": f"{task.inside}/codex",
            "RUST_LOG": LOG,
            KEY_INSIDE: key,
        }
        gateway = Gateway(port=PORT, upstream=self._endpoint, headers=self._authorized())
        return Job(
            id=id,
            argv=("/bin/sh", "-c", START, program.path, _first_line(task), *program.words, *self._words(task, schema)),
            reads=program.reads,
            writes=self._choice.writes,
            gateways=(gateway,) if task.boxed else (),
            secrets=tuple(filter(None, (self._key, *secrets_in(self._allowed)))),
            environment=environment,
            stdin=task.prompt,
            # One stream: how long it was told to wait stands in its log, beside the event that says that it waits.
            streams="merged",
            limits=self._choice.limits,
        )

    def reply(self, task: Task, exit: JobExit, output: Path) -> Reply:
        """What the ended process left; an error that says who must act unless its turn was completed."""
        turn = read_turn(output)
        if not (exit.ended and exit.exit == 0 and not exit.message and turn.completed):
            raise self._failure(exit, output, turn)
        before = task.session.spent if task.session and task.session.id == turn.thread else Usage()
        return Reply(
            text=turn.message,
            answer=self._answer(task, turn),
            usage=priced(turn.usage.beyond(before), self._price),
            session=Session(id=turn.thread, spent=priced(turn.usage, self._price)) if turn.thread else None,
            notices=turn.notices,
        )

    @property
    def _variable(self) -> str:
        return self._choice.key.removeprefix("$") or KEY

    def _program(self) -> Program:
        return find(self._choice, CODEX, path=self._allowed.get("PATH", PATH))

    def _authorized(self) -> dict[str, str]:
        return {"authorization": f"Bearer {self._key}"} if self._key else {}

    def _furnish(self, task: Task, schema: str) -> None:
        lay_out(task, "codex")
        put(task, "codex/config.toml", self._configuration(task))
        put(task, "codex/AGENTS.md", INSTRUCTIONS)
        if schema:
            put(task, "codex/schema.json", schema)

    def _configuration(self, task: Task) -> str:
        base = f"http://127.0.0.1:{PORT}" if task.boxed else self._endpoint
        return CONFIGURATION.format(
            model=_quoted(self._model), base=_quoted(f"{base}/v1"), home=_quoted(f"{task.inside}/home"), key=KEY_INSIDE
        )

    def _words(self, task: Task, schema: str) -> tuple[str, ...]:
        # Its own walls cannot be put up inside ours, which let nobody make namespaces; outside they are all there is.
        walls = "danger-full-access" if task.boxed else "workspace-write"
        words = ["--json", "--color", "never", "-s", walls, "--skip-git-repo-check", "--ignore-rules"]
        if schema:
            words += ("--output-schema", f"{task.inside}/codex/schema.json")
        if task.session is not None:
            if not THREAD.fullmatch(task.session.id):
                raise AgentFailed(f"agent {self.name}: {task.session.id[:100]!r} is no thread", session_gone=True)
            words += ("resume", task.session.id)
        # The prompt is read to the end of standard input: an argument has room for 128 KB.
        return (*words, "-")

    def _answer(self, task: Task, turn: Turn) -> str | None:
        """Its last word if that is JSON, else the file it may have left."""
        if _is_object(turn.message):
            return turn.message
        try:
            return left(task)
        except (OSError, ValueError) as error:
            raise MalformedAnswer(
                f"agent {self.name}: its answer file cannot be used: {error}", raw=turn.message[-65536:]
            ) from error

    def _failure(self, exit: JobExit, output: Path, turn: Turn) -> ResolventError:
        if exit.ending in ("wall", "idle", "cancelled") and turn.waiting and not turn.failure:
            # It was stopped while it waited for its model: that is the reason, not the stop.
            return self._refused(turn.waiting, exit, output)
        require_no_limit(self.name, exit, output)
        if turn.failure:
            return self._refused(turn.failure, exit, output)
        said = _complaints(output)
        if _GONE.search(said) and not turn.thread:
            return AgentFailed(f"agent {self.name}: its thread is gone\n{said}", session_gone=True)
        if _TOO_LONG.search(said):
            return AgentFailed(f"agent {self.name}: the prompt is longer than it takes\n{said}", context_exceeded=True)
        how = "ended without the end of its turn" if exit.exit == 0 else f"ended with exit {exit.exit}"
        return AgentFailed(f"agent {self.name}: {how}\n{said}".strip(), ending=exit.ending, exit=exit.exit)

    def _refused(self, message: str, exit: JobExit, output: Path) -> ResolventError:
        error = refusal(message, name=self.name, exit=exit, output=output)
        if isinstance(error, KeyRefused):
            error.hint = f"export {self._variable}=…  # one that {self._endpoint} accepts"
        elif error.details.get("status") == 404:
            error.hint = f"$EDITOR resolvent.toml  # agents.{self.name}.model: {self._endpoint} knows no {self._model}"
        return error


def _schema(task: Task) -> str:
    """The schema of the answer as its flag takes it; empty when strict mode has no words for it."""
    try:
        found = strict(json.loads(task.json_schema or "null"))
    except (ValueError, RecursionError):
        return ""
    return "" if found is None else json.dumps(found)


def _quoted(word: str) -> str:
    """A TOML string: what JSON escapes, it escapes in the same way."""
    return json.dumps(word, ensure_ascii=False).replace("\x7f", "\\u007f")


def _is_object(message: str) -> bool:
    try:
        return isinstance(json.loads(message), dict)
    except (ValueError, RecursionError):
        return False


def _first_line(task: Task) -> str:
    return began(task.session) if task.session else ""


def _complaints(output: Path) -> str:
    """The last lines that are no events: what it says when it cannot even begin."""
    lines = plain(end_of(output, 1 << 16)).splitlines()
    return "\n".join([line.rstrip() for line in lines if line.strip() and not line.startswith("{")][-SHOWN_LINES:])
