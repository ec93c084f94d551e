"""Files that say how a project is built, tested and checked, read line by line as keys with items."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from resolvent.domain.integrity.kinds import is_test, language, suffix

_NAMES = frozenset(
    (
        ".gitlab-ci.yml", ".travis.yml", "azure-pipelines.yml", "jenkinsfile", "makefile", "gnumakefile", "justfile",
        "taskfile.yml", "tox.ini", "noxfile.py", "setup.cfg", "pyproject.toml", "pytest.ini", ".coveragerc", "mypy.ini",
        "codecov.yml", ".codecov.yml", "package.json", "cargo.toml", "clippy.toml", ".golangci.yml", ".golangci.yaml",
        ".pre-commit-config.yaml", "resolvent.toml", ".flake8", "ruff.toml", ".ruff.toml", ".pylintrc", "pylintrc",
        "pom.xml", "build.gradle", "build.gradle.kts", ".nycrc", ".nycrc.json", "biome.json", "lefthook.yml",
        "deno.json",
        ".eslintignore", "pyrightconfig.json", "codecov.yaml", ".bazelrc", "turbo.json", ".shellcheckrc", ".rspec",
        "bitbucket-pipelines.yml", ".drone.yml", "appveyor.yml", "cloudbuild.yaml", ".pytest.ini", "conftest.toml",
    )
)  # fmt: skip
_STARTS = (
    "jest.config.", "vitest.config.", "vite.config.", ".eslintrc", "eslint.config.", "tsconfig", ".mocharc",
    "karma.conf", "playwright.config.", "cypress.config.", ".prettierrc", ".babelrc", "vitest.workspace.", "jest.setup",
)  # fmt: skip
_PLACES = (".github/workflows/", ".github/actions/", ".circleci/", ".buildkite/", ".gitlab/", ".husky/")
# What `make` and its like read; a GNUmakefile takes the place of every other.
_LISTS = (
    "makefile", "gnumakefile", "justfile", ".justfile", "taskfile.yml", "taskfile.yaml", "taskfile.dist.yml",
    ".pre-commit-config.yaml", "resolvent.toml",
)  # fmt: skip
_WORD = re.compile(r"[\w./@+-]+")
_JUDGING = frozenset(("test", "tests", "runtests", "check", "checks", "ci", "lint", "verify", "validate"))
_KEY = re.compile(r"[-\s]{0,40}[\"']?([\w.$/@-]{1,80})[\"']?\s{0,40}(?::|=|\+=)(?![=>])(.*)", re.S)


class Item(NamedTuple):
    """One thing said in a line: under which key, and the line it stands in."""

    key: str
    value: str
    line: int
    text: str


def is_build(path: str) -> bool:
    """Whether a file decides what is run to judge a change."""
    name = path.rpartition("/")[2].lower()
    named = name in _NAMES or name.startswith(_STARTS) or name.endswith(".mk")
    return named or path.startswith(_PLACES) or f"/{path}".find("/.github/") >= 0


def is_ci(path: str) -> bool:
    """Whether a file is a pipeline or a list of commands, not the settings of a tool."""
    name = path.rpartition("/")[2].lower()
    pipeline = (
        path.startswith(_PLACES) or ".github/" in path or name.startswith((".gitlab", ".travis", "azure", "jenk"))
    )
    return pipeline or name in _LISTS or name.endswith(".mk")


def runners(commands: Iterable[str], paths: Iterable[str]) -> set[str]:
    """Those of the paths that are scripts which these commands run to judge a change, as their names say."""
    words = {word.removeprefix("./") for command in commands for word in _WORD.findall(command)}
    return {path for path in paths if _judges(path) and any(f"/{path}".endswith(f"/{word}") for word in words)}


def _judges(path: str) -> bool:
    if language(path) != "shell" and suffix(path):
        return False
    stem = path.rpartition("/")[2].lower().partition(".")[0]
    return is_test(path) or bool(_JUDGING & set(re.split("[-_]", stem)))


def code_of(raw: str) -> str:
    """A line without its comment."""
    quote = ""
    for at, char in enumerate(raw):
        if quote:
            quote = "" if char == quote else quote
        elif char in "'\"":
            quote = char
        elif (char == "#" or raw.startswith("//", at)) and (at == 0 or raw[at - 1] in " \t"):
            return raw[:at].rstrip()
    return raw.rstrip()


def items(text: str) -> Iterator[Item]:
    """What is said under which key; a line that names no key goes on with the one before."""
    key = section = ""
    for number, raw in enumerate(text.splitlines(), 1):
        line = code_of(raw)
        if not line.strip():
            continue
        if line.strip().startswith("[") and line.endswith("]") and "=" not in line and "," not in line:
            key = section = line.strip("[] \t").rpartition(".")[2]
            continue
        match = _KEY.match(line[:4000])
        rest = line
        # Where files are named on the left, they are what is said, and no key.
        if match and not (section in _MAPS or (key in _MAPS and line[:1].isspace())):
            key, rest = match[1], match[2]
        for value in _values(rest):
            yield Item(key, value, number, raw.strip())


_MAPS = frozenset(("per-file-ignores", "extend-per-file-ignores"))


def _values(rest: str) -> list[str]:
    parts = rest.replace("[", ",").replace("]", ",").replace("{", ",").replace("}", ",").split(",")
    found = [part.strip().lstrip("-").strip().strip("\"'`").strip() for part in parts]
    return [part for part in found if part.strip("|>();")]
