"""The workspace port against agents that attack it: their files are data, and nothing of theirs runs on the host."""

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.contract.boxed import as_somebody
from tests.contract.workspace_stage import ADAPTERS, WHEN, WHO, Node, Stage, agent, link, staged, text

from resolvent.adapters.workspace import bundles
from resolvent.adapters.workspace.files import remove_tree
from resolvent.domain.change import Change
from resolvent.domain.job import Branch
from resolvent.errors import ExportRefused, NotFound, ResolventError

BASE: dict[str | bytes, Node] = {
    "README.md": text("hello\n"),
    "src/app.py": text("print('app')\n"),
    ".gitignore": text("build/\n"),
}


@pytest.fixture(params=ADAPTERS)
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    stage = await staged(request.param, tmp_path)
    yield stage
    await stage.close()
    # The test runner's own clean-up gives up on trees as deep as these.
    remove_tree(tmp_path / "state")


@pytest.fixture
async def branch(stage: Stage) -> Branch:
    return await stage.workspace.root(await stage.commit(BASE), id="run/edit:fix@1#1")


def configure(work: Path, text: str) -> None:
    with (work / ".git/config").open("a") as config:
        config.write(text)


def plant_fsmonitor(work: Path, program: Path) -> None:
    configure(work, f"[core]\n\tfsmonitor = {program}\n")


def plant_included_fsmonitor(work: Path, program: Path) -> None:
    (work / "evil.cfg").write_text(f"[core]\n\tfsmonitor = {program}\n")
    configure(work, f"[include]\n\tpath = {work}/evil.cfg\n")


def plant_hooks(work: Path, program: Path) -> None:
    (work / ".git/hooks").mkdir()
    for hook in ("post-index-change", "pre-commit", "post-checkout", "post-commit", "reference-transaction"):
        (work / f".git/hooks/{hook}").symlink_to(program)


def plant_hooks_path(work: Path, program: Path) -> None:
    (work / "hooks").mkdir()
    (work / "hooks/post-index-change").write_text(program.read_text())
    (work / "hooks/post-index-change").chmod(0o755)
    configure(work, f"[core]\n\thooksPath = {work}/hooks\n")


def plant_filter(work: Path, program: Path) -> None:
    (work / ".gitattributes").write_text("* filter=evil diff=evil merge=evil\n")
    drivers = f'[filter "evil"]\n\tclean = {program}\n\tsmudge = {program}\n\tprocess = {program}\n\trequired\n'
    configure(work, drivers + f'[diff "evil"]\n\ttextconv = {program}\n\tcommand = {program}\n')


def plant_git_file(work: Path, program: Path) -> None:
    elsewhere = work / "build/elsewhere"
    shutil.move(work / ".git", elsewhere)
    (work / ".git").write_text(f"gitdir: {elsewhere}\n")
    (elsewhere / "config").write_text(
        f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tfsmonitor = {program}\n"
    )


def plant_git_link(work: Path, program: Path) -> None:
    elsewhere = work / "build/elsewhere"
    shutil.move(work / ".git", elsewhere)
    (work / ".git").symlink_to(elsewhere)
    with (elsewhere / "config").open("a") as config:
        config.write(f"[core]\n\tfsmonitor = {program}\n")


Attack = Callable[[Path, Path], None]
ATTACKS: list[Attack] = [
    plant_fsmonitor,
    plant_included_fsmonitor,
    plant_hooks,
    plant_hooks_path,
    plant_filter,
    plant_git_file,
    plant_git_link,
]


