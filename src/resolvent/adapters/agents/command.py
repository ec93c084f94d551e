"""Any command can be an agent: prompt on standard input, answer in a file or at the end of standard output."""

import re
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from resolvent.adapters.agents.lines import end_of, last_lines, plain, sensible
from resolvent.adapters.agents.programs import left, secrets_in, unfound
from resolvent.domain.job import Abilities, Job, JobExit, Reply, Session, Task, Usage
from resolvent.domain.prices import priced
from resolvent.domain.record import AgentChoice
from resolvent.domain.transcript import Moment, Said, shortened
from resolvent.errors import AgentBusy, AgentFailed, AgentMissing, AgentTimedOut, MalformedAnswer, ResolventError

PATH = "/usr/local/bin:/usr/bin:/bin"
MAX_TEXT_BYTES = 12 << 20
LIMITS = {"wall": "took too long", "idle": "was silent for too long", "output": "printed too much"}
# What sysexits.h calls EX_TEMPFAIL: come back later.
COME_BACK_LATER = 75
TELLING_LINES = 3
# A world that was down for a moment, as the programs of many vendors say it; looked for in the last lines only.
_PASSING = re.compile(
    r"connection (?:was )?(?:reset|refused|closed|aborted|lost)|ECONNRESET|ECONNREFUSED|ETIMEDOUT|EAI_AGAIN"
    r"|timed[ -]out|(?:request|gateway|connection|connect|read) timeout|timeout ?(?:error|exceeded|expired)"
    r"|network is unreachable|temporary failure in name resolution"
    r"|rate[ _-]?limit|too many requests|overloaded|temporarily unavailable|service unavailable|bad gateway"
    r"|(?<![a-z])(?:http(?:/[\d.]+)?|status|code|error)\W{0,4}(?:code\W{0,3})?(?:429|502|503|504|529)\b"
    r"|out of memory|cannot allocate memory|no space left on device|ENOMEM|ENOSPC",
    re.I,
)


