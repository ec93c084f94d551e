"""A job: one supervised process, agent or check, in one branch."""

from typing import Literal

from pydantic import Field

from resolvent.domain.model import Value


class Limits(Value):
    """What a job may take; idle counts seconds without output."""

    wall_s: float = Field(default=7200.0, gt=0)
    idle_s: float | None = Field(default=None, gt=0)
    output_bytes: int = Field(default=64 << 20, gt=0)
    # Between the request to end and the kill.
    grace_s: float = Field(default=5.0, ge=0)
    # The rest binds jobs in a box: by cgroup where one was delegated to us, by rlimits and a watchdog where not.
    memory_bytes: int | None = Field(default=None, gt=0)
    disk_bytes: int | None = Field(default=None, gt=0)
    processes: int = Field(default=1024, gt=0)
    cpus: float | None = Field(default=None, gt=0)


class Files(Value):
    """What a box shows as its workspace: a stack of layers of which only the upper is written, or one plain tree."""

    # The directory of layers; `upper` and `lowers`, the topmost first, are names in it. Empty: no overlay.
    layers: str = ""
    upper: str = ""
    lowers: tuple[str, ...] = ()
    # A directory that is shown as it is.
    tree: str = ""


class Gateway(Value):
    """A way out of a box to one server: plain HTTP on the box's own loopback, and the key is put in outside."""

    port: int = Field(gt=0, lt=65536)
    # `https://host[:port]`, or `http://host:port` for a server of one's own.
    upstream: str
    # Replace whatever the program sends under these names. Their values are secret: they are never written anywhere.
    headers: dict[str, str] = {}


class Box(Value):
    """The walls around a job. Whatever is not named here is not there inside."""

    walls: Literal["namespaces", "landlock"]
    files: Files
    # Host directory with the job's HOME, TMPDIR and answer: written from both sides.
    private: str
    # Host paths the job sees at the same place, read-only and writable.
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    # The objects of the trusted repository, read-only, for the branch's own `.git` to borrow.
    objects: str = ""
    # `host:port` that may be reached; none of them: no network at all.
    network: tuple[str, ...] = ()
    gateways: tuple[Gateway, ...] = ()
    # Whom a root caller becomes, user and group alike; None: the caller itself, who is no root.
    user: int | None = None
    bwrap: str = ""
    # What is shown as /etc: certificates and a few harmless files.
    etc: str = ""
    # A container may forbid a fresh /proc; there is none then.
    proc: bool = True


class Job(Value):
    """Everything a supervisor needs; `environment` is the whole environment, nothing is inherited."""

    id: str
    argv: tuple[str, ...]
    cwd: str = ""
    # What its program needs of the host when it runs in a box: paths to read, and paths to write.
    reads: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    # `host:port` it may reach besides what every job may, and the gateways it is given; both only in a box.
    network: tuple[str, ...] = ()
    gateways: tuple[Gateway, ...] = ()
    # Values that are blotted out of whatever it prints.
    secrets: tuple[str, ...] = ()
    box: Box | None = None
    environment: dict[str, str] = {}
    # Bytes where it is no text of ours.
    stdin: str | bytes = ""
    # merged: `output` holds both; apart: `output` is standard output and `errors` beside it standard error.
    streams: Literal["merged", "apart"] = "merged"
    limits: Limits = Limits()
    # A frozen clock makes two runs comparable to the commit; None is the real time.
    frozen_at: float | None = None


Ending = Literal["exited", "wall", "idle", "output", "memory", "disk", "cancelled", "unstartable"]


class JobExit(Value):
    """How a job ended, as its supervisor recorded it; a death by signal is exit 128 + signal."""

    ending: Ending
    exit: int
    started_at: float
    ended_at: float
    seconds: float
    message: str = ""

    @property
    def ended(self) -> bool:
        """It ended by itself, not by a limit or a cancel."""
        return self.ending == "exited"


class Usage(Value):
    """What an agent says it spent; cached tokens are part of the input tokens."""

    usd: float = 0.0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(**{name: getattr(self, name) + getattr(other, name) for name in Usage.model_fields})

    def beyond(self, before: "Usage") -> "Usage":
        """What came on top of `before`: programs that go on with a session tell its whole sum."""
        return Usage(**{name: max(0, getattr(self, name) - getattr(before, name)) for name in Usage.model_fields})


class Session(Value):
    """A conversation that its program can go on with, and what it had spent in all when it was left."""

    id: str
    spent: Usage = Usage()


class Branch(Value):
    """A fork of a workspace: `commit` is the change it was made from or became."""

    id: str
    parent: str | None
    commit: str


class Kept(Value):
    """A branch as its store has it; `job` is the one that was let in last, `busy` whether it runs."""

    branch: Branch
    job: str = ""
    busy: bool = False
    created_at: float
    updated_at: float
    # How many layers it stands on, where it stands on layers.
    depth: int = 0


class Task(Value):
    """One turn asked of an agent: what the agent contract puts into its environment and prompt."""

    run: str
    step: str
    attempt: int
    turn: int
    prompt: str
    json_schema: str
    # Its HOME, TMPDIR, answer and session, one for all turns: where we find them, and where the agent does.
    directory: str
    inside: str
    # The session to go on with; None begins one.
    session: Session | None = None
    # What this turn may cost, where the program can be told.
    budget_usd: float | None = None
    # It runs in a box, with gateways. Outside of one it is given its key itself.
    boxed: bool = True
    # The name of its answer file, where the usual one would not be this turn's alone.
    answer: str = ""

    @property
    def answer_file(self) -> str:
        """The name of the file it may leave its answer in: another one for every turn."""
        if self.answer:
            return self.answer
        return "answer.json" if self.turn == 1 else f"answer.{self.turn}.json"


class Reply(Value):
    """What an agent left: the end of its output, the JSON answer if it gave one, and what this turn alone spent."""

    text: str
    answer: str | None = None
    usage: Usage = Usage()
    # What a later turn needs to go on; None where its program cannot.
    session: Session | None = None
    # What a person should know of a turn that ended well: tools that were refused, servers that did not start.
    notices: tuple[str, ...] = ()


Ability = Literal["structured", "resume", "fork", "budget", "cost", "sandbox", "cancel"]


class Abilities(Value):
    """What a program can do by itself; what it cannot, is done around it or not at all."""

    # Answers after a JSON schema, by a flag of its own.
    structured: bool = False
    # Go on with a session after the process ended, and with a copy of one.
    resume: bool = False
    fork: bool = False
    # Stop at an amount of money; tell what it spent.
    budget: bool = False
    cost: bool = False
    # Confine its own tools.
    sandbox: bool = False
    # End in good order when asked to.
    cancel: bool = False

    @property
    def names(self) -> tuple[Ability, ...]:
        """Those it has."""
        return tuple(name for name in Abilities.model_fields if getattr(self, name))  # type: ignore[misc]
