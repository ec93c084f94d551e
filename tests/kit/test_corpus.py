"""The corpus of the gate bench holds what it says, shown by plain processes: no engine, no box, no forge."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest

from resolvent.domain.change import Reproducer
from resolvent.domain.integrity import Altered, inspected
from resolvent.testing.gates.bugs import Bug, corpus, edited, is_test
from resolvent.testing.gates.trying import commanded, executed, laid, missing
from resolvent.testing.gates.weakening import relaxed_runner, skipped_guard, weakened_guard, without_guard

BUGS = corpus()


class Bench:
    """Fresh directories for the trees of one bug."""

    def __init__(self, directory: Path, bug: Bug) -> None:
        self.directory, self.bug = directory, bug
        self._number = 0

    def fresh(self, tree: Mapping[str, str]) -> Path:
        self._number += 1
        return laid(self.directory / str(self._number), tree)

    async def says(self, tree: Mapping[str, str], *scripts: Reproducer) -> list[str]:
        ran = await asyncio.gather(*(executed(self.fresh(tree), script) for script in scripts))
        return [execution for execution, _ in ran]

    async def tests_pass(self, tree: Mapping[str, str]) -> bool:
        status, _, ended = await commanded(self.fresh(tree), "make test")
        assert ended
        return status == 0


@pytest.fixture(params=BUGS, ids=lambda bug: bug.name)
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    bug: Bug = request.param
    if why := missing(bug.language.name, bug.language.program) or missing("every project", "make"):
        pytest.skip(why)
    return Bench(tmp_path, bug)


def test_there_are_bugs_of_every_language_and_of_many_kinds() -> None:
    languages = Counter(bug.language.name for bug in BUGS)
    assert languages["python"] >= 12 and languages["javascript"] >= 7 and languages["shell"] >= 5
    assert len({bug.kind for bug in BUGS}) >= 20


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_project_is_small_and_whole(bug: Bug) -> None:
    assert {"README.md", "Makefile", "resolvent.toml", ".github/workflows/ci.yml", bug.product} <= set(bug.project)
    assert 2 <= len(bug.variants) <= 3 and bug.new_tests and bug.issue
    hidden = bug.truth.files[0].text
    shown = [bug.issue, *bug.project.values(), bug.reproducer.files[0].text, *bug.patches["honest"].values()]
    assert not any(hidden in text for text in shown)
    assert not {file.path for script in (bug.reproducer, *bug.variants) for file in script.files} & set(bug.project)


async def test_the_base_has_the_bug_and_its_own_tests_do_not_see_it(bench: Bench) -> None:
    bug, base = bench.bug, bench.bug.project
    assert await bench.tests_pass(base)
    assert set(await bench.says(base, bug.reproducer, *bug.variants)) == {"SHOWN"}
    assert await bench.says(base, bug.truth) != ["PASSED"]


async def test_the_honest_fix_is_right_and_its_test_needs_it(bench: Bench) -> None:
    bug, honest = bench.bug, bench.bug.patched("honest")
    assert await bench.tests_pass(honest)
    assert set(await bench.says(honest, bug.reproducer, *bug.variants, bug.truth)) == {"PASSED"}
    assert not await bench.tests_pass({**bug.project, **bug.new_tests})


async def test_a_special_case_passes_the_reproducer_and_not_its_variants(bench: Bench) -> None:
    bug, special = bench.bug, bench.bug.patched("special")
    reproduced, *others = await bench.says(special, bug.reproducer, *bug.variants)
    assert reproduced == "PASSED" and "SHOWN" in others
    assert await bench.tests_pass(special)
    assert await bench.says(special, bug.truth) != ["PASSED"]


async def test_a_swallowed_error_is_no_fix_and_can_be_seen(bench: Bench) -> None:
    bug, swallow = bench.bug, bench.bug.patched("swallow")
    assert await bench.says(swallow, bug.truth) != ["PASSED"]
    altered = [Altered(path=path, old=bug.project[path], new=text) for path, text in bug.patches["swallow"].items()]
    executed = await bench.says(swallow, bug.reproducer, *bug.variants)
    assert inspected(altered) or set(executed) != {"PASSED"} or not await bench.tests_pass(swallow)


async def test_a_planted_regression_is_seen_by_the_existing_tests_alone(bench: Bench) -> None:
    bug, plant = bench.bug, bench.bug.patched("plant")
    assert set(await bench.says(plant, bug.reproducer, *bug.variants)) == {"PASSED"}
    assert not await bench.tests_pass(plant)
    assert await bench.says(plant, bug.truth) != ["PASSED"]


async def test_a_regression_is_hidden_by_whoever_weakens_the_test_that_sees_it(bench: Bench) -> None:
    bug, plant = bench.bug, bench.bug.patched("plant")
    ways = [without_guard(bug), skipped_guard(bug), *(weakened_guard(bug, way) for way in range(3))]
    ways += [relaxed_runner(bug, way) for way in range(4)]
    assert all(await asyncio.gather(*(bench.tests_pass({**plant, **hidden}) for hidden in ways)))


async def test_a_flaky_fix_is_right_only_sometimes(bench: Bench) -> None:
    bug = bench.bug
    flaky = {**bug.patched("flaky"), **bug.new_tests}
    seen = set()
    while len(seen) < 2:
        # It ends: each turn the reproducer passes with a third's chance or so, and fails with the rest.
        seen |= set(await bench.says(flaky, *[bug.reproducer] * 4))
    assert seen == {"PASSED", "SHOWN"}


def test_a_hunk_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="fits in 0 places"):
        edited("one\n", "-two\n+three\n")
    with pytest.raises(ValueError, match="fits in 2 places"):
        edited("one\none\n", "-one\n+two\n")
    with pytest.raises(ValueError, match="not a line of a hunk"):
        edited("one\n", "one\n")
    assert is_test("tests/a.py") and not is_test("a/tests.py")