class CommandAgent:
    """A program that keeps the agent contract: `environment` holds the values of the names its choice allows."""

    def __init__(self, name: str, choice: AgentChoice, *, environment: Mapping[str, str]) -> None:
        self.name = name
        self.family = choice.family or name
        self.account = choice.account or name
        # It may tell what it spent, and is asked to end before it is made to.
        self.abilities = Abilities(cost=True, cancel=True)
        self._choice = choice
        self._allowed = {key: environment[key] for key in choice.env if key in environment}

    def ready(self) -> None:
        """AgentMissing when its program cannot be found where the job will look for it."""
        self._program(self._allowed.get("PATH", PATH))

    def asked_version(self) -> tuple[str, ...]:
        """Nobody knows how to ask any program for its version."""
        return ()

    def listener(self) -> "PlainListener":
        """Every line is something it said."""
        return PlainListener()

    def session(self, task: Task, output: Path) -> Session | None:
        """None: the contract of commands knows no sessions."""
        return None

    def job(self, task: Task, *, id: str) -> Job:
        """The process to start for this turn in a branch; AgentMissing when its program is not there."""
        directory = Path(task.directory)
        environment = {
            "PATH": PATH,
            "LANG": "C.UTF-8",
            **self._allowed,
            **self._choice.variables,
            "HOME": f"{task.inside}/home",
            "TMPDIR": f"{task.inside}/tmp",
            "RESOLVENT_RUN": task.run,
            "RESOLVENT_STEP": task.step,
            "RESOLVENT_ATTEMPT": str(task.attempt),
            "RESOLVENT_TURN": str(task.turn),
            "RESOLVENT_SCHEMA": task.json_schema or "{}",
            "RESOLVENT_ANSWER": f"{task.inside}/{task.answer_file}",
            "RESOLVENT_USAGE": f"{task.inside}/{_usage_file(task)}",
        }
        # By its name, as configured: in a box it is looked up in the search path of the box.
        program, argv = self._program(environment["PATH"]), self._choice.command
        for private in (directory, directory / "home", directory / "tmp"):
            # Asked again, an agent may have put something else in their place.
            with suppress(FileExistsError):
                private.mkdir(mode=0o700, parents=True)
        return Job(
            id=id,
            argv=argv,
            # What its command names is all it gets to see of the host beyond the system itself.
            reads=(program, *(word for word in argv if word.startswith("/")), *self._choice.reads),
            writes=self._choice.writes,
            environment=environment,
            secrets=secrets_in(self._allowed | self._choice.variables),
            stdin=task.prompt,
            streams="apart",
            limits=self._choice.limits,
        )

    def _program(self, path: str) -> str:
        program = self._choice.command[0] if self._choice.command else ""
        if "/" in program and not program.startswith("/"):
            raise AgentMissing(
                f"agent {self.name}: {program} is relative, and an agent has no place of its own to start from",
                hint=f"realpath {program}  # and name that in agents.{self.name}.command",
            )
        found = shutil.which(program, path=path) if program else None
        if found is None and Path(program).is_file():
            raise AgentMissing(f"agent {self.name}: {program} is not executable", hint=f"chmod +x {program}")
        if found is None:
            raise unfound(self.name, program, path=path)
        return found

    def reply(self, task: Task, exit: JobExit, output: Path) -> Reply:
        """Read what the ended process left; AgentFailed, AgentTimedOut or AgentBusy when it did not end well."""
        usage = priced(_usage(task), self._choice.price)
        try:
            self._require_good_end(exit, output)
            return Reply(text=end_of(output, MAX_TEXT_BYTES), answer=self._answer(task, output), usage=usage)
        except ResolventError as error:
            # Paid for, whatever came of it.
            error.details["usage"] = usage.model_dump()
            raise

    def _answer(self, task: Task, output: Path) -> str | None:
        try:
            return left(task)
        except (OSError, ValueError) as error:
            message = f"agent {self.name}: its answer file cannot be used: {error}"
            raise MalformedAnswer(message, raw=end_of(output, MAX_TEXT_BYTES)) from error

    def _require_good_end(self, exit: JobExit, output: Path) -> None:
        if exit.ended and exit.exit == 0 and not exit.message:
            return
        said = last_lines(output.with_name("errors")) or last_lines(output)
        told = f"\n{said}" if said else ""
        if exit.ending in LIMITS:
            raise AgentTimedOut(
                f"agent {self.name} {LIMITS[exit.ending]} and was stopped after {exit.seconds:.0f} s{told}",
                ending=exit.ending,
            )
        how = exit.message or ("was cancelled" if exit.ending == "cancelled" else f"ended with exit {exit.exit}")
        last = "\n".join(last_lines(file, TELLING_LINES) for file in (output.with_name("errors"), output))
        passing = exit.ended and (exit.exit == COME_BACK_LATER or _PASSING.search(last))
        kind = AgentBusy if passing else AgentFailed
        raise kind(f"agent {self.name}: {how}{told}", ending=exit.ending, exit=exit.exit)


class PlainListener:
    """A program that prints what it likes: each line is text."""

    def hear(self, line: bytes) -> tuple[Moment, ...]:
        """The line as words, without what would move a terminal's cursor."""
        text = plain(line.decode(errors="replace")).rstrip()
        return (Said(text=shortened(text)),) if text else ()


def _usage_file(task: Task) -> str:
    """Another one for every turn: one that tells nothing must not be charged for the turn before it."""
    return task.answer_file.replace("answer", "usage", 1)


def _usage(task: Task) -> Usage:
    """What the agent says it spent; nothing when it says so in no sensible way, for no answer is lost over it."""
    try:
        return sensible(Usage.model_validate_json(left(task, _usage_file(task)) or "{}"))
    except (OSError, ValueError):
        return Usage()
