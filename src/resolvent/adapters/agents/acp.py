"""Any agent that speaks ACP: a driver talks to it inside the box, and what the driver printed is read here."""

import shutil
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from pydantic import ValidationError

from resolvent.adapters.agents import acp_driver
from resolvent.adapters.agents.acp_endings import require_good_end
from resolvent.adapters.agents.acp_output import Told
from resolvent.adapters.agents.endings import require_no_limit
from resolvent.adapters.agents.lines import parsed, sensible
from resolvent.adapters.agents.model_server import PLACEHOLDER, ModelServer, model_server
from resolvent.adapters.agents.programs import (
    INSTALL,
    PATH,
    Program,
    Wanted,
    contract,
    find,
    lay_out,
    left,
    secrets_in,
    unfound,
)
from resolvent.domain.job import Abilities, Job, JobExit, Reply, Session, Task, Usage
from resolvent.domain.prices import priced
from resolvent.domain.record import AgentChoice
from resolvent.domain.transcript import MOMENT, Moment, Said, Spent, Thought, ToolAnswered, ToolCalled, shortened
from resolvent.errors import AgentMissing, ConfigError, KeyRefused, MalformedAnswer, ResolventError

# Some load hundreds of modules before they answer, and 16 of them may do so at once.
PATIENCE_S = 120.0
# What the driver imports: the library with all it needs, and our own words.
IMPORTED = (
    "acp",
    "pydantic",
    "pydantic_core",
    "annotated_types",
    "typing_extensions",
    "typing_inspection",
    "resolvent",
)
# Their version would say nothing about the agent.
INTERPRETERS = ("node", "npx", "bun", "bunx", "deno", "python", "python3", "uv", "uvx", "sh", "bash", "env")
# No package of Python brings these programs along.
_NO_PACKAGE = Wanted("", "", "")


