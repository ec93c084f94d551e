"""Attacks by what is left in a branch: for the export, the fork, the reading and the removal of it on the host."""

import stat
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path

from resolvent.adapters.git import Git
from resolvent.domain.change import Change, File
from resolvent.domain.job import Branch
from resolvent.errors import ExportRefused, NotFound
from resolvent.playbooks.texts import runs_elsewhere
from resolvent.testing.escape.arena import FILES, Arena, Attack
from resolvent.testing.escape.found import Found, Report, escaped, safe

DEEP = 3000
LOOK_ALIKES = (".GIT", "git~1", ".g\u200cit", ".git ", ".git.", ".git::$INDEX_ALLOCATION", ".git", "GIT~1")
LATER = (
    ".github/workflows/ci.yml", ".gitlab-ci.yml", ".husky/pre-commit", ".pre-commit-config.yaml", ".gitmodules",
    ".gitattributes", "Makefile", "package.json", "conftest.py", "setup.py", ".envrc", ".vscode/tasks.json",
    ".devcontainer/devcontainer.json", "CMakeLists.txt", "build.rs",
)  # fmt: skip


async def handled(arena: Arena, branch: Branch) -> tuple[Change | None, str]:
    """Everything the host does with a branch that an agent left: the commit it became, and why if it became none."""
    workspace, repository = arena.workspace, arena.repository
    change, why = None, ""
    try:
        change = await workspace.export(branch, message="left by an agent", at=1)
    except ExportRefused as error:
        why = error.message
    for path in (*FILES, ".git/config", ".git/HEAD", "secret-link", "pipe", "src/secret.txt", "sealed"):
        try:
            await workspace.read(branch, path)
        except (NotFound, ExportRefused):
            continue
    # A copy may be refused where layers are not; both are an answer.
    with suppress(ExportRefused):
        child = await workspace.fork(branch, id=f"{branch.id}/child")
        await workspace.export(child, message="left to its child", at=1)
    await workspace.snapshot(branch)
    await workspace.kept()
    if change:
        await repository.diff(arena.base, change)
        await repository.changed_paths(arena.base, change)
        await repository.conflicts(change, arena.base)
        again = await workspace.root(change, id=f"{branch.id}/again")
        await removed(arena, again.id)
    await removed(arena, f"{branch.id}/child")
    return change, why


async def removed(arena: Arena, branch: str) -> str | None:
    """Remove a branch with its work kept; where that cannot become a commit, without."""
    try:
        return await arena.workspace.delete(branch)
    except ExportRefused:
        await arena.workspace.drop(branch)
        return None


async def leaked(arena: Arena, *secrets: str) -> list[str]:
    """Objects of the trusted repository that hold one of these texts."""
    said = await Git(arena.repository.path)("cat-file", "--batch-all-objects", "--batch", "--buffer")
    return [secret for secret in secrets if secret.encode() in said]


async def plant_links(arena: Arena) -> Found:
    """Lead the export, the reading and the removal out of the branch by links."""
    given = {"secret": str(arena.secret_file), "directory": str(arena.outside / "treasure")}
    report = await arena.attack("links", given)
    for path in ("src/laid.py", "notes/inner/laid.py", "secret-link"):
        # What a reproducer needs is laid over the branch before its check.
        with suppress(ExportRefused):
            await arena.workspace.lay(report.branch, [File(path=path, text="laid")], base=arena.base)
    change, why = await handled(arena, report.branch)
    for path in ("secret-link", "secret-relative", "src/secret.txt", "notes/inner/secret.txt", "README.md"):
        if await _readable(arena, report.branch, path):
            return escaped(f"{path} was followed")
    await removed(arena, report.branch.id)
    if report.said["link"] == "done" or await leaked(arena, arena.secret):
        return escaped("a secret of the host became an object")
    kept = {
        path.relative_to(arena.outside).as_posix(): path.read_text() for path in arena.outside.glob("**/secret.txt")
    }
    if set(kept.values()) != {arena.secret} or len(kept) != 2 or (arena.outside / "treasure/laid.py").exists():
        return escaped("writing or removing went through a link")
    modes = await _modes(arena, change) if change else {}
    if change and {modes.get(path, "") for path in ("secret-link", "src", "README.md")} != {"120000"}:
        return escaped(f"links became {modes}")
    return safe(why or "stored as links, a second name is refused: " + report.said["link"])


async def plant_specials(arena: Arena) -> Found:
    """Make the host wait at a pipe, or talk to a device."""
    report = await arena.attack("specials")
    # Without an overlay the mark of a gap is a mere device that is none.
    harmless = ("socket",) if arena.rung.overlay else ("socket", "whiteout")
    made = [name for name, came in report.said.items() if came == "done" and name not in harmless]
    change, why = await handled(arena, report.branch)
    await removed(arena, report.branch.id)
    if made:
        return escaped(f"made {', '.join(made)}")
    modes = await _modes(arena, change) if change else {}
    if modes.keys() & {"pipe", "socket", "memory", "disk", "README.md"}:
        return escaped(f"a pipe became a file: {modes}")
    return safe(why or "left out of the commit")


async def plant_unreadable(arena: Arena) -> Found:
    """Stop the export and the removal by directories that nobody may look into."""
    report = await arena.attack("locked")
    _, why = await handled(arena, report.branch)
    await removed(arena, report.branch.id)
    return await _gone(arena, report, why or "exported")


async def plant_deep(arena: Arena) -> Found:
    """Stop the export and the removal by a tree that no recursion survives."""
    report = await arena.attack("deep", {"levels": DEEP})
    _, why = await handled(arena, report.branch)
    await removed(arena, report.branch.id)
    return await _gone(arena, report, why[:60] or "exported")


