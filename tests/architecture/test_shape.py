"""How long, how wide, what it may be called, and what it may not do."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.architecture import source

GUIDE, HARD = 250, 400
FUNCTION, PLAYBOOK = 40, 60
PARAMETERS = 5
FORBIDDEN = {"manager", "helper", "helpers", "util", "utils", "base", "impl", "handler", "handlers", "service"}
EMPTY_WORDS = {"data", "info"}


def says_nothing(name: str) -> bool:
    words = {word.lower() for word in re.findall(r"[A-Z]?[a-z\d]+|[A-Z]+(?![a-z])", name)}
    return bool(words & FORBIDDEN) or name.strip("_").lower() in EMPTY_WORDS


def everywhere() -> Iterator[tuple[Path, ast.AST]]:
    for path in source.modules():
        for node in ast.walk(source.tree(path)):
            yield path, node


def every_function() -> Iterator[tuple[Path, source.Function]]:
    for path in source.modules():
        for function in source.functions(path):
            yield path, function


def at(path: Path, node: ast.AST) -> str:
    return f"{source.name(path)}:{getattr(node, 'lineno', 1)}"


def test_a_module_longer_than_the_limit_says_why() -> None:
    for path in source.modules():
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) <= HARD or any("# long because" in line for line in lines[:15]), source.name(path)


def test_few_modules_pass_the_guide() -> None:
    long = [source.name(path) for path in source.modules() if len(path.read_text().splitlines()) > GUIDE]
    assert len(long) <= len(source.modules()) / 10, long


def test_functions_are_short_and_a_playbook_is_one_screen() -> None:
    long = []
    for path, function in every_function():
        playbook = path.parent.name == "playbooks" and function.name == path.stem
        if source.lines(function) > (PLAYBOOK if playbook else FUNCTION):
            long.append(f"{at(path, function)} {function.name}: {source.lines(function)} lines")
    assert long == []


def test_functions_take_at_most_five_parameters() -> None:
    wide = []
    for path, function in every_function():
        # The parameters of a command are its options.
        decorated = any(".command(" in ast.unparse(one) for one in function.decorator_list)
        command = path.is_relative_to(source.PACKAGE / "cli") and (decorated or "typer." in ast.unparse(function.args))
        taken = function.args
        own = [one.arg for one in (*taken.posonlyargs, *taken.args, *taken.kwonlyargs)]
        if len([one for one in own if one not in ("self", "cls")]) > PARAMETERS and not command:
            wide.append(f"{at(path, function)} {function.name}: {own}")
    assert wide == []


def test_no_name_is_one_of_those_that_say_nothing() -> None:
    wrong = [source.name(path) for path in source.modules() if says_nothing(path.stem)]
    for path, node in everywhere():
        if isinstance(node, ast.ClassDef) and says_nothing(node.name):
            wrong.append(f"{at(path, node)} class {node.name}")
        elif isinstance(node, source.Function) and node.name.strip("_") in EMPTY_WORDS:
            wrong.append(f"{at(path, node)} def {node.name}")
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in EMPTY_WORDS:
            wrong.append(f"{at(path, node)} {node.id} =")
    assert wrong == []


@pytest.mark.parametrize("name", ["JobManager", "BaseStep", "StepImpl", "git_utils", "PathHelper", "HTTPHandler"])
def test_the_rule_on_names_catches_what_it_should(name: str) -> None:
    assert says_nothing(name)


@pytest.mark.parametrize("name", ["Baseline", "database", "Implementation", "rebased", "Serviced", "metadata"])
def test_the_rule_on_names_leaves_words_of_the_domain_alone(name: str) -> None:
    assert not says_nothing(name)


def test_nothing_swallows_every_error() -> None:
    wrong = []
    for path, node in everywhere():
        if not isinstance(node, ast.ExceptHandler):
            continue
        caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
        named = {ast.unparse(one) if one else "everything" for one in caught}
        # Cleaning up on everything's way is fine as long as it goes on rising.
        rises = isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None
        if named & {"Exception", "everything"} or ("BaseException" in named and not rises):
            wrong.append(f"{at(path, node)} except {', '.join(sorted(named))}")
    assert wrong == []


@pytest.mark.spec("C12")
def test_only_one_module_reads_the_environment() -> None:
    reading = {"os.environ", "os.environb", "os.getenv", "os.getenvb"}
    attributes = [(path, node) for path, node in everywhere() if isinstance(node, ast.Attribute)]
    # Setting a default for a library is no reading.
    written = {id(node.value) for _, node in attributes if node.attr == "setdefault"}
    found = {source.name(path) for path, node in attributes if ast.unparse(node) in reading and id(node) not in written}
    # What is in testing/ are programs and stages of their own, which stand for the people who start us.
    assert {path for path in found if "/testing/" not in path} == {"src/resolvent/places.py"}


def test_an_event_loop_is_started_by_the_front_end_only() -> None:
    started = {
        source.name(path)
        for path, node in everywhere()
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("asyncio.run", "asyncio.Runner")
    }
    assert {path for path in started if "/testing/" not in path and "/cli/" not in path} == set()


def test_nothing_waits_for_a_fixed_time() -> None:
    slept = [
        at(path, node)
        for path, node in everywhere()
        if isinstance(node, ast.Call)
        and ast.unparse(node.func) in ("time.sleep", "asyncio.sleep")
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and node.args[0].value
    ]
    assert slept == []


@pytest.mark.spec("D9")
def test_nothing_random_timed_or_unordered_is_in_a_playbook() -> None:
    banned = {"random", "time", "datetime", "uuid", "secrets", "os"}
    wrong = []
    for path, node in everywhere():
        if path.parent.name != "playbooks":
            continue
        if isinstance(node, ast.Import | ast.ImportFrom):
            named = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            wrong += [f"{at(path, node)} {one}" for one in named if one.split(".")[0] in banned]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("set", "frozenset", "hash", "id"):
            wrong.append(f"{at(path, node)} {ast.unparse(node)}")
    assert wrong == []


def test_every_module_says_in_one_sentence_what_it_is() -> None:
    silent = [source.name(path) for path in source.modules() if not ast.get_docstring(source.tree(path))]
    assert [path for path in silent if not path.endswith("__init__.py")] == []
