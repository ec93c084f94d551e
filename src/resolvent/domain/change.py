"""Changes, checks, and evidence: what one said of the other."""

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from resolvent.domain.model import Value

MAX_FILES = 64
MAX_FILE_BYTES = 1 << 20


class Change(Value):
    """An exact commit: what is judged, published and merged."""

    commit: str = Field(pattern=r"^[0-9a-f]{40,64}$")
    tree: str = Field(pattern=r"^[0-9a-f]{40,64}$")

    def __str__(self) -> str:
        return self.commit[:10]


class File(Value):
    """A file a reproducer lays over the checkout; never one that is tracked on the base."""

    path: str
    text: str

    @field_validator("path")
    @classmethod
    def inside_the_repository(cls, path: str) -> str:
        parts = path.split("/")
        if not path or path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"path must stay inside the repository: {path!r}")
        if parts[0].lower() == ".git":
            raise ValueError("path must not touch .git")
        return path


class Expect(Value):
    """How the failure must look to count as shown; empty means any failure that ran."""

    exit: int | None = Field(default=None, ge=1, le=255)
    pattern: str | None = Field(default=None, max_length=1000)
    test_id: str | None = Field(default=None, max_length=1000)

    @field_validator("pattern")
    @classmethod
    def compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"pattern is not a regular expression: {error}") from error
        return pattern


class Reproducer(Value):
    """A command that fails while the problem is there, with the files it needs."""

    command: str = Field(min_length=1, max_length=16384)
    files: tuple[File, ...] = ()
    expect: Expect = Expect()
    timeout_s: float = Field(default=300.0, gt=0, le=7200)

    @model_validator(mode="after")
    def small(self) -> "Reproducer":
        size = sum(len(file.text.encode()) for file in self.files)
        if len(self.files) > MAX_FILES or size > MAX_FILE_BYTES:
            raise ValueError(f"at most {MAX_FILES} files and {MAX_FILE_BYTES} bytes")
        return self


class Check(Value):
    """A command with a meaning."""

    name: str
    kind: Literal["build", "test", "smoke", "reproducer"]
    command: str
    files: tuple[File, ...] = ()
    expect: Expect = Expect()
    timeout_s: float = 3600.0

    @classmethod
    def reproducing(cls, reproducer: Reproducer, name: str) -> "Check":
        """The reproducer as a check with a name people can read."""
        return cls(name=name, kind="reproducer", **dict(reproducer))


Execution = Literal["SHOWN", "PASSED", "BROKEN", "FLAKY"]


class Evidence(Value):
    """What one check said of one commit. Only the engine makes it."""

    id: str
    check: Check
    on: str
    exit: int
    seconds: float
    digest: str
    log: str
    branch: str
    nth: int = 1
    execution: Execution
    signature: str = ""

    @property
    def passed(self) -> bool:
        return self.execution == "PASSED"


# A runner that could not find, import or start the test has shown nothing.
_NOTHING_RAN = re.compile(
    r"^(?:E?\s*)(?:ImportError while importing test module|ERROR collecting|collected 0 items|no tests ran|ERROR: (?:file or directory )?not found)"
    r"|Interrupted: \d+ errors? during collection|no tests ran in|^Ran 0 tests in|unittest\.loader\._FailedTest",
    re.M,
)
_VOLATILE = re.compile(r"0x[0-9a-f]+|\b\d+(?:\.\d+)?\b|(?:/[\w.@+-]+)+/")
NOT_RUNNABLE = (126, 127)


def execution_of(check: Check, *, exit: int, output: str, ended: bool) -> Execution:
    """Read one execution; `ended` is False when a limit stopped it."""
    if not ended or exit in NOT_RUNNABLE or exit < 0:
        return "BROKEN"
    if exit == 0:
        return "BROKEN" if check.kind == "reproducer" and _NOTHING_RAN.search(output) else "PASSED"
    if check.kind == "reproducer" and not _looks_as_expected(check.expect, exit, output):
        return "BROKEN"
    return "SHOWN"


def _looks_as_expected(expect: Expect, exit: int, output: str) -> bool:
    if _NOTHING_RAN.search(output):
        return False
    return (
        (expect.exit is None or expect.exit == exit)
        and (expect.pattern is None or re.search(expect.pattern, output) is not None)
        and (expect.test_id is None or expect.test_id in output)
    )


def signature_of(check: Check, *, exit: int, output: str) -> str:
    """What a failure looks like with its volatile parts taken out; equal signatures are the same failure."""
    if exit == 0:
        return ""
    matched = re.search(check.expect.pattern, output) if check.expect.pattern else None
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    telling = matched[0] if matched else (lines[-1] if lines else "")
    return f"{exit}:{_VOLATILE.sub('*', telling)}"


def agreed(executions: list[Execution]) -> Execution:
    """What several executions of one check on one commit say together."""
    return executions[0] if len(set(executions)) == 1 else "FLAKY"
