"""Layers read as data show what the kernel shows of them, and become the commits that a plain copy would become."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.layers_stage import KernelBench, Node, kernel_bench, walk
from tests.contract.overlay_stage import Op, Seen

from resolvent.adapters.workspace.objects import GITLINK
from resolvent.adapters.workspace.squash import squash
from resolvent.adapters.workspace.view import View


@pytest.fixture(scope="module", params=["disk", "memory"])
def bench(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[KernelBench]:
    if request.param == "memory" and not os.access("/dev/shm", os.W_OK):
        pytest.skip("no memory file system here")
    top = Path("/dev/shm") if request.param == "memory" else tmp_path_factory.mktemp("layers")
    with kernel_bench(top) as made:
        yield made


def shown_by(view: View) -> Seen:
    """What a view holds, in the kernel's words."""
    seen: Seen = {}
    for node in walk(view):
        if node.kind == "whiteout":
            continue
        content = view.link(node) if node.kind == "link" else b""
        fd = view.opened(node)
        assert (fd is not None) == (node.kind == "file")
        if fd is not None:
            with os.fdopen(fd, "rb") as file:
                content = file.read()
        about = node.status
        seen[node.path] = node.kind, about.st_mode & 0o7777, about.st_uid, about.st_mtime_ns, content, {}
    return seen


def bare(seen: Seen) -> Seen:
    """Without the attributes."""
    return {path: (*about[:5], {}) for path, about in seen.items()}


# Few paths, and many that are there already, so that operations meet.
PATHS = st.sampled_from([b"a", b"b", b"a/a", b"a/b", b"a/a/a", b"a/a/b", b"b/a", b"b/a/b", b"build", b"build/a",
                         b"a/build/b", b"x.log", b"b/x.log", b'q"\n\\\t', b'b/q"\n\\\t', b"a/\xff\xfe/b"])  # fmt: skip
THERE = st.tuples(st.just("nth"), st.integers(0, 20))
BYTES = st.sampled_from([b"", b"1", b"two\n"])
MODES = st.sampled_from([0o644, 0o755, 0o600, 0, 0o4755, 0o400])
IGNORED = st.sampled_from([b"", b"build/\n*.log\n", b"/a\n!b\n", b"*\n!b\n", b"b\n"])
NEW = st.one_of(
    st.tuples(st.just("write"), BYTES, MODES),
    st.tuples(st.just("link"), st.sampled_from([b"a", b"../b", b"/etc/passwd"])),
    st.tuples(st.just("directory")),
    st.tuples(st.just("fifo")),
)
OPS = st.one_of(
    st.builds(lambda path, new: (new[0], path, *new[1:]), PATHS, NEW),
    st.tuples(st.just("write"), PATHS, BYTES, MODES),
    st.tuples(st.just("instead"), PATHS, NEW),
    st.tuples(st.just("instead"), THERE, NEW),
    st.tuples(st.just("instead"), st.just(b".gitignore"), st.tuples(st.just("write"), IGNORED, st.just(0o644))),
    st.tuples(st.just("append"), THERE, BYTES),
    st.tuples(st.just("delete"), THERE),
    st.tuples(st.just("delete"), PATHS),
    st.tuples(st.just("rename"), PATHS, THERE),
    st.tuples(st.just("hard"), PATHS, THERE),
    st.tuples(st.just("chmod"), THERE, st.sampled_from([0, 0o500, 0o755, 0o1777, 0o644, 0o700])),
    st.tuples(st.just("time"), THERE, st.integers(0, 1 << 60)),
    st.tuples(st.just("attribute"), THERE, st.sampled_from(["user.mine", "user.overlay.opaque"]), st.just(b"y")),
)
HELD = st.one_of(
    st.tuples(st.sampled_from(["100644", "100755"]), BYTES),
    st.tuples(st.just("120000"), st.sampled_from([b"a", b"../b"])),
    st.just((GITLINK, b"1" * 40)),
)


def without_clashes(files: dict[bytes, Node]) -> dict[bytes, Node]:
    """No file below a file."""
    return {
        path: node
        for path, node in files.items()
        if not any(b"/".join(path.split(b"/")[:count]) in files for count in range(1, path.count(b"/") + 1))
    }


TREES = st.builds(
    lambda files, rules, inner: without_clashes(files | {b".gitignore": ("100644", rules)} | inner),
    st.dictionaries(PATHS, HELD, max_size=6),
    IGNORED,
    IGNORED.map(lambda rules: {b"a/.gitignore": ("100644", rules)} if rules else {}),
)
# How many layers above and below those that are squashed.
SPARED = st.sampled_from([0, 0, 0, 1, 2])
LAYERS = st.lists(st.lists(OPS, min_size=3, max_size=14), min_size=2, max_size=4)


@settings(max_examples=50, deadline=None)
@given(held=TREES, layers=LAYERS)
def test_a_view_is_what_the_kernel_shows(bench: KernelBench, held: dict[bytes, Node], layers: list[list[Op]]) -> None:
    _, base = bench.base(held)
    names = [*bench.stacked(base, layers), base]
    seen = bare(bench.kernel.see(*names))
    view = View(bench.kernel.up(*names))
    assert shown_by(view) == seen
    for path, (kind, _, _, _, content, _) in seen.items():
        node = view.find(path)
        assert node is not None and node.kind == kind
        fd = view.open(path)
        assert (fd is not None) == (kind == "file")
        if fd is not None:
            with os.fdopen(fd, "rb") as file:
                assert file.read() == content
        assert view.find(path + b"/below") is None or path + b"/below" in seen


@settings(max_examples=50, deadline=None)
@given(held=TREES, layers=LAYERS, above=SPARED, below=SPARED)
def test_a_squashed_stack_shows_what_it_showed(
    bench: KernelBench, held: dict[bytes, Node], layers: list[list[Op]], above: int, below: int
) -> None:
    _, base = bench.base(held)
    names = bench.stacked(base, layers)
    first, last = min(above, len(names) - 1), max(min(above, len(names) - 1) + 1, len(names) - below)
    (one,) = bench.names(1)
    before = bench.kernel.see(*names, base)
    squash(bench.kernel.up(*names[first:last]), *bench.kernel.up(one))
    assert bench.kernel.see(*names[:first], one, *names[last:], base) == before
    if os.geteuid() == 0:
        # Others had to make readable what nobody could read.
        assert bench.kernel.see(*names, base) == before


@settings(max_examples=30, deadline=None)
@given(held=TREES, layers=LAYERS, other=TREES)
def test_an_export_is_the_commit_a_plain_copy_becomes(
    bench: KernelBench, held: dict[bytes, Node], layers: list[list[Op]], other: dict[bytes, Node]
) -> None:
    commit, base = bench.base(held)
    names = bench.stacked(base, layers)
    copy = bench.kernel.copy(*names, base)
    expected = bench.export_of_copy(copy, commit=commit)
    assert bench.export(*bench.kernel.up(*names), base=commit) == expected
    assert bench.export(*bench.kernel.up(*names), base=commit) == expected
    # The branch moved on: to what its lower layers became, or to something else altogether.
    earlier = bench.export(*bench.kernel.up(*names[1:]), base=commit).change if names[1:] else None
    for became in (earlier.commit if earlier else commit, bench.commit(other)):
        assert bench.export(*bench.kernel.up(*names), base=commit, commit=became) == bench.export_of_copy(
            copy, commit=became
        )
