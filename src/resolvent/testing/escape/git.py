"""Traps for git on the host: planted in a branch from inside, before the host does all that it does with branches."""

import subprocess
from functools import partial
from pathlib import Path

from resolvent.adapters.git import Git
from resolvent.testing.escape.arena import Arena, Attack
from resolvent.testing.escape.found import Found, escaped, safe
from resolvent.testing.escape.leaving import handled, leaked, removed

PLANTS = {
    "fsmonitor": "core.fsmonitor",
    "include": "include.path",
    "git_file": "a .git file that leads elsewhere",
    "git_link": "a .git link that leads elsewhere",
    "submodule": "a gitlink with a repository of its own",
    "hooks": "hooks",
    "hooks_path": "core.hooksPath",
    "filter": "filter.X.clean and smudge with .gitattributes",
    "filter_process": "filter.X.process with .gitattributes",
    "textconv": "diff.X.textconv",
    "diff_command": "diff.X.command",
    "diff_external": "diff.external",
    "merge_driver": "merge.X.driver",
    "gpg": "gpg.program and log.showSignature",
    "hidden_repository": "a bare repository hidden among the files",
}

# What a person types to see and to take what an agent did.
BEFORE = (
    ("status",), ("diff",), ("add", "-A"), ("commit", "-m", "agent's"), ("log", "-p", "--show-signature"),
    ("tag", "theirs"), ("checkout", "-b", "mine", "HEAD~1"), ("checkout", "theirs", "--", ".gitattributes"),
)  # fmt: skip
AFTER = (("commit", "-a", "-m", "mine"), ("merge", "theirs"), ("status",))


async def spring(arena: Arena, *, kind: str) -> Found:
    """Plant one trap and do everything with the branch; whoever runs the command leaves a canary."""
    canary = arena.canary(f"git-{kind}")
    report = await arena.attack("plant", {"kind": kind, "command": f"touch '{canary}'"})
    said = report.said
    change, why = await handled(arena, report.branch)
    rescued = await removed(arena, report.branch.id)
    if canary.exists():
        return escaped(f"{said} ran on the host")
    return safe(f"exported {change}, nothing ran" if change else f"refused: {why[:60]}; {rescued or 'no rescue'}")


async def borrow_private_objects(arena: Arena) -> Found:
    """Name a private repository of the host as the place where objects lie."""
    private, oid = await private_repository(arena)
    report = await arena.attack("plant", {"kind": "alternates", "command": "", "private": str(private)})
    change, _ = await handled(arena, report.branch)
    await removed(arena, report.branch.id)
    known = await Git(arena.repository.path)("cat-file", "--batch-check", input=f"{oid}\n".encode())
    if b"missing" not in known or await leaked(arena, arena.secret):
        return escaped("a private blob is in the trusted repository")
    return safe(f"exported {change}, the private blob is unknown")


async def private_repository(arena: Arena) -> tuple[Path, str]:
    """A repository of the user with a secret in it, and the name of the secret's object."""
    place = arena.outside / "private.git"
    git = await Git.init_bare(place)
    oid = await git("hash-object", "-w", "--stdin", input=arena.secret.encode())
    return place, oid.decode().strip()


def careless_git(tree: Path, objects: Path) -> None:
    """What nobody should do: run git, as it is, on a copy of what an agent left."""
    alternates = tree / ".git/objects/info/alternates"
    if alternates.is_file():
        alternates.write_text(f"{objects}\n")
    for words in BEFORE:
        _plain_git(tree, *words)
    # Two that changed the same line: now git asks for somebody who merges.
    (tree / "value.txt").write_text("changed by the person\n")
    for words in AFTER:
        _plain_git(tree, *words)


def _plain_git(tree: Path, *words: str) -> None:
    me = ("-c", "safe.directory=*", "-c", "user.name=Me", "-c", "user.email=me@localhost")
    subprocess.run(("git", *me, *words), cwd=tree, check=False, capture_output=True, stdin=subprocess.DEVNULL)


DEFENCE = "no git of the host reads an agent's .git"
ATTACKS = (
    *(Attack(f"git: {name}", DEFENCE, partial(spring, kind=kind)) for kind, name in PLANTS.items()),
    Attack("git: alternates that name a private repository", DEFENCE, borrow_private_objects),
)