async def _gone(arena: Arena, report: Report, how: str) -> Found:
    """The branch is removed, whatever is in it."""
    left = [kept.branch.id for kept in await arena.workspace.kept() if kept.branch.id == report.branch.id]
    return escaped(f"{left[0]} cannot be removed") if left else safe(f"{how}; removed")


async def odd_names(arena: Arena) -> Found:
    """Say something in names that a program could take for an order."""
    report = await arena.attack("odd_names")
    change, why = await handled(arena, report.branch)
    await removed(arena, report.branch.id)
    if change is None:
        return escaped(f"nothing was exported: {why}")
    listed = await Git(arena.repository.path)("ls-tree", "-r", "-z", "--name-only", "--full-tree", change.commit)
    wanted = {b"odd/" + bytes.fromhex(name) for name in report.said} | {path.encode() for path in FILES}
    found = set(listed.split(b"\0")[:-1])
    return safe(f"{len(report.said)} names came back byte by byte") if found == wanted else escaped(f"{found ^ wanted}")


async def pose_as_git(arena: Arena) -> Found:
    """Have directories exported that some file system takes for a repository."""
    canary = arena.canary("posed")
    given = {"names": LOOK_ALIKES, "command": f"touch '{canary}'"}
    report = await arena.attack("pose_as_git", given)
    change, why = await handled(arena, report.branch)
    await removed(arena, report.branch.id)
    if change or canary.exists():
        return escaped(f"{sorted(await _modes(arena, change))} became a commit" if change else "it was obeyed")
    silent = [name for name in LOOK_ALIKES if f"{name}'"[1:-1] not in why and ascii(name)[2:-1] not in why]
    return escaped(f"{silent} left out silently") if silent else safe(f"{len(LOOK_ALIKES)} refused by name")


async def plant_set_id(arena: Arena) -> Found:
    """Leave a program that gives the box's user to whoever starts it."""
    report = await arena.attack("set_ids")
    change, _ = await handled(arena, report.branch)
    modes = await _modes(arena, change) if change else {}
    open_ways = [str(place) for place in (Path(arena.rung.sandbox), arena.home.state) if _mode(place) & 0o077]
    await removed(arena, report.branch.id)
    if open_ways or modes.get("root-shell") != "100755":
        return escaped(f"stored {modes.get('root-shell')}; others may enter {', '.join(open_ways)}")
    return safe("stored 100755, and the store is 0700")


async def forge_overlay(arena: Arena) -> Found:
    """Speak to the overlay in its own marks, so that the next mount or the export shows another file."""
    report = await arena.attack("forge_overlay", {"secret": str(arena.secret_file)})
    child = await arena.workspace.fork(report.branch, id=f"{report.branch.id}/heir")
    seen = (await arena.attack("survey", branch=child)).said
    change, why = await handled(arena, report.branch)
    modes = await _modes(arena, change) if change else {}
    await removed(arena, child.id)
    await removed(arena, report.branch.id)
    if await leaked(arena, arena.secret):
        return escaped("a secret of the host became an object")
    missing = [path for path in FILES if f"./{path}" not in seen or (change and path not in modes)]
    said = ", ".join(dict.fromkeys(report.said.values()))
    return escaped(f"{missing} vanished: {why}") if missing else safe(f"inert ({said})")


async def runs_later(arena: Arena, *, asked: bool) -> Found:
    """Leave what somebody runs some day: nothing can stop that but a person who sees it."""
    paths = [path for path in LATER if runs_elsewhere(path) is asked]
    report = await arena.attack("later", {"paths": paths})
    change = await arena.workspace.export(report.branch, message="runs later", at=1)
    shown = await arena.repository.changed_paths(arena.base, change) if change else ()
    missing = [path for path in paths if path not in shown]
    if missing:
        return escaped(f"not among the changed paths: {', '.join(missing)}")
    how = "a person is asked before it is pushed" if asked else "in the diff only, nobody is asked"
    return Found("FLAGGED", f"{how}: {', '.join(paths)}")


async def _modes(arena: Arena, change: Change) -> dict[str, str]:
    said = await Git(arena.repository.path)("ls-tree", "-r", "-z", "--full-tree", change.commit)
    rows: Iterable[bytes] = said.split(b"\0")[:-1]
    return {row.partition(b"\t")[2].decode(errors="replace"): row.split(b" ")[0].decode() for row in rows}


async def _readable(arena: Arena, branch: Branch, path: str) -> bool:
    try:
        return arena.secret.encode() in await arena.workspace.read(branch, path)
    except (NotFound, ExportRefused):
        return False


def _mode(place: Path) -> int:
    return stat.S_IMODE(place.stat().st_mode)


DATA = "read as data: no link is followed, nothing is waited for"
ATTACKS = (
    Attack("links and directories that lead to secrets", DATA, plant_links),
    Attack("pipes, sockets and devices in the tree", DATA, plant_specials),
    Attack("directories of mode 000", "export and removal open them first", plant_unreadable),
    Attack(f"a tree {DEEP} directories deep", "depth is capped; removal needs no recursion", plant_deep),
    Attack("names with newlines, quotes, orders", "names are bytes; no text is parsed", odd_names),
    Attack("look-alikes of .git", "refused loudly, by the rules of git itself", pose_as_git),
    Attack("setuid programs", "store 0700, nosuid mount, git keeps no such bit", plant_set_id),
    Attack("forged user.overlay.* attributes", "the kernel escapes them; nothing else believes them", forge_overlay),
    Attack("CI files and hooks that run later", "a person decides", partial(runs_later, asked=True)),
    Attack("build files that run later", "a person reads the diff", partial(runs_later, asked=False)),
)
