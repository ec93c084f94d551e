"""resolvent init: the first file."""

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resolvent.cli.options import Directory
from resolvent.cli.root import app
from resolvent.errors import ResolventError, UsageError

if TYPE_CHECKING:
    from resolvent.cli.remotes import Remote
    from resolvent.settings import Role
    from resolvent.wiring import Home


@app.command()
def init(
    force: Annotated[bool, typer.Option("--force", help="Overwrite what is there.")] = False,
    example_agent: Annotated[
        str,
        typer.Option(
            "--example-agent",
            metavar="PATH",
            help="Also write an agent to start your own from, and use it; - only prints it.",
            show_default=False,
        ),
    ] = "",
    directory: Directory = None,
) -> None:
    """Write resolvent.toml with the checks found here."""
    from resolvent.cli.place import repository

    if example_agent == "-":
        print(_example(), end="")
        return
    root = repository(directory)
    configuration = root / "resolvent.toml"
    agent = (root / example_agent) if example_agent else None
    existing = [path for path in (configuration, agent) if path is not None and os.path.lexists(path) and not force]
    if agent is not None and existing == [configuration]:
        # The file that is there is somebody's work: it gets nothing but advice.
        _write(agent, _example(), executable=True)
        print(f"wrote {agent}\nnext: say this in {configuration}, in the [agents] it has if it has one\n")
        print(_definition(example_agent))
        return
    if existing:
        raise UsageError(f"{existing[0]} exists already", hint="resolvent init --force overwrites it")
    checks = proposed_checks(root)
    if agent is not None:
        _write(agent, _example(), executable=True)
        print(f"wrote {agent}, an agent to start your own from")
    remotes = _configure(configuration, configured(checks, example_agent))
    print(f"wrote {configuration}")
    print("\n".join((*_found(root, checks, remotes), "next: resolvent doctor", *_advice(root))))


def _configure(path: Path, text: str) -> "Sequence[Remote]":
    """Write the file with the forge that the checkout came from; returns the remotes that lead to one."""
    from resolvent.cli.remotes import github_remotes, on_github
    from resolvent.places import environment

    environ = environment()
    remotes = github_remotes(path.parent, environ=environ)
    _write(path, on_github(text, remotes, environ=environ))
    return remotes


def _found(root: Path, checks: dict[str, str], remotes: "Sequence[Remote]") -> list[str]:
    """What a run would work with as it is configured now: a line each for the checks, for each role, for the forge."""
    from resolvent.places import environment
    from resolvent.wiring import Home

    proposed = ", ".join(f'{name} = "{command}"' for name, command in checks.items())
    told = [f"  checks  {proposed or 'none found: name them under [checks], for only they prove a change'}"]
    try:
        home = Home.of(root, environ=environment())
    except ResolventError as error:
        # Said in another file than the one just written.
        return [*told, f"  but     {error.message}"]
    roles: tuple[Role, ...] = ("writer", "reader")
    told += [f"  {role}  {_state(home, role)}" for role in roles]
    return [*told, *_forge(home, remotes)]


def _forge(home: "Home", remotes: "Sequence[Remote]") -> list[str]:
    said = home.settings.forge
    if said.kind == "github":
        by = f"with the token in {said.token}" if said.token else f"as the App {said.app}"
        rehearsal = "to see what a run would do there without doing it: resolvent rehearse"
        return [f"  forge   github: {said.repo}, {by}", f"          {rehearsal} {said.repo} ISSUE"]
    local = "  forge   local: issues and pull requests are kept on this machine, in the state directory"
    if not remotes:
        return [local]
    first = remotes[0]
    return [local, f"          for those of {first.repo}: {first.login_line}, then: resolvent init --force"]


def _state(home: "Home", role: "Role") -> str:
    from resolvent.settings import agent_choice

    choice = agent_choice(home.settings, role)
    try:
        home.agent(choice).ready()
    except ResolventError as error:
        return f"{choice.name}: {error.message.removeprefix(f'agent {choice.name}').lstrip(' :')}"
    return f"{choice.name}: ready"


def _advice(root: Path) -> list[str]:
    told = ["then: git add resolvent.toml && git commit  # it is for all who work here"]
    if "resolvent.local.toml" in _read(root / ".gitignore"):
        return told
    own = "what is for you alone goes into resolvent.local.toml beside it"
    return [*told, f"      echo /resolvent.local.toml >> .gitignore  # {own}"]


def configured(checks: dict[str, str], agent: str = "") -> str:
    """The template with these checks and, if one is named, this command agent in every role."""
    from resolvent.settings import template

    text = template()
    for name, command in checks.items():
        text = text.replace(f'#{name} = ""\n', f'{name} = "{command}"\n', 1)
    if agent:
        text = text.replace('#writer = "claude"', 'writer = "example"').replace(
            '#reader = "codex"', 'reader = "example"'
        )
        text = text.replace("[policy]", f"{_definition(agent, roles=False)}\n[policy]", 1)
    return text


def _definition(agent: str, *, roles: bool = True) -> str:
    from json import dumps

    # With a slash it is looked up in the repository, not in the branch an agent may edit.
    path = agent if "/" in agent else f"./{agent}"
    chosen = '[agents]\nwriter = "example"\nreader = "example"\n\n' if roles else ""
    return f'{chosen}[agents.example]\nuse = "command"\ncommand = ["python3", {dumps(path, ensure_ascii=False)}]\n'


def _example() -> str:
    from importlib.resources import files

    return files("resolvent.testing").joinpath("example_agent.py").read_text(encoding="utf-8")


def _write(path: Path, text: str, *, executable: bool = False) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A link that came with the repository must not decide what is overwritten.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o777 if executable else 0o666), "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}", hint=f"ls -ld {path.parent}") from error


def proposed_checks(root: Path) -> dict[str, str]:
    """The commands that most likely build and test what lies here; a person reads them before they are used."""
    targets = set(re.findall(r"^([A-Za-z0-9_-]+)[ \t]*:(?!=)", _read(root / "Makefile"), re.M))
    if "test" in targets or "check" in targets:
        build = {"build": "make build"} if "build" in targets else {}
        return build | {"test": "make test" if "test" in targets else "make check"}
    if (root / "Cargo.toml").is_file():
        return {"build": "cargo build", "test": "cargo test"}
    if (root / "go.mod").is_file():
        return {"build": "go build ./...", "test": "go test ./..."}
    if (root / "package.json").is_file():
        return _node_checks(root)
    if (root / "pyproject.toml").is_file() or (root / "setup.py").is_file():
        pytest = "pytest" in _read(root / "pyproject.toml") or (root / "conftest.py").is_file()
        return {"test": "python3 -m pytest -q" if pytest else "python3 -m unittest"}
    return {}


def _node_checks(root: Path) -> dict[str, str]:
    import json

    try:
        scripts = json.loads(_read(root / "package.json")).get("scripts", {})
    except (ValueError, AttributeError, RecursionError):
        return {}
    commands = {"build": "npm run build", "test": "npm test"}
    return {name: command for name, command in commands.items() if isinstance(scripts, dict) and name in scripts}


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
    except OSError:
        return ""