class AcpAgent:
    """An ACP agent: `environment` holds the values of the names its choice allows, `key` its model's key."""

    def __init__(
        self, choice: AgentChoice, *, environment: Mapping[str, str], key: str = "", patience_s: float = PATIENCE_S
    ) -> None:
        self.name = choice.name
        self.family = choice.family or choice.name
        self.account = choice.account or choice.name
        # What a program can do it says when it is started; these are what ACP has words for.
        self.abilities = Abilities(resume=True, cost=True, cancel=True)
        self._choice = choice
        self._key = key
        self._patience_s = patience_s
        self._allowed = {name: environment[name] for name in choice.env if name in environment}

    def ready(self) -> None:
        """AgentMissing, KeyRefused or ConfigError, with what to type, when a turn could not begin."""
        self._program()
        self._library()
        said = (*self._choice.command, *self._choice.variables.values())
        if self._choice.key and not self._key:
            variable = self._choice.key.removeprefix("$")
            raise KeyRefused(f"agent {self.name} has no key: ${variable} is not set", hint=f"export {variable}=…")
        if self._choice.model and not any("{model}" in word for word in said):
            raise ConfigError(
                f"agent {self.name}: nothing tells its program to use the model {self._choice.model}",
                hint=f'add to agents.{self.name}.variables the one its program reads, as in GOOSE_MODEL = "{{model}}"',
            )

    def asked_version(self) -> tuple[str, ...]:
        """Its program with `--version`, unless it is one that only interprets the agent."""
        program = self._program().path
        return () if Path(program).name in INTERPRETERS else (program, "--version")

    def job(self, task: Task, *, id: str) -> Job:
        """The driver with the agent as its child; AgentMissing when either cannot be started."""
        program, library = self._program(), self._library()
        server = model_server(self._choice, key=self._key, boxed=task.boxed)
        self._require_no_key_in_sight(server)
        lay_out(task)
        driver = Path(str(acp_driver.__file__)).with_name("__main__.py")
        places = dict.fromkeys(str(place.parent) for place in library)
        # Isolated and without site: nothing of a user's or a branch's own gets between us and the library.
        argv = [sys.executable, "-I", "-S", str(driver), ":".join(places), "--patience", f"{self._patience_s:g}"]
        if task.session:
            argv += [f"--session={task.session.id}", f"--before={task.session.spent.usd!r}"]
        if self._choice.authenticate:
            argv += [f"--authenticate={self._choice.authenticate}"]
        return Job(
            id=id,
            argv=(*argv, "--", program.path, *(server.filled(word) for word in program.words)),
            reads=(*program.reads, sys.executable, sys.prefix, sys.base_prefix, *map(str, library)),
            writes=self._choice.writes,
            gateways=server.gateways,
            secrets=(*server.secrets, *secrets_in(self._allowed)),
            environment={
                "PATH": PATH,
                "LANG": "C.UTF-8",
                **self._allowed,
                **{name: server.filled(value) for name, value in self._choice.variables.items()},
                **{name: value for name, value in contract(task).items() if name != "LANG"},
            },
            stdin=task.prompt,
            streams="apart",
            limits=self._choice.limits,
        )

    def listener(self) -> "AcpListener":
        """The driver's lines are moments already."""
        return AcpListener()

    def session(self, task: Task, output: Path) -> Session | None:
        """The session of a turn that was interrupted, when its program can go on with one."""
        return _session(task, Told.read(output))

    def reply(self, task: Task, exit: JobExit, output: Path) -> Reply:
        """What the turn left; the error that says who must act when it did not end well."""
        told = Told.read(output)
        usage = priced(told.spent, self._choice.price)
        try:
            require_no_limit(self.name, exit, output)
            require_good_end(self._choice, told, exit, output)
            answer = self._answer(task, told)
        except ResolventError as error:
            # Paid for, whatever came of it.
            error.details["usage"] = usage.model_dump()
            raise
        notices = told.ended.notices if told.ended else ()
        return Reply(text=told.text, answer=answer, usage=usage, session=_session(task, told), notices=notices)

    def _answer(self, task: Task, told: Told) -> str | None:
        try:
            return left(task)
        except (OSError, ValueError) as error:
            message = f"agent {self.name}: its answer file cannot be used: {error}"
            raise MalformedAnswer(message, raw=told.text) from error

    def _program(self) -> Program:
        path = self._allowed.get("PATH", PATH)
        program = self._choice.command[0] if self._choice.command else ""
        named_well = program.startswith("/") or (program and "/" not in program)
        if not program or (named_well and shutil.which(program, path=path) is None and not Path(program).is_file()):
            raise unfound(self.name, program, path=path)
        return find(self._choice, _NO_PACKAGE, path=path)

    def _require_no_key_in_sight(self, server: ModelServer) -> None:
        """ConfigError when the key itself would stand in its command, where every process of this machine reads it."""
        if server.key in ("", PLACEHOLDER) or not any("{key}" in word for word in self._choice.command):
            return
        raise ConfigError(
            f"agent {self.name}: {{key}} in its command would show its key to everybody who lists processes",
            hint=f'put it into agents.{self.name}.variables, as in OPENAI_API_KEY = "{{key}}"',
        )

    def _library(self) -> tuple[Path, ...]:
        """The packages the driver imports, where they are installed."""
        found = []
        for name in IMPORTED:
            spec = find_spec(name)
            if spec is None or spec.origin is None:
                raise AgentMissing(
                    f"agent {self.name}: the Python package {name!r}, by which it is talked to, is not installed",
                    hint=INSTALL,
                )
            origin = Path(spec.origin)
            found.append(origin.parent if spec.submodule_search_locations else origin)
        return tuple(found)


def _session(task: Task, told: Told) -> Session | None:
    # Its id becomes a word of the next turn's command.
    if told.began is None or not told.began.lasting or not _usable(told.began.id):
        return None
    before = task.session.spent if task.session else Usage()
    return Session(id=told.began.id, spent=before + told.spent)


def _usable(id: str) -> bool:
    return id.isprintable() and 0 < len(id) <= 1000


class AcpListener:
    """Reads the driver's lines; whoever else got one in between says nothing."""

    def hear(self, line: bytes) -> tuple[Moment, ...]:
        """The moment of one line; none for how the turn began or ended, and for what cannot be read."""
        found = parsed(line)
        if found is None or found.get("kind") in ("session", "ended"):
            return ()
        try:
            moment: Moment = MOMENT.validate_python(found)
        except (ValidationError, RecursionError):
            return ()
        return _tidied(moment)


def _tidied(moment: Moment) -> tuple[Moment, ...]:
    if isinstance(moment, Said | Thought):
        words = shortened(moment.text.rstrip("\n"))
        return (moment.model_copy(update={"text": words}),) if words.strip() else ()
    if isinstance(moment, ToolCalled):
        return (moment.model_copy(update={"input": shortened(moment.input)}),)
    if isinstance(moment, ToolAnswered):
        return (moment.model_copy(update={"output": shortened(moment.output)}),)
    if isinstance(moment, Spent):
        return (moment,) if sensible(moment.usage) == moment.usage else ()
    return (moment,)
