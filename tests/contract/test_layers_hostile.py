"""Layers that attack whoever reads them: they are data, and what cannot be read so is refused or left out by name."""

import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.contract.layers_stage import Bench, KernelBench, Node, kernel_bench, walk
from tests.contract.overlay_stage import Op

from resolvent.adapters.workspace.files import remove_tree
from resolvent.adapters.workspace.squash import squash
from resolvent.adapters.workspace.view import OPAQUE, WHITEOUT, View
from resolvent.errors import ExportRefused, NotFound

BASE: dict[bytes, Node] = {
    b"README.md": ("100644", b"hello\n"),
    b"src/app.py": ("100644", b"app\n"),
    b"src/deep/er/x.py": ("100644", b"x\n"),
    b".gitignore": ("100644", b"build/\n"),
}


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    yield Bench(tmp_path)
    # The test runner's own clean-up gives up on trees as deep as some of these.
    remove_tree(tmp_path)


@pytest.fixture
def base(bench: Bench) -> str:
    return bench.commit(BASE)


@pytest.fixture
def up(tmp_path: Path) -> Path:
    """The one layer over the tree of BASE."""
    up = tmp_path / "up"
    up.mkdir()
    return up


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[KernelBench]:
    with kernel_bench(tmp_path) as bench:
        yield bench


def laid(top: Path, files: dict[bytes, Node]) -> Path:
    """Files as a layer of ours holds them."""
    for path, (mode, content) in files.items():
        place = top / os.fsdecode(path)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content)
        place.chmod(int(mode[3:], 8))
    return top


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


