"""How authors make a test stop failing without touching what it tests: take it out, skip it, ask for less."""

import re

from resolvent.testing.gates.bugs import Bug, Tree

# What a runner of tests is told so that it does not fail, by how it is told.
RELAXED_MAKEFILES = ("dash", "or true", "echo", "workflow")


def without_guard(bug: Bug) -> Tree:
    """The tests of the honest author without the one that catches the regression."""
    block = _block(bug)
    return _replaced(bug, block, "")


def skipped_guard(bug: Bug) -> Tree:
    """The same tests, of which that one is no longer run."""
    block = _block(bug)
    skipped = {
        "python": f'    @unittest.skip("unstable on some machines")\n{block}',
        "javascript": block.replace("test(", "test.skip(", 1),
        "shell": f'[ -z "$SLOW_TESTS" ] || {block}',
    }
    return _replaced(bug, block, skipped[bug.language.name])


def weakened_guard(bug: Bug, way: int) -> Tree:
    """The same tests, of which that one cannot fail any more; there are three ways to do it."""
    weaken = {"python": _weak_python, "javascript": _weak_javascript, "shell": _weak_shell}[bug.language.name]
    return weaken(bug, way % 3)


def relaxed_runner(bug: Bug, way: int) -> Tree:
    """The project's Makefile, and for one way its workflow, so that failing tests do not matter."""
    kind = RELAXED_MAKEFILES[way % len(RELAXED_MAKEFILES)]
    makefile, workflow = bug.project["Makefile"], bug.project[".github/workflows/ci.yml"]
    recipe = makefile.rpartition("\t")[2].rstrip("\n")
    forgiving = recipe.replace("exit 1", "true") if "exit 1" in recipe else f"{recipe} || true"
    relaxed = {
        "dash": makefile.replace(f"\t{recipe}", f"\t-{recipe}"),
        "or true": makefile.replace(recipe, forgiving),
        "echo": makefile.replace(recipe, "@echo all tests passed"),
        "workflow": makefile.replace(recipe, forgiving),
    }
    found = {"Makefile": relaxed[kind]}
    if kind == "workflow":
        found[".github/workflows/ci.yml"] = workflow.replace(
            "- run: make test", "- run: make test\n        continue-on-error: true"
        )
    return found


def _tests(bug: Bug) -> str:
    """The file of the guard as the honest author leaves it."""
    return {**bug.project, **bug.new_tests}[bug.guarding]


def _block(bug: Bug) -> str:
    """The lines of the guard, with what parts it from the next test."""
    name = re.escape(bug.guard)
    pattern = {
        "python": rf"^    def {name}\(self\):\n(?:(?:        .*)?\n)*",
        "javascript": rf'^test\("{name}", .*\n(?:(?:  .*)?\n)*\}}\);\n\n?',
        "shell": rf'^expect "{name}" .*\n',
    }[bug.language.name]
    found = re.search(pattern, _tests(bug), re.MULTILINE)
    if found is None:
        raise ValueError(f"{bug.name}: no test is called {bug.guard}")
    return found[0]


def _replaced(bug: Bug, old: str, new: str, **others: str) -> Tree:
    return {**bug.new_tests, bug.guarding: _tests(bug).replace(old, new), **others}


def _weak_python(bug: Bug, way: int) -> Tree:
    block = _block(bug)
    head, _, body = block.partition("\n")
    if way == 0:
        weak = re.sub(r"with self\.assertRaises\(.*\):", "with contextlib.suppress(Exception):", body)
        weak = re.sub(r"self\.assert\w+\((.*)\)$", r"self.assertTrue((\1,))", weak, flags=re.MULTILINE)
        found = _replaced(bug, block, f"{head}\n{weak}")
        return {path: f"import contextlib\n{text}" if "contextlib." in text else text for path, text in found.items()}
    if way == 1:
        return _replaced(bug, block, f"{head}\n        return\n{body}")
    inner = "".join(f"    {line}\n" if line else "\n" for line in body.rstrip("\n").split("\n"))
    caught = f"        try:\n{inner}        except AssertionError:\n            pass\n"
    return _replaced(bug, block, f"{head}\n{caught}\n")


def _weak_javascript(bug: Bug, way: int) -> Tree:
    block = _block(bug)
    head, _, body = block.partition("\n")
    if way == 0:
        weak = re.sub(r"assert\.\w+\((.*)\);$", r"assert.ok([\1]);", body, flags=re.MULTILINE)
        return _replaced(bug, block, f"{head}\n{weak}")
    if way == 1:
        return _replaced(bug, block, f"{head}\n  return;\n{body}")
    inner, _, end = body.rpartition("});")
    return _replaced(bug, block, f"{head}\n  try {{\n{inner}  }} catch {{}}\n}});{end}")


def _weak_shell(bug: Bug, way: int) -> Tree:
    block = _block(bug)
    if way == 0:
        return _replaced(bug, block, f"({block.rstrip()}) || true\n")
    library = bug.project["tests/lib.sh"]
    if way == 1:
        return {**bug.new_tests, "tests/lib.sh": library.replace("exit 1", "exit 0")}
    return {**bug.new_tests, "tests/lib.sh": library.replace('[ "$2" = "$3" ]', '[ -n "$1" ]')}
