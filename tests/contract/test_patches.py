"""Changes in parts: what is taken out and what stays is exact to the byte, whatever the files hold and are called."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.contract.boxed import MEMORY, emptied_later
from tests.contract.workspace_stage import WHEN, WHO, Name, Node, Stage, link, script, staged, submodule, text

from resolvent.adapters.workspace.names import meant, shown
from resolvent.adapters.workspace.patching import LARGEST, MOST_LINES
from resolvent.domain.change import Change
from resolvent.domain.patch import Hunk
from resolvent.errors import Bug
from resolvent.ports import Repository

STRANGE = (
    b"a b",
    b'q"',
    b"n\nl",
    b"t\tb",
    b"\xff\xfe",
    b"\\xff",
    b"\\",
    b"-x",
    b":(top)",
    b"\xc3\xa9",
    b"a/b",
    b"a/\xff",
)

# One line more, and it is taken whole.
LONG = "a\n" * (MOST_LINES - 1)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with emptied_later(MEMORY) as directory:
        yield asyncio.run(staged("copy", directory))


@pytest.fixture(scope="module")
def repository(stage: Stage) -> Repository:
    return stage.repository


async def between(stage: Stage, old: Mapping[Name, Node], new: Mapping[Name, Node]) -> tuple[Change, Change]:
    base = await stage.commit(old)
    return base, await stage.commit(new, parent=base)


def numbered(*numbers: int) -> str:
    return "".join(f"{number}\n" for number in numbers)


def lines(path: str, *ranges: tuple[int, int, int, int]) -> tuple[Hunk, ...]:
    return tuple(
        Hunk(path=path, old_start=old, old_lines=gone, new_start=new, new_lines=come) for old, gone, new, come in ranges
    )


# --- parts of one file


async def test_the_parts_of_a_text_are_its_hunks_and_any_of_them_can_be_left_out(
    stage: Stage, repository: Repository
) -> None:
    old, new = await between(
        stage,
        {"a.py": text("one\ntwo\nthree\nfour\nfive\n"), "same": text("same\n")},
        {"a.py": text("zero\none\nTWO\nthree\nfive\nsix\n"), "same": text("same\n")},
    )
    added, changed, removed, last = parts = await repository.hunks(old, new)
    assert parts == lines("a.py", (0, 0, 1, 1), (2, 1, 3, 1), (4, 1, 4, 0), (5, 0, 6, 1))
    for keep, expected in [
        ((changed,), b"one\nTWO\nthree\nfour\nfive\n"),
        ((last, added), b"zero\none\ntwo\nthree\nfour\nfive\nsix\n"),
        ((removed, changed, changed), b"one\nTWO\nthree\nfive\n"),
    ]:
        made = await stage.tree(await repository.composed(old, new, keep))
        assert made == {b"a.py": ("100644", expected), b"same": text("same\n")}


@pytest.mark.parametrize(
    ("before", "after", "keep", "expected"),
    [
        (b"a\r\nb\r\nc\r\n", b"A\r\nb\r\nc\n", (1,), b"a\r\nb\r\nc\n"),
        (b"a\rb\nc\n", b"a\rB\nc\nd", (1,), b"a\rb\nc\nd"),
        (b"a\nb\nc", b"A\nb\nc\n", (0,), b"A\nb\nc"),
        (b"a\nb\nc", b"A\nb\nc\n", (1,), b"a\nb\nc\n"),
        (b"a\nb\nc\n", b"A\nb\nc", (1,), b"a\nb\nc"),
        (b"a\nb\nc", b"A\nb\nc\nd", (1,), b"a\nb\nc\nd"),
        (b"\xff\n\xfe\nb\n", b"\xff\n\xfd\nb\n\x80", (0,), b"\xff\n\xfd\nb\n"),
        ("a\u2028\nb\f\nc\x85\n".encode(), "A\u2028\nb\f\nC\x85\n".encode(), (1,), "a\u2028\nb\f\nC\x85\n".encode()),
        (b"@@ -1 +1 @@\nindex x\n-a\nb\n", b"@@ -2 +2 @@\nindex x\n+a\nb\n\\ No newline\n", (0,), None),
    ],
)
async def test_lines_are_what_ends_in_a_line_feed_and_all_other_bytes_stay(
    stage: Stage, repository: Repository, before: bytes, after: bytes, keep: tuple[int, ...], expected: bytes | None
) -> None:
    old, new = await between(stage, {"f": ("100644", before)}, {"f": ("100644", after)})
    parts = await repository.hunks(old, new)
    assert not any(part.whole for part in parts) and len(parts) > 1
    made = await repository.composed(old, new, [parts[number] for number in keep])
    if expected is None:
        expected = before.replace(b"@@ -1 +1 @@", b"@@ -2 +2 @@")
    assert await stage.tree(made) == {b"f": ("100644", expected)}


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        (None, text("a\nb\nc"), Hunk(path="f", new_start=1, new_lines=3, whole=True)),
        (text("a\nb\n"), None, Hunk(path="f", old_start=1, old_lines=2, whole=True)),
        (None, text(""), Hunk(path="f", whole=True)),
        (script(""), None, Hunk(path="f", whole=True)),
        (None, ("100644", b"\0\n\n"), Hunk(path="f", whole=True)),
        (("100644", b"\0\n\n"), ("100644", b"\0\n"), Hunk(path="f", whole=True)),
        (text("a\n"), ("100644", b"a\n\0"), Hunk(path="f", whole=True)),
        (text("a\n"), script("a\n"), Hunk(path="f", whole=True)),
        (script("\0"), text("\0\n"), Hunk(path="f", whole=True)),
        (link("a"), link("b"), Hunk(path="f", whole=True)),
        (None, link("b"), Hunk(path="f", whole=True)),
        (text("a\n"), link("a\n"), Hunk(path="f", whole=True)),
        (submodule("1" * 40), submodule("2" * 40), Hunk(path="f", whole=True)),
        (text("a\n"), submodule("2" * 40), Hunk(path="f", whole=True)),
        (text("a\n"), text("a\n" * MOST_LINES), Hunk(path="f", whole=True)),
        (text("a" * (LARGEST + 1)), text("b\n"), Hunk(path="f", whole=True)),
        (None, text("a\n" * MOST_LINES), Hunk(path="f", new_start=1, new_lines=MOST_LINES, whole=True)),
        (None, text("a" * (LARGEST + 1)), Hunk(path="f", whole=True)),
        (text(""), text("a\n"), Hunk(path="f", old_start=0, old_lines=0, new_start=1, new_lines=1)),
        (text(LONG), text(LONG + "b"), Hunk(path="f", old_start=MOST_LINES - 1, new_start=MOST_LINES, new_lines=1)),
    ],
)
async def test_what_has_no_lines_to_choose_from_is_one_part(
    stage: Stage, repository: Repository, before: Node | None, after: Node | None, part: Hunk
) -> None:
    stays: dict[Name, Node] = {"stays": text("x")}
    old, new = await between(stage, stays | ({"f": before} if before else {}), stays | ({"f": after} if after else {}))
    assert await repository.hunks(old, new) == (part,)
    assert (await repository.composed(old, new, [part])).tree == new.tree
    assert (await repository.composed(old, new, [])).tree == old.tree


async def test_a_mode_can_be_left_out_of_a_file_whose_lines_change_too(stage: Stage, repository: Repository) -> None:
    old, new = await between(stage, {"f": text("a\nb\nc\n")}, {"f": script("A\nb\nC\n")})
    mode, first, second = await repository.hunks(old, new)
    assert mode == Hunk(path="f", whole=True) and (first, second) == lines("f", (1, 1, 1, 1), (3, 1, 3, 1))
    assert await stage.tree(await repository.composed(old, new, [mode])) == {b"f": script("a\nb\nc\n")}
    assert await stage.tree(await repository.composed(old, new, [second])) == {b"f": text("a\nb\nC\n")}
    assert await stage.tree(await repository.composed(old, new, [first, mode])) == {b"f": script("A\nb\nc\n")}


# --- the commit that is made


async def test_the_same_parts_give_the_same_commit_on_the_parent_asked_for(
    stage: Stage, repository: Repository
) -> None:
    old, new = await between(stage, {"f": text("a\nb\nc\n")}, {"f": text("A\nb\nC\n")})
    first, second = await repository.hunks(old, new)
    made = await repository.composed(old, new, [first, second])
    assert made == await repository.composed(old, new, (second, first)) == await repository.change(made.commit)
    said = (await stage.git("cat-file", "commit", made.commit)).decode()
    assert f"\nparent {old.commit}\n" in said and said.endswith(f"\n\nParts of {new.commit}\n")
    assert said.count(" 1700000000 +0000\n") == 2 and "someone" not in said
    onto = await repository.composed(old, new, [first], onto=new)
    assert await repository.ancestors(onto, limit=1) == (new,)
    assert await stage.tree(onto) == {b"f": text("A\nb\nc\n")}


@pytest.mark.parametrize(
    "stray",
    [
        Hunk(path="same", whole=True),
        Hunk(path="../f", whole=True),
        Hunk(path="", whole=True),
        Hunk(path="f", whole=True),
        Hunk(path="f", old_start=9, old_lines=1, new_start=1, new_lines=1),
        Hunk(path="f", old_start=1, old_lines=1, new_start=3, new_lines=9),
        Hunk(path="f", old_start=0, old_lines=1, new_start=1, new_lines=1),
        Hunk(path="f", old_start=1, old_lines=2, new_start=1, new_lines=1),
        Hunk(path="bin", old_start=1, old_lines=1, new_start=1, new_lines=1),
    ],
)
async def test_a_part_of_no_difference_is_refused(stage: Stage, repository: Repository, stray: Hunk) -> None:
    same = {"same": text("same\n")}
    old, new = await between(
        stage,
        {"f": text("a\nb\nc\n"), "bin": text("\0"), **same},
        {"f": text("A\nb\nC\n"), "bin": text("\0\0"), **same},
    )
    parts = [part for part in await repository.hunks(old, new) if part.path == stray.path]
    with pytest.raises(Bug):
        await repository.composed(old, new, [*parts, stray])


async def test_where_a_file_and_a_directory_want_one_name_what_is_kept_wins(
    stage: Stage, repository: Repository
) -> None:
    files = {"a": text("a\n"), "x": text("x\n")}
    below = {"a/b": text("b\n"), "a/c/d": text("d\n"), "x": text("x\n")}
    old, new = await between(stage, files, below)
    parts = {part.path: part for part in await repository.hunks(old, new)}
    assert parts.keys() == {"a", "a/b", "a/c/d"}
    made = await repository.composed(old, new, [parts["a/c/d"]])
    assert await stage.tree(made) == {b"a/c/d": text("d\n"), b"x": text("x\n")}
    made = await repository.composed(old, new, [parts["a"]])
    assert await stage.tree(made) == {b"x": text("x\n")}
    back = {part.path: part for part in await repository.hunks(new, old)}
    for keep in (["a"], ["a", "a/b"], ["a", "a/b", "a/c/d"]):
        made = await repository.composed(new, old, [back[path] for path in keep])
        assert made.tree == old.tree
    made = await repository.composed(new, old, [back["a/c/d"]])
    assert await stage.tree(made) == {b"a/b": text("b\n"), b"x": text("x\n")}


async def test_all_can_go_and_all_can_come(stage: Stage, repository: Repository) -> None:
    old, new = await between(stage, {}, {"a/b/c": text("c\n")})
    (part,) = await repository.hunks(old, new)
    assert (await repository.composed(old, new, [part])).tree == new.tree
    (part,) = await repository.hunks(new, old)
    assert (await repository.composed(new, old, [part])).tree == old.tree
    assert await repository.hunks(old, old) == ()


# --- whatever the trees

NAMES = st.one_of(st.sampled_from(STRANGE), st.sampled_from([b"a", b"b/c", b"b/d", b"b.c", b"b0", b"c/d/e"]))
TEXTS = st.lists(st.sampled_from([b"a\n", b"b\n", b"\n", b"c\r\n", b"\xff\n", b"+\n", b"@@ -1 +1 @@\n"]), max_size=12)
CONTENTS = st.tuples(TEXTS.map(b"".join), st.sampled_from([b"", b"", b"end", b"\0"])).map(b"".join)
NODES = st.one_of(
    st.tuples(st.sampled_from(["100644", "100644", "100755"]), CONTENTS),
    st.tuples(st.sampled_from(["100644", "100644", "100755"]), CONTENTS),
    st.sampled_from([link("a"), link("b"), submodule("1" * 40), submodule("2" * 40)]),
)


def without_clashes(files: dict[bytes, Node]) -> dict[Name, Node]:
    """No file below a file."""
    return {
        path: node
        for path, node in files.items()
        if not any(b"/".join(path.split(b"/")[:count]) in files for count in range(1, path.count(b"/") + 1))
    }


TREES = st.dictionaries(NAMES, NODES, max_size=8).map(without_clashes)


@settings(max_examples=40, deadline=None)
@given(before=TREES, after=TREES, choice=st.data())
def test_all_parts_are_the_new_tree_none_the_old_and_some_lead_on_to_the_new(
    stage: Stage, before: dict[Name, Node], after: dict[Name, Node], choice: st.DataObject
) -> None:
    async def played() -> None:
        repository = stage.repository
        old, new = await between(stage, before, after)
        parts = await repository.hunks(old, new)
        assert sorted({part.path for part in parts}) == list(await repository.changed_paths(old, new))
        assert len(set(parts)) == len(parts)
        assert (await repository.composed(old, new, parts)).tree == new.tree
        assert (await repository.composed(old, new, ())).tree == old.tree
        keep = [part for part in parts if choice.draw(st.booleans())]
        some = await repository.composed(old, new, keep)
        assert some == await repository.change(some.commit)
        left = await repository.hunks(some, new)
        assert (await repository.composed(some, new, left)).tree == new.tree
        untouched = {part.path for part in parts} - {part.path for part in keep}
        kept = {part.path for part in keep} - {part.path for part in parts if part not in keep}
        held = await stage.tree(some)
        for path in kept:
            assert held.get(meant(path)) == after.get(meant(path))
        # What is kept may need the name of what is not.
        if not any(
            clash.startswith(f"{path}/") or path.startswith(f"{clash}/") for clash in kept for path in untouched
        ):
            for path in untouched:
                assert held.get(meant(path)) == before.get(meant(path))

    asyncio.run(played())


@settings(max_examples=40, deadline=None)
@given(
    edits=st.lists(st.sampled_from(["keep", "keep", "drop", "change", "insert"]), max_size=30),
    ended=st.booleans(),
    choice=st.data(),
)
def test_some_parts_and_then_the_rest_on_top_are_the_same_parts(
    stage: Stage, edits: list[str], ended: bool, choice: st.DataObject
) -> None:
    """No line is there twice, so that there is but one way to see the difference."""
    before = [f"old {place}" for place in range(len(edits))]
    after: list[str] = []
    for place, edit in enumerate(edits):
        after += [f"new {place}"] * (edit in ("change", "insert")) + [before[place]] * (edit in ("keep", "insert"))

    async def played() -> None:
        repository = stage.repository
        end = "\nend\n" if ended else "\nend"
        old, new = await between(stage, {"f": text("\n".join(before) + end)}, {"f": text("\n".join(after) + end)})
        parts = await repository.hunks(old, new)
        keep = [part for part in parts if choice.draw(st.booleans())]
        rest = [part for part in parts if part not in keep]
        some = await repository.composed(old, new, keep)
        done, left = await repository.hunks(old, some), await repository.hunks(some, new)
        assert [(part.old_start, part.old_lines) for part in done] == [
            (part.old_start, part.old_lines) for part in keep
        ]
        assert [(part.new_start, part.new_lines) for part in left] == [
            (part.new_start, part.new_lines) for part in rest
        ]
        assert (await repository.composed(some, new, left)).tree == new.tree
        # Taking parts out is keeping the others.
        back = await repository.composed(new, old, [_turned(part) for part in rest])
        assert back.tree == some.tree

    asyncio.run(played())


def _turned(part: Hunk) -> Hunk:
    """The same part of the way back."""
    return Hunk(
        path=part.path,
        old_start=part.new_start,
        old_lines=part.new_lines,
        new_start=part.old_start,
        new_lines=part.old_lines,
    )


# --- names


@given(st.binary(max_size=20), st.binary(max_size=20))
def test_a_path_is_found_again_by_how_it_is_shown_and_no_two_are_shown_alike(one: bytes, other: bytes) -> None:
    for path in (one, other, one + b"\\x" + other, one + b"\\xff\xff" + other):
        assert meant(shown(path)) == path
        assert shown(path).encode("utf-8").decode("utf-8") == shown(path)
        assert shown(path) == "/".join(map(shown, path.split(b"/")))
    assert (shown(one) == shown(other)) == (one == other)


async def test_files_of_any_name_have_parts_and_contents(stage: Stage, repository: Repository) -> None:
    old, new = await between(
        stage,
        dict.fromkeys(STRANGE, text("a\nb\nc\n")),
        {name: ("100644", b"A\nb\n" + name + b"\n") for name in STRANGE},
    )
    parts = await repository.hunks(old, new)
    assert len(parts) == 2 * len(STRANGE)
    assert {part.path for part in parts} == set(await repository.changed_paths(old, new)) == set(map(shown, STRANGE))
    made = await repository.composed(old, new, [part for part in parts if part.old_start == 3])
    assert await stage.tree(made) == {name: ("100644", b"a\nb\n" + name + b"\n") for name in STRANGE}
    contents = await repository.contents(new, [*map(shown, STRANGE)])
    assert contents == {shown(name): b"A\nb\n" + name + b"\n" for name in STRANGE}
    for name in STRANGE:
        assert await repository.blamed(new, shown(name), 1) == new.commit
        assert await repository.blamed(new, shown(name), 2) == old.commit


async def test_contents_are_those_of_regular_files_that_are_not_too_large(stage: Stage, repository: Repository) -> None:
    held = await stage.commit(
        {
            "a": text("a\r\n"),
            "b/c": script("\0\xff"),
            "empty": text(""),
            "l": link("a"),
            "s": submodule("1" * 40),
            "large": text("x" * LARGEST),
            "larger": text("x" * (LARGEST + 1)),
        }
    )
    there = {"a": b"a\r\n", "b/c": "\0\xff".encode(), "empty": b"", "large": b"x" * LARGEST}
    nowhere = ["l", "s", "larger", "b", "b/", "/a", "", ".", "b/../a", "a/b", "l/x", "none", "a\0", "\ud800", "\\xzz"]
    assert await repository.contents(held, [*there, *nowhere]) == there | dict.fromkeys(nowhere)
    assert await repository.contents(held, []) == {}


# --- nobody's attributes, drivers or settings


@pytest.mark.parametrize(
    "attributes",
    ["* binary\n", "* -diff\n", "* diff=evil\n", "* working-tree-encoding=UTF-16 text eol=crlf ident filter=evil\n"],
)
async def test_no_attribute_driver_or_setting_hides_a_line(tmp_path: Path, attributes: str) -> None:
    stage = await staged("copy", tmp_path)
    repository, program = stage.repository, stage.plant()
    hostile = {".gitattributes": text(attributes), ".gitmodules": text('[submodule "s"]\n\tpath = s\n\tignore = all\n')}
    old, new = await between(
        stage,
        {"f.py": text("a\nb\nc\n"), "s": submodule("1" * 40), **hostile},
        {"f.py": text("A\nb\nC  \n"), "s": submodule("2" * 40), **hostile},
    )
    await stage.git("update-ref", "refs/heads/main", new.commit)
    for name, value in {
        "diff.evil.textconv": str(program),
        "diff.evil.command": str(program),
        "diff.external": str(program),
        "filter.evil.clean": str(program),
        "diff.context": "3",
        "diff.interHunkContext": "9",
        "diff.ignoreSubmodules": "all",
        "diff.noprefix": "true",
        "diff.wsErrorHighlight": "all",
        "color.ui": "always",
        "core.quotePath": "false",
        "blame.ignoreRevsFile": str(tmp_path / "ignored"),
        "blame.showEmail": "true",
    }.items():
        await stage.git("config", name, value)
    (tmp_path / "ignored").write_text(new.commit + "\n")
    (repository.path / "info").mkdir(exist_ok=True)
    (repository.path / "info/attributes").write_text(attributes)
    parts = await repository.hunks(old, new)
    assert parts == (*lines("f.py", (1, 1, 1, 1), (3, 1, 3, 1)), Hunk(path="s", whole=True))
    made = await stage.tree(await repository.composed(old, new, parts[1:2]))
    assert made[b"f.py"] == text("a\nb\nC  \n") and made[b"s"] == submodule("1" * 40)
    assert [await repository.blamed(new, "f.py", line) for line in (1, 2, 3)] == [new.commit, old.commit, new.commit]
    assert (await repository.contents(new, ["f.py"]))["f.py"] == b"A\nb\nC  \n"
    assert not stage.canary.exists()


# --- where lines come from


async def test_each_line_is_blamed_on_the_commit_that_wrote_it(stage: Stage, repository: Repository) -> None:
    root = await stage.commit({"f": text("a\nb\nc"), "d/g": text("g\n"), "l": link("f")})
    second = await stage.commit({"f": text("a\nB\nc"), "d/g": text("g\n"), "l": link("f")}, parent=root)
    third = await stage.commit({"f": text("top\na\nB\nc"), "d/h": text("g\n"), "l": link("f")}, parent=second)
    blamed = [await repository.blamed(third, "f", line) for line in range(6)]
    assert blamed == [None, third.commit, root.commit, second.commit, root.commit, None]
    assert await repository.blamed(second, "f", 2) == second.commit
    assert await repository.blamed(root, "f", 3) == root.commit
    for path in ("none", "d", "l", "d/g", "", "f/f", "a\0b"):
        assert await repository.blamed(third, path, 1) is None
    assert await repository.blamed(third, "f", -1) is None
    empty = await stage.commit({"f": text(""), "large": text("x\n" * LARGEST)})
    assert await repository.blamed(empty, "f", 1) is None
    assert await repository.blamed(empty, "large", 1) is None


async def test_ancestors_are_first_parents_nearest_first(stage: Stage, repository: Repository) -> None:
    root = await stage.commit({"f": text("1")})
    main = await stage.commit({"f": text("2")}, parent=root)
    side = await stage.commit({"f": text("3")}, parent=root)
    parents = ("-p", main.commit, "-p", side.commit)
    merge = await repository.change(
        (await stage.git("commit-tree", main.tree, *parents, "-m", "merge", env=WHO | WHEN)).decode().strip()
    )
    top = await stage.commit({"f": text("4")}, parent=merge)
    assert await repository.ancestors(top, limit=9) == (merge, main, root)
    assert await repository.ancestors(top, limit=2) == (merge, main)
    assert await repository.ancestors(root, limit=9) == ()
    for none in (0, -1):
        assert await repository.ancestors(top, limit=none) == ()


# --- sizes


async def test_a_change_of_five_thousand_lines_is_cut_and_put_together_in_no_time(
    stage: Stage, repository: Repository
) -> None:
    after = [-number if number % 2 else number for number in range(10_000)]
    old, new = await between(stage, {"f": text(numbered(*range(10_000)))}, {"f": text(numbered(*after))})
    taken = []
    # The best of three: this machine may do other things as well.
    for _ in range(3):
        began = time.monotonic()
        parts = await repository.hunks(old, new)
        some = await repository.composed(old, new, parts[::2])
        taken.append(time.monotonic() - began)
    assert min(taken) < 2
    assert len(parts) == 5000
    expected = [-number if number % 4 == 1 else number for number in range(10_000)]
    assert await stage.tree(some) == {b"f": text(numbered(*expected))}


async def test_lines_that_are_all_alike_and_many_files_take_no_time_either(
    stage: Stage, repository: Repository
) -> None:
    alike = "".join("ab"[number * number % 7 % 2] + "\n" for number in range(MOST_LINES - 1))
    other = "".join("ab"[number * number % 11 % 2] + "\n" for number in range(MOST_LINES - 1))
    # Together more than fits on a command line.
    deep = "/".join(["x" * 200] * 19)
    many = {f"{deep}/{number}": text("a\nb\n") for number in range(600)}
    old, new = await between(
        stage, {"alike": text(alike), **many}, {"alike": text(other), **{name: text("a\nB\n") for name in many}}
    )
    began = time.monotonic()
    parts = await repository.hunks(old, new)
    made = await repository.composed(old, new, parts)
    assert time.monotonic() - began < 20
    assert made.tree == new.tree
    assert len([part for part in parts if part.path in many]) == 600
