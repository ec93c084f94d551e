"""What a file is, told by its path: a test, a recorded result, product code, or neither."""

from typing import Literal

Language = Literal["python", "js", "go", "rust", "java", "shell", ""]

_SUFFIXES: dict[str, Language] = {
    "py": "python", "pyi": "python",
    "js": "js", "jsx": "js", "ts": "js", "tsx": "js", "mjs": "js", "cjs": "js", "mts": "js", "cts": "js",
    "go": "go", "rs": "rust", "java": "java", "kt": "java", "kts": "java",
    "sh": "shell", "bash": "shell", "bats": "shell", "zsh": "shell", "ksh": "shell",
}  # fmt: skip
_OTHER_CODE = frozenset(
    (
        "c",
        "cc",
        "cpp",
        "cxx",
        "h",
        "hh",
        "hpp",
        "cs",
        "rb",
        "php",
        "swift",
        "scala",
        "lua",
        "pl",
        "ex",
        "exs",
        "clj",
        "sql",
        "vue",
        "svelte",
        "zig",
        "dart",
    )
)
_PROSE = frozenset(("md", "rst", "txt", "adoc", "markdown"))
_TEST_PLACES = frozenset(
    (
        "test",
        "tests",
        "__tests__",
        "__snapshots__",
        "__mocks__",
        "testdata",
        "e2e",
        "androidtest",
        "integrationtest",
        "integration-tests",
    )
)
_SPEC_PLACES = frozenset(("spec", "specs"))
_RECORDED_PLACES = frozenset(
    (
        "__snapshots__",
        "snapshots",
        "snapshot",
        "golden",
        "goldens",
        "expected",
        "expectations",
        "fixtures",
        "fixture",
        "testdata",
        "cassettes",
    )
)
_RECORDED_SUFFIXES = frozenset(("snap", "golden", "expected", "approved", "out", "stdout", "stderr", "ambr"))


def suffix(path: str) -> str:
    """What follows the last dot of the file's name, in small letters."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name else ""


def language(path: str) -> Language:
    """The language whose rules read this file; empty for none."""
    return _SUFFIXES.get(suffix(path), "")


def among_tests(path: str) -> bool:
    """Whether a file stands in a directory of tests."""
    inside = {place.lower() for place in path.split("/")[:-1]}
    return bool(inside & _TEST_PLACES or (inside & _SPEC_PLACES and is_code(path)))


def is_test(path: str) -> bool:
    """Whether a file is there for tests only, by the conventions of every language we read."""
    if among_tests(path):
        return True
    name = path.rpartition("/")[2]
    stem = name.rpartition(".")[0] or name
    return suffix(path) in ("snap", "bats", "ambr") or _named_as_test(stem, path)


def _named_as_test(stem: str, path: str) -> bool:
    small, ending = stem.lower(), suffix(path)
    if ending == "py":
        return collected_by_name(path) or small in ("conftest", "tests", "test")
    match language(path):
        case "go":
            return small.endswith("_test")
        case "rust":
            return small in ("test", "tests") or small.endswith(("_test", "_tests"))
        case "java":
            return stem.endswith(("Test", "Tests", "TestCase", "IT", "Spec")) or (
                stem.startswith("Test") and stem[4:5].isupper()
            )
        case "js":
            return small.endswith((".test", ".spec", ".e2e", ".cy", "-test", "_test", "-spec", "_spec")) or (
                small in ("test", "tests")
            )
        case "shell":
            return (
                small in ("test", "tests")
                or small.startswith(("test_", "test-"))
                or small.endswith(("_test", "-test", "_tests", "-tests", ".test"))
            )
    return ending in ("rb", "exs", "php") and small.endswith(("_spec", "_test", "test"))


def collected_by_name(path: str) -> bool:
    """Whether pytest or unittest take up a Python file for its name."""
    name = path.rpartition("/")[2]
    return name.endswith(".py") and (name.startswith("test") or name.endswith(("_test.py", "_tests.py")))


def is_code(path: str) -> bool:
    """Whether a file is source text of a programming language."""
    return bool(language(path)) or suffix(path) in _OTHER_CODE


def is_recorded(path: str) -> bool:
    """Whether a file holds what tests compare with or start from: a snapshot, an expected output, a fixture."""
    inside = {place.lower() for place in path.split("/")[:-1]}
    ending = suffix(path)
    if ending in ("snap", "ambr"):
        return True
    if not is_test(path) or (is_code(path) and not inside & {"__snapshots__", "golden", "goldens", "expected"}):
        return False
    return bool(inside & _RECORDED_PLACES) or ending in _RECORDED_SUFFIXES or ending in (
        "json", "yaml", "yml", "csv", "xml", "html", "txt", "toml", "tsv", "jsonl", "svg", "sql"
    )  # fmt: skip


def is_product(path: str) -> bool:
    """Whether a file is code that is shipped: neither a test nor prose."""
    return is_code(path) and not is_test(path) and suffix(path) not in _PROSE