@pytest.mark.spec("B1")
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
async def test_nothing_an_agent_planted_ever_runs_on_the_host(
    stage: Stage, branch: Branch, attack: Attack, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = stage.plant()

    def work_on(work: Path) -> None:
        attack(work, program)
        (work / "src/app.py").write_text("print('edited')\n")

    await stage.inside(branch, work_on)
    monkeypatch.chdir(await stage.place(branch))
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change
    child = await stage.workspace.fork(branch.model_copy(update={"commit": change.commit}), id="child")
    await stage.inside(child, lambda work: (work / "src/app.py").write_text("print('again')\n"))
    again = await stage.workspace.export(child, message="m", at=1)
    assert again
    await stage.workspace.root(again, id="check")
    base = await stage.repository.change(branch.commit)
    assert "+print('again')" in await stage.repository.diff(base, again)
    await stage.repository.conflicts(again, base)
    await stage.workspace.drop(child.id)
    assert not stage.canary.exists()
    # The trap is real: git run in the branch, as we never do, springs it.
    monkeypatch.undo()
    await stage.inside(branch, lambda work: subprocess.call(["git", "add", "-A"], cwd=work, stderr=subprocess.DEVNULL))
    assert stage.canary.exists()


async def test_a_childs_repository_is_never_the_parents(stage: Stage, branch: Branch) -> None:
    program = stage.plant()
    await stage.inside(branch, lambda work: (plant_fsmonitor(work, program), plant_hooks(work, program)))
    child = await stage.workspace.fork(branch, id="child")
    assert await stage.agent(child, "git", "status", "--porcelain") == ""
    assert not await stage.inside(child, lambda work: (work / ".git/hooks").exists())
    assert not stage.canary.exists()


@pytest.mark.spec("B1")
async def test_a_private_repository_named_as_alternate_is_not_read(
    stage: Stage, branch: Branch, tmp_path: Path
) -> None:
    private = tmp_path / "private.git"
    subprocess.run(["git", "init", "-q", "--bare", private], check=True)
    secret = subprocess.run(
        ["git", f"--git-dir={private}", "hash-object", "-w", "--stdin"],
        input=b"secret",
        capture_output=True,
        check=True,
    ).stdout.strip()
    theirs = await stage.inside(branch, lambda work: (work / ".git/objects/info/alternates").read_text())

    def steal(work: Path) -> None:
        (work / ".git/objects/info/alternates").write_text(f"{private}/objects\n")
        agent(work, "git", "update-index", "--add", "--cacheinfo", f"100644,{secret.decode()},stolen")
        (work / "new.py").write_text("new")

    await stage.inside(branch, steal)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change and b"stolen" not in await stage.tree(change)
    child = await stage.workspace.fork(branch, id="child")
    borrowed = await stage.inside(child, lambda work: (work / ".git/objects/info/alternates").read_text())
    assert borrowed == theirs and theirs in (f"{stage.repository.upstream}/objects\n", "/run/objects\n")
    assert b"missing" in await stage.git("cat-file", "--batch-check", input=secret + b"\n")


@pytest.mark.parametrize("remains", ["nothing", "file", "dangling link", "fifo"])
async def test_whatever_became_of_the_agents_repository_its_files_are_exported(
    stage: Stage, branch: Branch, remains: str
) -> None:

    def ruin(work: Path) -> None:
        shutil.rmtree(work / ".git")
        if remains == "file":
            (work / ".git").write_text("gitdir: /etc\n")
        elif remains == "dangling link":
            (work / ".git").symlink_to("/nowhere")
        elif remains == "fifo":
            os.mkfifo(work / ".git")
        (work / "new.py").write_text("new")

    await stage.inside(branch, ruin)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change and set(await stage.tree(change)) == {*map(os.fsencode, BASE), b"new.py"}
    child = await stage.workspace.fork(branch, id="child")
    assert await stage.agent(child, "git", "status", "--porcelain") == "?? new.py\n"


@pytest.mark.spec("B5")
@pytest.mark.parametrize(
    "name",
    [".GIT", ".Git", "sub/.git", "sub/.gIt", "git~1", "GIT~1", ".g\u200cit", ".gi\ufefft", ".git ", ".git.", ".git. .",
     ".git::$INDEX_ALLOCATION", ".git:x", "a\\.git\\config", "sub/git~1"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["file", "directory", "link"])
async def test_names_that_pose_as_a_repository_are_refused_and_listed(
    stage: Stage, branch: Branch, name: str, kind: str
) -> None:

    def pose(work: Path) -> None:
        path = work / name
        path.parent.mkdir(exist_ok=True)
        if kind == "directory":
            path.mkdir()
            (path / "config").write_text("[core]\n")
        elif kind == "link":
            path.symlink_to("src")
        else:
            path.write_text("gitdir: /x\n")
        (work / "fine.py").write_text("fine")

    await stage.inside(branch, pose)
    with pytest.raises(ExportRefused) as caught:
        await stage.workspace.export(branch, message="m", at=1)
    assert caught.value.details["paths"] == [name]


async def test_a_repository_inside_an_ignored_directory_hinders_nobody(stage: Stage, branch: Branch) -> None:

    def build(work: Path) -> None:
        (work / "build/dep/.git").mkdir(parents=True)
        (work / "build/dep/.git/config").write_text("x")
        (work / "new.py").write_text("new")

    await stage.inside(branch, build)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change and b"new.py" in await stage.tree(change)
    assert stage.workspace.ignored(branch) == ("build/",)


ODD = [b"new\nline", b'quo"te', b"tab\t", b"back\\slash", b"not-utf8-\xff\xfe", b":(top)x", b"-rf", b" ", b"*", b"~",
       b"a: b", b"\x01\x1b[31m", b".gitx", b"git~2", b"...", "\u202egnp.exe".encode(), b"CON",
       b"d/\xc3\x28/e\n"]  # fmt: skip


async def test_names_of_any_bytes_make_the_round_trip(stage: Stage, branch: Branch) -> None:

    def write(work: Path) -> None:
        for name in ODD:
            path = os.path.join(os.fsencode(work), name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(b"in " + name)

    await stage.inside(branch, write)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change and change.tree == await stage.as_git_would(branch)
    held = await stage.tree(change)
    assert {name: held[name][1] for name in ODD} == {name: b"in " + name for name in ODD}
    check = await stage.workspace.root(change, id="check")
    assert await stage.files(check) == held
    child = await stage.workspace.fork(branch, id="child")
    assert await stage.files(child) == held
    for name in await stage.repository.changed_paths(await stage.repository.change(branch.commit), change):
        name.encode()


@pytest.mark.spec("B5")
async def test_pipes_sockets_and_devices_are_skipped_and_named(stage: Stage, branch: Branch) -> None:
    def plant(work: Path) -> list[str]:
        os.mkfifo(work / "pipe")
        (work / "src/app.py").unlink()
        os.mkfifo(work / "src/app.py")
        here = os.getcwd()
        os.chdir(work)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
        os.chdir(here)
        with suppress(PermissionError):
            os.mknod(work / "device", 0o20666, os.makedev(1, 5))
            return ["device", "pipe", "socket", "src/app.py"]
        return ["pipe", "socket", "src/app.py"]

    special = await stage.inside(branch, plant)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change and set(await stage.tree(change)) == {b"README.md", b".gitignore"}
    assert stage.workspace.ignored(branch) == tuple(special)
    child = await stage.workspace.fork(branch, id="child")
    assert set(await stage.files(child)) == {b"README.md", b".gitignore"}
    for path in special:
        with pytest.raises(NotFound):
            await stage.workspace.read(branch, path)


@pytest.mark.spec("B5")
async def test_a_directory_replaced_by_a_link_to_home_is_only_a_link(
    stage: Stage, branch: Branch, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "app.py").write_text("secret")
    (home / "id_rsa").write_text("secret")

    def plant(work: Path) -> None:
        (work / "src/app.py").unlink()
        (work / "src").rmdir()
        (work / "src").symlink_to(home)
        (work / "README.md").unlink()
        (work / "README.md").symlink_to(home / "id_rsa")

    await stage.inside(branch, plant)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change
    held = await stage.tree(change)
    assert held == {b"src": link(str(home)), b"README.md": link(str(home / "id_rsa")), b".gitignore": text("build/\n")}
    for made in (await stage.workspace.fork(branch, id="f"), await stage.workspace.root(change, id="r")):
        assert (await stage.files(made))[b"src"] == link(str(home))
        await stage.workspace.drop(made.id)
    assert sorted(entry.name for entry in home.iterdir()) == ["app.py", "id_rsa"]


def dig(top: Path, depth: int) -> None:
    """A tree so deep that no path names its end."""
    here = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = below
    os.close(os.open("end", os.O_WRONLY | os.O_CREAT, dir_fd=here))
    os.close(here)


@pytest.mark.spec("B5")
async def test_a_tree_too_deep_is_refused_and_can_still_be_removed(stage: Stage, branch: Branch) -> None:
    await stage.inside(branch, lambda work: dig(work, 3000))
    place = await stage.place(branch)
    with pytest.raises(ExportRefused, match="200 directories deep"):
        await stage.workspace.export(branch, message="m", at=1)
    if stage.adapter == "copy":
        # Over layers nobody has to walk through a parent to make a child.
        with pytest.raises(ExportRefused, match="200 directories deep"):
            await stage.workspace.fork(branch, id="child")
    await stage.workspace.drop(branch.id)
    assert not place.parent.exists()
    assert stage.leftovers() == []


async def test_a_deep_tree_in_an_ignored_directory_is_not_even_looked_at(stage: Stage, branch: Branch) -> None:

    def bury(work: Path) -> None:
        (work / "build").mkdir()
        dig(work / "build", 1000)
        (work / "new.py").write_text("new")

    await stage.inside(branch, bury)
    assert await stage.workspace.export(branch, message="m", at=1)


async def test_a_deep_but_allowed_tree_makes_the_round_trip(stage: Stage, branch: Branch) -> None:
    await stage.inside(branch, lambda work: dig(work, 199))
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change and b"/".join([b"d"] * 199 + [b"end"]) in await stage.tree(change)
    child = await stage.workspace.fork(branch, id="child")
    assert await stage.workspace.export(child, message="m", at=1) == change


async def test_a_file_too_large_is_refused_never_cut_off(stage: Stage, branch: Branch) -> None:

    def bloat(work: Path) -> None:
        with (work / "large.bin").open("wb") as file:
            file.truncate((100 << 20) + 1)

    await stage.inside(branch, bloat)
    with pytest.raises(ExportRefused, match="larger than 100 MiB") as caught:
        await stage.workspace.export(branch, message="m", at=1)
    assert caught.value.details["paths"] == ["large.bin"]


async def test_a_huge_file_of_nothing_is_copied_as_nothing(stage: Stage, branch: Branch) -> None:

    def blow_up(work: Path) -> None:
        with (work / "sparse").open("wb") as file:
            file.truncate(1 << 40)
            file.seek(1 << 39)
            file.write(b"middle")

    def find(work: Path) -> tuple[int, bool, bytes]:
        about = (work / "sparse").stat()
        with (work / "sparse").open("rb") as file:
            file.seek(1 << 39)
            return about.st_size, about.st_blocks * 512 < 1 << 20, file.read(6)

    await stage.inside(branch, blow_up)
    child = await stage.workspace.fork(branch, id="child")
    assert await stage.inside(child, find) == (1 << 40, True, b"middle")
    with pytest.raises(ExportRefused):
        await stage.workspace.read(child, "sparse")


async def test_a_setuid_bit_goes_no_further(stage: Stage, branch: Branch) -> None:
    await stage.inside(branch, lambda work: ((work / "suid").write_text("x"), (work / "suid").chmod(0o6755)))
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change and (await stage.tree(change))[b"suid"][0] == "100755"
    root = await stage.workspace.root(change, id="root")
    assert await stage.inside(root, lambda work: (work / "suid").stat().st_mode & 0o7777) == 0o755
    if stage.adapter == "copy":
        # Over layers a child has its parent's very file: no mount of it honours the bit, and the store is closed.
        child = await stage.workspace.fork(branch, id="child")
        assert await stage.inside(child, lambda work: (work / "suid").stat().st_mode & 0o7777) == 0o755


@pytest.mark.parametrize(
    "modules",
    [
        '[submodule "x"]\n\tpath = x\n\turl = -u./evil\n',
        '[submodule "../../x"]\n\tpath = x\n\turl = https://example.org/x\n',
        '[submodule "x"]\n\tpath = -x\n\turl = https://example.org/x\n',
    ],
)
async def test_what_git_itself_holds_for_an_attack_is_refused(stage: Stage, branch: Branch, modules: str) -> None:
    await stage.inside(branch, lambda work: (work / ".gitmodules").write_text(modules))
    with pytest.raises(ExportRefused, match="gitmodules"):
        await stage.workspace.export(branch, message="m", at=1)


async def test_rules_behind_a_link_are_no_rules(stage: Stage, branch: Branch) -> None:
    await stage.inside(branch, lambda work: (work / ".gitmodules").symlink_to("src/app.py"))
    with pytest.raises(ExportRefused, match="gitmodules"):
        await stage.workspace.export(branch, message="m", at=1)
    linked = await stage.commit({".gitignore": link("rules"), "rules": text("*.py\n")})
    other = await stage.workspace.root(linked, id="linked")
    await stage.inside(other, lambda work: (work / "a.py").write_text("a"))
    change = await stage.workspace.export(other, message="m", at=1)
    assert change and b"a.py" in await stage.tree(change)


async def crafted(stage: Stage, rows: str, *, within: str = "") -> Change:
    """A commit whose tree no honest git would write."""
    tree = (await stage.git("mktree", "--missing", input=rows.encode())).decode().strip()
    if within:
        tree = (await stage.git("mktree", input=f"040000 tree {tree}\t{within}\n".encode())).decode().strip()
    made = await stage.git("commit-tree", tree, "-m", "crafted", env=WHO | WHEN)
    return Change(commit=made.decode().strip(), tree=tree)


@pytest.mark.parametrize("within", ["..", ".git", ".GIT", ".", "git~1"])
async def test_a_commit_that_would_leave_its_directory_is_not_laid_out(stage: Stage, within: str) -> None:
    blob = (await stage.git("hash-object", "-w", "--stdin", input=b"owned")).decode().strip()
    change = await crafted(stage, f"100644 blob {blob}\towned\n", within=within)
    with pytest.raises(ExportRefused):
        await stage.workspace.root(change, id="r")
    assert not list(stage.state.rglob("owned"))
    assert stage.leftovers() == []


async def test_a_commit_with_a_link_and_a_directory_of_one_name_writes_through_neither(
    stage: Stage, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = (await stage.git("hash-object", "-w", "--stdin", input=str(outside).encode())).decode().strip()
    inner = (await stage.git("mktree", input=f"100644 blob {target}\towned\n".encode())).decode().strip()
    change = await crafted(stage, f"120000 blob {target}\ta\n040000 tree {inner}\ta\n")
    with pytest.raises(ResolventError):
        await stage.workspace.root(change, id="r")
    assert list(outside.iterdir()) == []


LOCKED = (("a", 0), ("locked", 0), ("deep/er", 0), ("deep", 0), ("c", 0))


def lock(work: Path, modes: tuple[tuple[str, int], ...] = LOCKED) -> None:
    for path, mode in modes:
        (work / path).chmod(mode)
    work.chmod(0)


def litter(work: Path) -> None:
    (work / "locked/new").write_text("new")
    (work / "deep/er").mkdir(parents=True)
    (work / "deep/er/x").write_text("x")
    modes = (
        ("a", 0),
        ("locked/new", 0o200),
        ("locked", 0),
        ("c/d", 0o300),
        ("c", 0o600),
        ("deep/er", 0o400),
        ("deep", 0o100),
    )
    lock(work, modes)


async def locked_out(adapter: str, directory: Path) -> None:
    stage = await staged(adapter, directory)
    base = await stage.commit({"a": text("a"), "locked/b": text("b"), "c/d": text("d")})
    branch = await stage.workspace.root(base, id="r")
    await stage.inside(branch, litter)
    change = await stage.workspace.export(branch, message="m", at=1)
    assert change, "nothing exported"
    assert set(await stage.tree(change)) == {b"a", b"locked/b", b"locked/new", b"c/d", b"deep/er/x"}
    await stage.inside(branch, lock)
    child = await stage.workspace.fork(branch, id="f")
    assert await stage.workspace.export(child, message="m", at=1) == change
    await stage.inside(branch, lock)
    assert await stage.workspace.read(branch, "deep/er/x") == b"x"
    await stage.inside(branch, lock)
    place = await stage.place(branch)
    await stage.workspace.drop("r")
    assert not os.path.lexists(place.parent)
    await stage.close()


@pytest.mark.parametrize("adapter", ADAPTERS)
def test_modes_that_lock_us_out_lock_nobody_out(adapter: str) -> None:
    # Root is never locked out.
    as_somebody(lambda directory: asyncio.run(locked_out(adapter, directory)))


@pytest.mark.spec("B16")
def test_a_bundle_is_not_fetched_through_a_link_in_the_place_of_its_directory(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / bundles.NAME).write_text("somebody else's")
    (tmp_path / "tmp").symlink_to("elsewhere")
    with pytest.raises(ExportRefused, match="cannot be read"):
        bundles._copied(tmp_path / "tmp" / bundles.NAME, tmp_path / "ours")
    assert not (tmp_path / "ours").exists()


DANGEROUS = r"""
git init -q . && echo owned > x && blob=$(git hash-object -w x)
tree=$(printf '100644 blob %s\t.git\n' $blob | git mktree)
commit=$(git -c user.name=a -c user.email=a commit-tree $tree -m mine)
git update-ref HEAD $commit && git bundle create --quiet left HEAD && echo $commit
"""


@pytest.mark.spec("B16")
async def test_commits_that_git_holds_for_an_attack_are_refused_and_not_kept(tmp_path: Path) -> None:
    stage = await staged("copy", tmp_path)
    theirs, scratch = tmp_path / "theirs", tmp_path / "scratch"
    for place in (theirs, scratch):
        place.mkdir()
    commit = agent(theirs, "sh", "-ec", DANGEROUS).strip()
    with pytest.raises(ExportRefused, match="git refuses the agent's commits"):
        await bundles.take_bundle(stage.git, theirs / "left", branch="b", scratch=scratch)
    assert await stage.git("for-each-ref", "refs/agents") == b""
    assert b"missing" in await stage.git("cat-file", "--batch-check", input=f"{commit}\n".encode())


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"# v2 git bundle\n",
        b"# v9 git bundle\n" + b"0" * 40 + b" HEAD\n\nPACK",
        b"# v2 git bundle\n" + b"0" * 40 + b" refs/heads/x\n\nPACK",
        b"# v2 git bundle\n" + b"0" * 40 + b" HEAD\n\nJUNK",
        b"# v2 git bundle\n" + b"0" * 40 + b" HEAD\n\nPACK",
    ],
)
async def test_what_only_looks_like_a_bundle_is_refused(tmp_path: Path, header: bytes) -> None:
    stage = await staged("copy", tmp_path)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    (tmp_path / "left").write_bytes(header)
    with pytest.raises(ExportRefused, match="git refuses the agent's commits"):
        await bundles.take_bundle(stage.git, tmp_path / "left", branch="b", scratch=scratch)
    assert await stage.git("for-each-ref", "refs/agents") == b""
