"""Pipelines, lint, coverage and build files that are made to check less."""

# One row is one line, however long its two versions are.
# ruff: noqa: E501

import pytest
from tests.domain.integrity_tables import Row, altered, rules

CI = """
    on:
      push:
      pull_request:
    jobs:
      test:
        runs-on: ubuntu-latest
        steps:
          - uses: actions/checkout@v4
          - name: Lint
            run: ruff check .
          - name: Test
            run: pytest -q tests
"""
PYPROJECT = """
    [tool.pytest.ini_options]
    testpaths = ["tests"]
    addopts = "-q --strict-markers"

    [tool.coverage.report]
    fail_under = 90

    [tool.ruff.lint]
    select = ["E", "F", "B"]
    ignore = ["E501"]

    [tool.mypy]
    strict = true
"""
PACKAGE = """
    {
      "name": "money",
      "scripts": {
        "test": "jest --ci",
        "lint": "eslint . --max-warnings 0"
      },
      "jest": {
        "coverageThreshold": {
          "global": {
            "lines": 90
          }
        }
      }
    }
"""
MAKE = "test:\n\tpytest -q\n\nlint:\n\truff check .\n"
TSCONFIG = '{\n  "compilerOptions": {\n    "strict": true,\n    "target": "es2022"\n  }\n}\n'
ESLINT = "module.exports = {\n  rules: {\n    'no-eval': 'error',\n  },\n};\n"


def ci(what: str, old: str, new: str, *expected: str) -> Row:
    assert old in CI
    return Row(what, CI, CI.replace(old, new), expected, ".github/workflows/ci.yml")


def project(what: str, old: str, new: str, *expected: str) -> Row:
    assert old in PYPROJECT
    return Row(what, PYPROJECT, PYPROJECT.replace(old, new), expected, "pyproject.toml")


def package(what: str, old: str, new: str, *expected: str) -> Row:
    assert old in PACKAGE
    return Row(what, PACKAGE, PACKAGE.replace(old, new), expected, "package.json")


RELAXED = [
    ci("|| true", "pytest -q tests", "pytest -q tests || true", "relaxed-ci"),
    ci("continue-on-error", "          - name: Test\n", "          - name: Test\n            continue-on-error: true\n", "relaxed-ci"),
    ci("if: false", "          - name: Test\n", "          - name: Test\n            if: false\n", "relaxed-ci"),
    ci("a step is removed", "          - name: Test\n            run: pytest -q tests\n", "", "relaxed-ci"),
    ci("a step is a comment", "            run: ruff check .", "            # run: ruff check .", "relaxed-ci"),
    ci("a command becomes echo", "run: pytest -q tests", "run: echo pytest", "relaxed-ci"),
    ci("a test is left out", "pytest -q tests", "pytest -q tests --deselect tests/test_a.py::test_b", "narrowed-tests"),
    ci("a file is left out", "pytest -q tests", "pytest -q tests --ignore=tests/test_a.py", "narrowed-tests"),
    ci("by name", "pytest -q tests", "pytest -q tests -k 'not split'", "narrowed-tests"),
    ci("after the first", "pytest -q tests", "pytest -q -x tests", "narrowed-tests"),
    ci("not for pull requests", "      pull_request:\n", "      pull_request:\n        paths-ignore: ['src/**']\n", "relaxed-ci"),
    Row("the pipeline goes", CI, None, ("relaxed-ci",), ".github/workflows/ci.yml"),
    Row("gitlab may fail", "test:\n  script: pytest\n", "test:\n  script: pytest\n  allow_failure: true\n", ("relaxed-ci",), ".gitlab-ci.yml"),
    Row("make: || true", MAKE, MAKE.replace("pytest -q", "pytest -q || true"), ("relaxed-ci",), "Makefile"),
    Row("make: ignored", MAKE, MAKE.replace("\tpytest", "\t-pytest"), ("relaxed-ci",), "Makefile"),
    Row("make: nothing", MAKE, MAKE.replace("pytest -q", "true"), ("relaxed-ci",), "Makefile"),
    project("a lower threshold", "fail_under = 90", "fail_under = 50", "lowered-threshold"),
    project("no threshold", "    fail_under = 90\n", "", "lowered-threshold"),
    project("a rule is ignored", 'ignore = ["E501"]', 'ignore = ["E501", "F841"]', "relaxed-lint"),
    project("a group is not selected", '"F", "B"]', '"F"]', "relaxed-lint"),
    project("a path is excluded", "select =", 'exclude = ["src/money.py"]\n    select =', "relaxed-lint"),
    project("no longer strict", "strict = true", "strict = false", "relaxed-lint"),
    project("a test is left out", "--strict-markers", "--strict-markers --ignore=tests/test_a.py", "narrowed-tests"),
    project("other test paths", 'testpaths = ["tests"]', 'testpaths = ["tests/unit"]', "narrowed-tests"),
    project("missing imports are ignored", "strict = true", "strict = true\n    ignore_missing_imports = true", "relaxed-lint"),
    Row("a new pytest.ini", None, "[pytest]\naddopts = --ignore=tests/test_a.py\n", ("narrowed-tests",), "pytest.ini"),
    Row("coverage leaves out", "[run]\nbranch = true\n", "[run]\nbranch = true\nomit =\n    src/money.py\n", ("relaxed-lint",), ".coveragerc"),
    Row("a lower option", "[testenv]\ncommands = pytest --cov-fail-under=90\n", "[testenv]\ncommands = pytest --cov-fail-under=10\n", ("lowered-threshold",), "tox.ini"),
    Row("tox ignores", "[testenv]\ncommands = pytest\n", "[testenv]\nignore_outcome = true\ncommands = pytest\n", ("relaxed-ci", "relaxed-lint"), "tox.ini"),
    package("the test is echo", '"jest --ci"', '"echo ok"', "relaxed-ci"),
    package("the lint goes", '"jest --ci",\n        "lint": "eslint . --max-warnings 0"', '"jest --ci"', "relaxed-ci"),
    package("warnings are fine", "--max-warnings 0", "--max-warnings 99", "lowered-threshold"),
    package("a lower threshold", '"lines": 90', '"lines": 10', "lowered-threshold"),
    package("no tests are fine", "jest --ci", "jest --ci --passWithNoTests", "narrowed-tests"),
    package("|| true", "jest --ci", "jest --ci || true", "relaxed-ci"),
    Row("typescript is not strict", TSCONFIG, TSCONFIG.replace('"strict": true', '"strict": false'), ("relaxed-lint",), "tsconfig.json"),
    Row("a rule is off", ESLINT, ESLINT.replace("'error'", "'off'"), ("relaxed-lint",), ".eslintrc.js"),
    Row("jest leaves out", "module.exports = {\n  ci: 1,\n};\n", "module.exports = {\n  ci: 1,\n  testPathIgnorePatterns: ['money'],\n};\n", ("narrowed-tests",), "jest.config.js"),
    Row("cargo allows", '[lints.clippy]\nall = "deny"\n', '[lints.clippy]\nall = "allow"\n', ("relaxed-lint",), "Cargo.toml"),
    Row("a hook goes", "repos:\n  - repo: x\n    hooks:\n      - id: ruff\n", "repos: []\n", ("relaxed-ci",), ".pre-commit-config.yaml"),
    Row("our own settings", '[checks]\ntest = "pytest -q"\n', '[checks]\ntest = "true"\n', ("relaxed-ci",), "resolvent.toml"),
]  # fmt: skip