def test_pipes_sockets_and_devices_are_left_out_by_name(
    bench: Bench, base: str, up: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(up / "pipe")
    (up / "src").mkdir()
    os.mkfifo(up / "src/app.py")
    monkeypatch.chdir(up)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("socket")
    special = ["pipe", "socket", "src/app.py"]
    if os.geteuid() == 0:
        os.mknod(up / "device", 0o20666, os.makedev(1, 5))
        special.insert(0, "device")
    exported = bench.export(up, base=base)
    assert exported.skipped == tuple(special)
    assert exported.change and set(bench.tree(exported.change.commit)) == BASE.keys() - {b"src/app.py"}
    view = View([up])
    assert [node.path.decode() for node in walk(view) if node.kind == "other"] == special
    assert view.open(b"pipe") is None and view.open(b"src/app.py") is None


def test_a_setuid_bit_goes_no_further_than_the_layer(bench: Bench, base: str, up: Path) -> None:
    (up / "suid").write_text("x")
    (up / "suid").chmod(0o6755)
    exported = bench.export(up, base=base)
    assert exported.change and bench.tree(exported.change.commit)[b"suid"] == ("100755", b"x")


def test_a_tree_too_deep_is_refused_by_everyone(bench: Bench, base: str, up: Path, tmp_path: Path) -> None:
    dig(up, 3000)
    (tmp_path / "one").mkdir()
    with pytest.raises(ExportRefused, match="200 directories deep"):
        bench.export(up, base=base)
    with pytest.raises(ExportRefused, match="200 directories deep"):
        squash([up], tmp_path / "one")
    with pytest.raises(ExportRefused, match="200 directories deep"):
        list(walk(View([up])))
    assert View([up]).find(b"/".join([b"d"] * 3000)) is None


def test_a_deep_tree_in_an_ignored_directory_hinders_nobody(bench: Bench, base: str, up: Path) -> None:
    (up / "build").mkdir()
    dig(up / "build", 1000)
    assert bench.export(up, base=base) == (None, ("build/",))


def test_a_deep_but_allowed_tree_is_exported_and_squashed(bench: Bench, base: str, up: Path, tmp_path: Path) -> None:
    dig(up, 200)
    (tmp_path / "one").mkdir()
    squash([up], tmp_path / "one")
    exported = bench.export(up, base=base)
    assert exported.change and b"d/" * 200 + b"end" in bench.tree(exported.change.commit)
    assert bench.export(tmp_path / "one", base=base) == exported


def test_many_deep_layers_need_few_descriptors(bench: Bench, base: str, tmp_path: Path) -> None:
    layers = [tmp_path / f"layer{number}" for number in range(40)]
    for layer in layers:
        layer.mkdir()
        dig(layer, 25)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    spent = len(os.listdir("/proc/self/fd"))
    resource.setrlimit(resource.RLIMIT_NOFILE, (spent + 20, hard))
    try:
        assert bench.export(*layers, base=base).change
        view = View(layers)
        fd = view.open(b"d/" * 25 + b"end")
        assert fd is not None
        os.close(fd)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert len(os.listdir("/proc/self/fd")) == spent


ODD = [b"new\nline", b'quo"te', b"tab\t", b"back\\slash", b"not-utf8-\xff\xfe", b":(top)x", b"-rf", b" ", b"*", b"~",
       b"\x01\x1b[31m", b".gitx", b"git~2", b"...", "\u202egnp.exe".encode(), b"d/\xc3\x28/\n", b"x" * 255]  # fmt: skip


def test_names_of_any_bytes_make_the_round_trip(bench: Bench, base: str, up: Path, tmp_path: Path) -> None:
    laid(up, {name: ("100644", b"in " + name) for name in ODD})
    exported = bench.export(up, base=base)
    assert exported.change
    assert bench.tree(exported.change.commit) == BASE | {name: ("100644", b"in " + name) for name in ODD}
    (tmp_path / "one").mkdir()
    squash([up], tmp_path / "one")
    assert bench.export(tmp_path / "one", base=base) == exported


def test_a_link_to_a_secret_is_only_a_link(bench: Bench, base: str, up: Path, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (up / "README.md").symlink_to(tmp_path / "secret")
    view = View([up, laid(tmp_path / "tree", BASE)])
    assert view.open(b"README.md") is None
    exported = bench.export(up, base=base)
    target = os.fsencode(tmp_path / "secret")
    assert exported.change and bench.tree(exported.change.commit)[b"README.md"] == ("120000", target)


def test_a_directory_that_became_a_link_leads_nowhere(bench: Bench, base: str, up: Path, tmp_path: Path) -> None:
    home = laid(tmp_path / "home", {b"app.py": ("100644", b"secret"), b"deep/er/x.py": ("100644", b"secret")})
    (up / "src").symlink_to(home)
    view = View([up, laid(tmp_path / "tree", BASE)])
    for path in (b"src/app.py", b"src/deep", b"src/deep/er/x.py"):
        assert view.find(path) is None and view.open(path) is None
    exported = bench.export(up, base=base)
    assert exported.change
    held = bench.tree(exported.change.commit)
    assert held.keys() == {b"README.md", b".gitignore", b"src"} and held[b"src"] == ("120000", os.fsencode(home))


@pytest.mark.parametrize("path", [b"", b"/", b"..", b"../up/x", b"src/../x", b"./x", b"/etc/passwd", b"x\0y", b"x/",
                                  b"x" * 300, b"x/y", b"/".join([b"d"] * 5000)])  # fmt: skip
def test_a_path_that_is_none_shows_nothing(up: Path, path: bytes) -> None:
    (up / "x").write_text("x")
    assert View([up]).find(path) is None and View([up]).open(path) is None


def test_a_layer_that_became_a_link_is_refused(bench: Bench, base: str, up: Path, tmp_path: Path) -> None:
    up.rename(tmp_path / "moved")
    with pytest.raises(ExportRefused, match="gone"):
        bench.export(up, base=base)
    up.symlink_to(tmp_path / "moved")
    with pytest.raises(ExportRefused, match="gone"):
        bench.export(up, base=base)


@pytest.mark.parametrize("name", [".GIT", "src/.git", "git~1", ".g\u200cit", ".git ", ".git::$INDEX_ALLOCATION",
                                  "a\\.git\\config"])  # fmt: skip
@pytest.mark.parametrize("kind", ["file", "directory", "link"])
def test_what_poses_as_a_repository_is_refused_and_listed(
    bench: Bench, base: str, up: Path, name: str, kind: str
) -> None:
    (up / name).parent.mkdir(exist_ok=True)
    if kind == "directory":
        (up / name).mkdir()
    elif kind == "link":
        (up / name).symlink_to("src")
    else:
        (up / name).write_text("gitdir: /x\n")
    (up / "fine.py").write_text("fine")
    with pytest.raises(ExportRefused) as caught:
        bench.export(up, base=base)
    assert caught.value.details["paths"] == [name]


@pytest.mark.parametrize("remains", ["directory", "file", "link", "fifo", "whiteout"])
def test_whatever_became_of_the_agents_own_repository_is_not_looked_at(
    bench: Bench, base: str, up: Path, remains: str
) -> None:
    git = up / ".git"
    if remains == "directory":
        git.mkdir()
        dig(git, 300)
    elif remains == "file":
        git.write_text("gitdir: /etc\n")
    elif remains == "link":
        git.symlink_to("/nowhere")
    elif remains == "fifo":
        os.mkfifo(git)
    else:
        os.mknod(git, 0o20000, 0)
    assert bench.export(up, base=base) == (None, ())


def test_a_repository_in_an_ignored_directory_hinders_nobody(bench: Bench, base: str, up: Path) -> None:
    laid(up, {b"build/dep/.git/config": ("100644", b"x")})
    assert bench.export(up, base=base) == (None, ("build/",))


def test_a_file_too_large_is_refused_never_cut_off(bench: Bench, base: str, up: Path) -> None:
    with (up / "large.bin").open("wb") as file:
        file.truncate((100 << 20) + 1)
    with pytest.raises(ExportRefused, match="larger than 100 MiB") as caught:
        bench.export(up, base=base)
    assert caught.value.details["paths"] == ["large.bin"]


def test_what_git_itself_holds_for_an_attack_is_refused(bench: Bench, base: str, up: Path) -> None:
    (up / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = -u./evil\n')
    with pytest.raises(ExportRefused, match="gitmodules"):
        bench.export(up, base=base)


def test_an_agent_cannot_change_what_is_ignored(bench: Bench, base: str, up: Path) -> None:
    laid(up, {b".gitignore": ("100644", b"*\n"), b"new.py": ("100644", b""), b"build/x": ("100644", b"")})
    exported = bench.export(up, base=base)
    assert exported.change and exported.skipped == ("build/",)
    assert bench.tree(exported.change.commit).keys() == BASE.keys() | {b"new.py"}


def test_an_export_leaves_no_name_behind_and_is_sound(bench: Bench, base: str, up: Path) -> None:
    laid(up, {b"new.py": ("100644", b"new")})
    change = bench.export(up, base=base).change
    assert change
    refs = bench.git.stream("for-each-ref", read=lambda said: said.read())
    bench.git.stream("fsck", "--strict", "--no-dangling", change.commit, read=lambda said: said.read())
    assert refs == b"" and not list(bench.git.git_dir.glob("fast_import_crash*"))


def test_only_the_directories_that_changed_are_read(bench: Bench, base: str, up: Path) -> None:
    told = bench.git.stream("rev-parse", f"{base}:src/deep/er", read=lambda said: said.read()).decode().strip()
    (bench.git.git_dir / "objects" / told[:2] / told[2:]).unlink()
    laid(up, {b"src/app.py": ("100644", b"edited"), b"other/x": ("100644", b"x")})
    assert bench.export(up, base=base).change
    laid(up, {b"src/deep/er/y.py": ("100644", b"needs the tree that is gone")})
    with pytest.raises(NotFound):
        bench.export(up, base=base)


def test_untouched_modes_of_old_repositories_stay_untouched(bench: Bench, up: Path) -> None:
    old = bench.commit({b"old": ("100664", b"old"), b"new": ("100644", b"new")})
    laid(up, {b"old": ("100600", b"old")})
    assert bench.export(up, base=old) == (None, ())
    laid(up, {b"new": ("100600", b"newer")})
    change = bench.export(up, base=old).change
    assert change and bench.tree(change.commit) == {b"old": ("100664", b"old"), b"new": ("100644", b"newer")}


def test_a_branch_whose_every_file_is_gone_becomes_an_empty_commit(bench: Bench, base: str, up: Path) -> None:
    for name in ("README.md", "src", ".gitignore"):
        os.mknod(up / name, 0o20000, 0)
    change = bench.export(up, base=base).change
    assert change and bench.tree(change.commit) == {}


def test_a_repository_with_longer_hashes_works_the_same(tmp_path: Path, up: Path) -> None:
    (tmp_path / "long").mkdir()
    bench = Bench(tmp_path / "long", hash="sha256")
    laid(up, {b"src/app.py": ("100644", b"edited")})
    change = bench.export(up, base=bench.commit(BASE)).change
    assert change and len(change.commit) == 64
    assert bench.tree(change.commit) == BASE | {b"src/app.py": ("100644", b"edited")}


def test_attributes_an_agent_forges_mean_nothing(kernel: KernelBench) -> None:
    commit, base = kernel.base(BASE)
    forged = [
        ("attribute", b"src", OPAQUE, b"y"),
        ("write", b"src/empty", b"", 0o644),
        ("attribute", b"src/empty", WHITEOUT, b""),
        ("attribute", b"src/app.py", "user.overlay.redirect", b"/README.md"),
        ("attribute", b"src/app.py", "user.overlay.metacopy", b""),
    ]
    (upper,) = kernel.stacked(base, [forged])
    assert View(kernel.kernel.up(upper, base)).find(b"src/deep/er/x.py")
    change = kernel.export(*kernel.kernel.up(upper), base=commit).change
    assert change and kernel.tree(change.commit) == BASE | {b"src/empty": ("100644", b"")}


def test_whiteouts_of_the_newer_form_hide_too(kernel: KernelBench) -> None:
    commit, base = kernel.base(BASE)
    upper, one = kernel.names(2)
    marked = [
        ("write", b"src/app.py", b"", 0o644),
        ("attribute", b"src/app.py", WHITEOUT, b""),
        ("attribute", b"src", OPAQUE, b"x"),
        ("write", b"src/empty", b"", 0o644),
    ]
    kernel.kernel.plain(upper, marked)
    expected = kernel.kernel.see(upper, base)
    assert b"src/app.py" not in expected and b"src/deep/er/x.py" in expected
    view = View(kernel.kernel.up(upper, base))
    assert {node.path for node in walk(view) if node.kind != "whiteout"} == expected.keys()
    assert view.find(b"src/app.py") is None
    squash(kernel.kernel.up(upper), *kernel.kernel.up(one))
    assert kernel.kernel.see(one, base) == expected
    change = kernel.export(*kernel.kernel.up(upper), base=commit).change
    assert change and kernel.tree(change.commit).keys() == BASE.keys() - {b"src/app.py"} | {b"src/empty"}


@pytest.mark.parametrize("directory", [b"new", b"src"])
def test_a_whiteout_that_has_nothing_left_to_hide_is_not_seen(kernel: KernelBench, directory: bytes) -> None:
    _, base = kernel.base(BASE)
    made = [("instead", directory, ("directory",)), ("write", directory + b"/file", b"x", 0o644)]
    names = kernel.stacked(base, [[("delete", directory + b"/file")], made])
    (one,) = kernel.names(1)
    squash(kernel.kernel.up(*names), *kernel.kernel.up(one))
    assert [path for path in kernel.kernel.see(one, base) if path.startswith(directory)] == [directory]


def test_layers_are_squashed_onto_another_disk_by_copying(kernel: KernelBench) -> None:
    _, base = kernel.base(BASE)
    ops: list[list[Op]] = [
        [("delete", b"README.md"), ("instead", b"src", ("directory",)), ("time", b"l", 5)],
        [("write", b"suid", b"bytes", 0o755), ("link", b"l", b"nowhere"), ("fifo", b"p"), ("time", b"suid", 7)],
    ]
    names = kernel.stacked(base, ops)
    before = View(kernel.kernel.up(*names))
    with tempfile.TemporaryDirectory(dir="/dev/shm") as other:
        if os.stat(other).st_dev == os.stat(kernel.top).st_dev:
            pytest.skip("there is only one disk here")
        squash(kernel.kernel.up(*names), Path(other))
        after = View([Path(other)])
        told = [
            [(n.path, n.kind, n.status.st_mode, n.status.st_mtime_ns, n.status.st_uid, n.opaque) for n in walk(view)]
            for view in (before, after)
        ]
        fd = after.open(b"suid")
        assert fd is not None and os.read(fd, 10) == b"bytes"
        os.close(fd)
    assert [row for row in told[0] if row[1] != "whiteout"] == [row for row in told[1] if row[1] != "whiteout"]
    assert [row[0] for row in told[0]] == [row[0] for row in told[1]]


def test_a_file_with_as_many_names_as_it_can_have_is_copied(up: Path, tmp_path: Path) -> None:
    (up / "popular").write_bytes(b"bytes")
    (up / "popular").chmod(0o640)
    names = tmp_path / "names"
    names.mkdir()
    most = os.pathconf(up, "PC_LINK_MAX")
    if most > 70_000:
        pytest.skip("files have any number of names on this disk")
    for number in range(most - 1):
        os.link(up / "popular", names / str(number))
    (tmp_path / "one").mkdir()
    squash([up], tmp_path / "one")
    copy = tmp_path / "one/popular"
    assert (copy.read_bytes(), copy.stat().st_mode & 0o777, copy.stat().st_nlink) == (b"bytes", 0o640, 1)


UNPRIVILEGED = """
import os, sys
from pathlib import Path
from tests.contract.layers_stage import Bench, walk
from resolvent.adapters.workspace.squash import squash
from resolvent.adapters.workspace.view import View

top = Path(sys.argv[1])
bench = Bench(top)
base = bench.commit({b"a": ("100644", b"a"), b"locked/b": ("100644", b"b")})
up = top / "up"
(up / "locked/in").mkdir(parents=True)
(up / "empty").mkdir()
for name in ("a", "locked/new", "locked/in/x", "zero"):
    (up / name).write_text("" if name == "zero" else name)
MODES = {"a": 0, "zero": 0, "locked/new": 0o200, "locked/in/x": 0o300, "locked/in": 0o300, "locked": 0, "empty": 0o400}
def lock():
    for name, mode in MODES.items():
        (up / name).chmod(mode)
    up.chmod(0)
def unlock():
    up.chmod(0o700)
    (up / "locked").chmod(0o700)
    (up / "locked/in").chmod(0o700)
lock()
(top / "one").mkdir()
squash([up], top / "one")
assert (top / "one").stat().st_mode & 0o7777 == 0, "the mode of the top is another"
told = {node.path.decode(): node.status.st_mode & 0o7777 for node in walk(View([top / "one"]))}
assert told == MODES, told
change = bench.export(top / "one", base=base).change
assert change and set(bench.tree(change.commit)) == {b"a", b"locked/b", b"locked/new", b"locked/in/x", b"zero"}
told = {node.path.decode(): node.status.st_mode & 0o7777 for node in walk(View([top / "one"])) if node.kind == "file"}
assert told.items() <= MODES.items(), f"locked no more: {told}"
unlock()
lock()
assert bench.export(up, base=base).change == change
unlock()
lock()
fd = View([up]).open(b"locked/in/x")
assert os.read(fd, 99) == b"locked/in/x"
"""


def test_modes_that_lock_us_out_lock_nobody_out(tmp_path: Path) -> None:
    # Root is never locked out; root without this one privilege is, like everybody.
    without = "-dac_override,-dac_read_search"
    humble = ["setpriv", f"--bounding-set={without}", f"--inh-caps={without}"] if os.geteuid() == 0 else []
    command = [*humble, sys.executable, "-c", UNPRIVILEGED, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    remove_tree(tmp_path)
    assert done.returncode == 0, done.stderr
