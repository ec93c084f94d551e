"""Changes, checks, and evidence: what one said of the other."""

import re
from collections.abc import Sequence
from typing import Literal

from pydantic import Field, field_validator, model_validator
from pydantic_core import SchemaError, SchemaValidator, core_schema

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
        if any(part in ("", ".", "..") for part in parts):
            raise ValueError(f"path must stay inside the repository: {path!r}")
        if any(part.lower() == ".git" for part in parts):
            raise ValueError("path must not touch .git")
        if not path.isprintable() or any(len(part.encode()) > 255 for part in parts) or len(path.encode()) > 4000:
            raise ValueError("path must be printable and no longer than a file system takes")
        return path

    @field_validator("text")
    @classmethod
    def is_text(cls, text: str) -> str:
        if "\0" in text:
            raise ValueError("text must not hold NUL characters")
        return text


def _finder(pattern: str) -> SchemaValidator:
    # Agents write patterns: this engine takes linear time where `re` can be made to run for ever.
    return SchemaValidator(core_schema.str_schema(pattern=pattern))


class Expect(Value):
    """How the failure must look to count as shown; empty means any failure that ran."""

    exit: int | None = Field(default=None, ge=1, le=255)
    pattern: str | None = Field(
        default=None, max_length=1000, description="a regular expression without look-around and back-references"
    )
    test_id: str | None = Field(default=None, max_length=1000)

    @field_validator("pattern")
    @classmethod
    def compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                _finder(pattern)
            except SchemaError as error:
                why = " ".join(str(error).rpartition("SchemaError:")[2].split())
                raise ValueError(f"pattern is not a regular expression we run: {why}") from error
        return pattern


class Reproducer(Value):
    """A command that fails while the problem is there, with the files it needs."""

    command: str = Field(min_length=1, max_length=16384)
    files: tuple[File, ...] = ()
    expect: Expect = Expect()
    timeout_s: float = Field(default=300.0, gt=0, le=7200)

    @field_validator("command")
    @classmethod
    def runs_something(cls, command: str) -> str:
        if "\0" in command or not command.strip():
            raise ValueError("command must hold something to run, and no NUL character")
        return command

    @model_validator(mode="after")
    def small(self) -> "Reproducer":
        size = sum(len(file.text.encode()) for file in self.files)
        if len(self.files) > MAX_FILES or size > MAX_FILE_BYTES:
            raise ValueError(f"at most {MAX_FILES} files and {MAX_FILE_BYTES} bytes")
        paths = [file.path for file in self.files]
        if len(set(paths)) != len(paths) or any(one.startswith(f"{other}/") for one in paths for other in paths):
            raise ValueError("each path once, and none below another file")
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
    # Whether it executed one of the lines that were watched; empty when none were.
    reached: Literal["", "yes", "no", "unknown"] = ""
    # The end of what it printed, recorded so that a replay can quote it.
    tail: str = ""

    @property
    def passed(self) -> bool:
        return self.execution == "PASSED"


# A runner that could not find, import or start the test has shown nothing.
_NOTHING_RAN = re.compile(
    r"^(?:E[ \t]+)?ImportError while (?:importing test module|loading conftest)"
    r"|^_+ ERROR collecting |^collected 0 items|^collected \d+ items?[^\n]* / 0 selected|^=* ?\d+ deselected in "
    r"|^ERROR: (?:file or directory )?not found|Interrupted: \d+ errors? during collection|no tests ran in"
    r"|^Ran 0 tests in|unittest\.loader\._FailedTest|^No tests found, exiting with code"
    r"|^\S*python[\d.]*: (?:No module named|can't open file|Error while finding module)",
    re.M,
)
_NOT_IMPORTED = re.compile(r"(?:ImportError|ModuleNotFoundError)\b")
_TELLING = re.compile(
    r"E[ \t]|FAILED |FAIL: |ERROR: |--- FAIL|not ok |thread '[^']*' panicked|[\w.]*(?:Error|Exception|Failure)\b"
)
_VOLATILE = re.compile(r"0x[0-9a-f]+|\b\d+(?:\.\d+)?\b|(?:/[\w.@+-]+)+/")
_TELLING_LINES, _TELLING_CHARACTERS = 20, 300
NOT_RUNNABLE = (126, 127)


def execution_of(check: Check, *, exit: int, output: str, ended: bool) -> Execution:
    """Read one execution; `ended` is False when a limit stopped it."""
    if not ended or exit in NOT_RUNNABLE or exit < 0:
        return "BROKEN"
    if check.kind == "reproducer" and _NOTHING_RAN.search(output):
        return "BROKEN"
    if exit == 0:
        return "PASSED"
    return "SHOWN" if check.kind != "reproducer" or _looks_as_expected(check.expect, exit, output) else "BROKEN"


def _looks_as_expected(expect: Expect, exit: int, output: str) -> bool:
    last = output.rstrip().rpartition("\n")[2]
    imported = not _NOT_IMPORTED.match(last)
    # An import that failed ran nothing, unless that is the very failure the pattern speaks of.
    shown = output if imported else last
    return (
        (expect.exit is None or expect.exit == exit)
        and (imported if expect.pattern is None else _finder(expect.pattern).isinstance_python(shown))
        and (expect.test_id is None or expect.test_id in output)
    )


def signature_of(check: Check, *, exit: int, output: str) -> str:
    """What a failure looks like with its volatile parts taken out; equal signatures are the same failure."""
    if exit == 0:
        return ""
    lines = [line.strip()[:_TELLING_CHARACTERS] for line in output.splitlines() if line.strip()]
    finder = _finder(check.expect.pattern) if check.expect.pattern else None
    telling = [line for line in lines if finder and finder.isinstance_python(line)]
    telling = telling or [line for line in lines if _TELLING.match(line)] or lines[-1:]
    kept = list(dict.fromkeys(_VOLATILE.sub("*", line) for line in telling))[:_TELLING_LINES]
    return f"{exit}:" + "\n".join(kept)


def agreed(executions: list[Execution]) -> Execution:
    """What several executions of one check on one commit say together."""
    return executions[0] if len(set(executions)) == 1 else "FLAKY"


def summed(evidence: Sequence[Evidence]) -> Evidence:
    """Several executions of one check on one commit as one: the first, with what they say together."""
    return evidence[0].model_copy(update={"execution": agreed([item.execution for item in evidence])})