HONEST = [
    ci("a step is added", "          - name: Test\n", "          - name: Types\n            run: mypy\n          - name: Test\n"),
    ci("a newer action", "checkout@v4", "checkout@v5"),
    ci("another name", "name: Test\n", "name: Run the tests\n"),
    ci("more output", "pytest -q tests", "pytest -v tests"),
    ci("a comment", "            run: ruff check .", "            # never || true\n            run: ruff check ."),
    Row("make: a target is added", MAKE, MAKE + "\nclean:\n\trm -rf build\n", (), "Makefile"),
    project("a higher threshold", "fail_under = 90", "fail_under = 95"),
    project("a rule more", '"F", "B"]', '"F", "B", "UP"]'),
    project("over several lines", 'select = ["E", "F", "B"]', 'select = [\n      "E",\n      "F",\n      "B",\n    ]'),
    project("a rule less is ignored", 'ignore = ["E501"]', "ignore = []"),
    project("a dependency", "[tool.mypy]", '[project]\n    dependencies = ["httpx>=1"]\n\n    [tool.mypy]'),
    project("another path for tests", 'testpaths = ["tests"]', 'testpaths = ["tests", "more"]'),
    package("a version", '"name": "money"', '"name": "money",\n      "version": "1.2.0"'),
    package("a script", '"test": "jest --ci"', '"build": "node build.js",\n        "test": "jest --ci"'),
    package("a higher threshold", '"lines": 90', '"lines": 95'),
    Row("typescript is stricter", TSCONFIG, TSCONFIG.replace('"target"', '"noUnusedLocals": true,\n    "target"'), (), "tsconfig.json"),
    Row("a rule is added", ESLINT, ESLINT.replace("'no-eval'", "'no-var': 'error',\n    'no-eval'"), (), ".eslintrc.js"),
    Row("a dependency of cargo", "[dependencies]\n", '[dependencies]\nserde = "1"\n', (), "Cargo.toml"),
]  # fmt: skip


@pytest.mark.parametrize("row", RELAXED, ids=lambda row: row.what)
def test_what_checks_less_is_named_by_its_rule(row: Row) -> None:
    assert rules(altered(row.path, row.old, row.new)) == sorted(row.rules)


@pytest.mark.parametrize("row", HONEST, ids=lambda row: row.what)
def test_what_checks_as_much_or_more_is_let_pass(row: Row) -> None:
    assert rules(altered(row.path, row.old, row.new)) == []


def test_a_command_that_moves_into_the_makefile_is_still_run() -> None:
    pipeline = altered(".github/workflows/ci.yml", CI, CI.replace("pytest -q tests", "make all"))
    assert rules(pipeline, altered("Makefile", MAKE, MAKE + "\nall:\n\tpytest -q tests\n")) == []
