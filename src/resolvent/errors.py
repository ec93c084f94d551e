"""The error tree: an error says who must act. A verdict is never an error.

ResolventError
├── UsageError        a person changes something: exit 2, no retry
│   ├── ConfigError
│   ├── PromptError
│   ├── UnknownPlaybook
│   ├── NotFound
│   ├── SubjectTaken
│   ├── AgentMissing
│   ├── KeyRefused
│   └── NoSandbox
├── Unavailable       the world may heal: retried with backoff, then parked
│   ├── AgentBusy
│   ├── ForgeDown
│   ├── StoreBusy
│   ├── BranchBusy
│   └── DaemonRunning
├── StepFailed        this step will not succeed: the run escalates
│   ├── MalformedAnswer
│   ├── AgentFailed
│   ├── AgentTimedOut
│   ├── AgentStuck
│   ├── BudgetSpent
│   ├── JobLost
│   ├── HeadMoved
│   ├── ForgeRefused
│   ├── ExportRefused
│   └── GitError
└── Bug               an invariant broke: the run is parked, loudly
    ├── ReplayDiverged
    └── StrayEvidence
"""


class ResolventError(Exception):
    """Something happened that someone must act on; `hint` is the next command to type."""

    exit_code = 1

    def __init__(self, message: str, *, hint: str = "", **details: object) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.details = details


class UsageError(ResolventError):
    """A person has to change something."""

    exit_code = 2


class ConfigError(UsageError):
    """The configuration says something that cannot be done."""


class PromptError(UsageError):
    """A prompt file is missing or cannot be rendered."""


class UnknownPlaybook(UsageError):
    """No playbook has that name."""


class NotFound(UsageError):
    """What was named does not exist."""

    exit_code = 4


class SubjectTaken(UsageError):
    """Another run is active on this subject; `details['run']` names it."""


class AgentMissing(UsageError):
    """The program of a configured agent cannot be started."""


class KeyRefused(UsageError):
    """The model's server does not accept the key of an agent."""


class NoSandbox(UsageError):
    """Nothing on this machine can confine a job as it was asked for."""


class Unavailable(ResolventError):
    """The world may heal."""

    exit_code = 5


class AgentBusy(Unavailable):
    """The agent's program, or the model behind it, asked to be called later; `details['until']` says when, if known."""

    @property
    def until(self) -> float | None:
        """Seconds since the epoch; None when nobody said."""
        until = self.details.get("until")
        return float(until) if isinstance(until, int | float) else None


class ForgeDown(Unavailable):
    """The forge did not answer, or not with sense."""


class StoreBusy(Unavailable):
    """The store is locked, full, or away."""


class BranchBusy(Unavailable):
    """Another job runs in this branch."""


class DaemonRunning(Unavailable):
    """Another process works on this store."""


class StepFailed(ResolventError):
    """This step will not succeed."""


class MalformedAnswer(StepFailed):
    """An agent's answer does not fit, and neither did the repair; `details['raw']` keeps the text."""


class AgentFailed(StepFailed):
    """The agent's program ended with an error."""


class AgentTimedOut(StepFailed):
    """The agent ran into its wall, idle or output limit."""


class AgentStuck(StepFailed):
    """The agent did the same thing over and over."""


class BudgetSpent(StepFailed):
    """The money for this job, run or day is spent; what was done until then stands in its branch."""


class JobLost(StepFailed):
    """The supervisor of a job died with it: reboot, or out of memory."""


class HeadMoved(StepFailed):
    """Someone else moved the head that was about to be written."""


class ForgeRefused(StepFailed):
    """The forge understood and said no; `details['auth']` is set when our own token was refused."""


class ExportRefused(StepFailed):
    """What the agent left cannot become a commit."""


class GitError(StepFailed):
    """Our own git ended with an error; `details` hold its exit code and standard error."""

    stdout: bytes = b""

    @property
    def exit(self) -> int:
        """What git returned; a death by signal is negative."""
        exit = self.details.get("exit", 128)
        return exit if isinstance(exit, int) else 128

    @property
    def stderr(self) -> str:
        return str(self.details.get("stderr", ""))


class Bug(ResolventError):
    """An invariant broke."""


class ReplayDiverged(Bug):
    """A replay asked for something that the record contradicts."""


class StrayEvidence(Bug):
    """Evidence about another commit was offered."""


class Suspended(BaseException):
    """Control flow: the run waits for a person; not an error."""


class Cancelled(BaseException):
    """Control flow: a person cancelled the run; not an error."""


def classes() -> dict[str, type[ResolventError]]:
    """Every error by its name, for reading recorded ones back."""
    found: dict[str, type[ResolventError]] = {}
    todo: list[type[ResolventError]] = [ResolventError]
    while todo:
        one = todo.pop()
        found[one.__name__] = one
        todo.extend(one.__subclasses__())
    return found
