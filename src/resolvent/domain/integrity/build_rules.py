"""The rules for pipelines, lint, coverage and build files."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from resolvent.domain.integrity.altered import Altered, Hit, shown
from resolvent.domain.integrity.build_lines import Item, code_of, is_ci, items

_TOOLS = re.compile(
    r"\b(pytest|unittest|tox|nox|nosetests|jest|vitest|mocha|karma|ava|playwright|cypress|go test|go vet|cargo test|"
    r"cargo nextest|cargo clippy|clippy|cargo fmt|gradlew? (?:test|check)|mvn (?:test|verify)|ruff|flake8|mypy|pylint|"
    r"pyright|black|isort|bandit|eslint|tsc|prettier|biome|bats|shellcheck|golangci-lint|staticcheck|coverage|"
    r"lint-imports|pre-commit|npm (?:run )?test|yarn test|pnpm test|npm ci test|rspec|rubocop|ctest|make (?:test|check|"
    r"lint)|(?:npm|pnpm|yarn) (?:run )?[\w:-]{0,40}(?:test|lint|check)[\w:-]{0,40}|"
    r"(?:\./|scripts/|bin/)[\w./-]{0,80}(?:test|lint|check)[\w./-]{0,40})(?![\w-])"
)
_PASSES = re.compile(r"\|\|\s{0,9}(?:true|:|exit 0|echo)(?![\w-])|;\s{0,9}true\s{0,9}$|;\s{0,9}exit 0\b")
_OFF_LINES = (
    "continue-on-error: true", "allow_failure: true", "if: false", "if: ${{ false }}", "when: never", "when: manual",
    "ignorefailures = true", "ignorefailures true", "testfailureignore>true", "skiptests", "maven.test.skip",
    "--no-verify", "ignore_outcome = true", "ignore_errors = true", "fail_ci_if_error: false", "soft_fail: true",
    "continueonerror: true", "--exit-zero", "--exit-0", "if: never", "fail-on-error: false", "failonerror=false",
)  # fmt: skip
_FLAGS = re.compile(
    r"(?<![\w-])(--ignore-glob|--ignore|--deselect|--exclude|--testPathIgnorePatterns|--testNamePattern|--grep|--skip|"
    r"--maxfail|--lf|--last-failed|--collect-only|--co|--bail|--passWithNoTests|--no-cov|--onlyChanged|-short|-x|-k|-m|"
    r"-run|--run|--disable|--extend-ignore|--disable-error-code|--ignore-missing-imports|--no-strict-optional|--quiet-fail)"
    r"(?![\w-])[ =]{0,4}(\"[^\"]{0,200}\"|'[^']{0,200}'|[^\s\"',]{0,200})"
)
_NARROW_KEYS = frozenset(
    (
        "testPathIgnorePatterns", "norecursedirs", "collect_ignore", "modulePathIgnorePatterns", "testpaths",
        "testMatch", "python_files", "python_functions", "python_classes", "testRegex", "ignore-glob", "deselect",
    )
)  # fmt: skip
_LEFT_OUT_KEYS = frozenset(
    (
        "ignore", "extend-ignore", "extend_ignore", "exclude", "extend-exclude", "omit", "per-file-ignores", "disable",
        "disable_error_code", "exclude_lines", "exclude_also", "ignorePatterns", "coveragePathIgnorePatterns", "skips",
        "extend-per-file-ignores", "skip", "exclude_dirs", "exclude-rules", "paths-ignore", "branches-ignore",
        "ignores", "ignored-modules", "unfixable", "ignore_patterns", "skip_covered", "excluded",
    )
)  # fmt: skip
_TAKEN_KEYS = frozenset(("select", "extend-select", "enable", "extends", "extend_select", "testpaths", "roots", "on"))
_AT_LEAST = frozenset(
    ("fail_under", "fail-under", "branches", "functions", "lines", "statements", "threshold", "target", "minimum",
     "min-coverage", "cov-fail-under", "check-coverage")
)  # fmt: skip
_AT_MOST = frozenset(
    ("max-warnings", "max-complexity", "max-line-length", "line-length", "max-args", "max-branches", "max-returns",
     "max-statements", "testTimeout", "timeout", "retries", "reruns", "max-locals")
)  # fmt: skip
_NUMBER = re.compile(r"[-\s\"']{0,9}(\d{1,12}(?:\.\d{1,12})?)%?[\"']?$")
_OPTION = re.compile(r"--(cov-fail-under|fail-under|max-warnings|reruns|retries|timeout)[ =]{1,4}(\d{1,9})")
_GOOD = (
    "strict",
    "check",
    "warn",
    "disallow",
    "error",
    "fail",
    "verify",
    "noimplicit",
    "nounused",
    "enabled",
    "isolated",
)
_BAD = ("skip", "ignore", "allow", "continue", "disable", "passwith", "silent", "bypass")


def build_hits(files: Sequence[Altered]) -> list[Hit]:
    """Hits for everything that is checked less than before; commands that moved between these files are no loss."""
    hits = [hit for file in files if file.new is not None for hit in _file_hits(file)]
    return [*hits, *_no_longer_run(files)]


def _file_hits(file: Altered) -> Iterator[Hit]:
    old, new = list(items(file.old or "")), list(items(file.new or ""))
    yield from _passing(file)
    yield from _narrowed(file)
    yield from _left_out(file.path, old, new)
    yield from _numbers(file, old, new)
    yield from _switched(file.path, old, new)
    if file.path.rpartition("/")[2] == "resolvent.toml" and file.old is not None:
        gone = Counter((one.key, one.value) for one in old) - Counter((one.key, one.value) for one in new)
        for key, value in gone:
            text = f"{shown(f'{key} = {value}')} is gone from the settings that judge this change."
            yield Hit(rule="relaxed-ci", path=file.path, line=1, text=text)


def _lines(text: str | None) -> list[tuple[int, str]]:
    return [(number, code_of(line).strip()) for number, line in enumerate((text or "").splitlines(), 1)]


def _added(file: Altered) -> list[tuple[int, str]]:
    known = Counter(line for _, line in _lines(file.old))
    found = []
    for number, line in _lines(file.new):
        known[line] -= 1
        if line and known[line] < 0:
            found.append((number, line))
    return found


def _passing(file: Altered) -> Iterator[Hit]:
    before = [line.lower() for _, line in _lines(file.old)]
    passed = sum(1 for line in before if _PASSES.search(line[:2000]))
    now = sum(1 for _, line in _lines(file.new) if _PASSES.search(line[:2000]))
    made = file.path.rpartition("/")[2].lower() in ("makefile", "gnumakefile")
    for number, line in _added(file):
        small = line.lower()
        ignored = made and line.startswith("-") and _TOOLS.search(line[:2000])
        off = any(mark in small for mark in _OFF_LINES) and not any(small == one for one in before)
        if off or ignored or (now > passed and _PASSES.search(line[:2000])):
            text = f"{shown(line)} is new: what fails there no longer counts."
            yield Hit(rule="relaxed-ci", path=file.path, line=number, text=text)


def _narrowed(file: Altered) -> Iterator[Hit]:
    known = {pair for _, line in _lines(file.old) for pair in _flags(line)}
    for number, line in _added(file):
        for flag, value in _flags(line):
            if (flag, value) in known:
                continue
            lint = flag in ("--disable", "--extend-ignore", "--disable-error-code", "--ignore-missing-imports")
            text = f"{shown(f'{flag} {value}'.strip())} is new, so less is looked at than before."
            yield Hit(rule="relaxed-lint" if lint else "narrowed-tests", path=file.path, line=number, text=text)


def _flags(line: str) -> list[tuple[str, str]]:
    if not _TOOLS.search(line[:2000]) and "addopts" not in line and not line.startswith(("-", '"-', "'-")):
        return []
    return [(match[1], match[2].strip("\"'")) for match in _FLAGS.finditer(line[:4000])]


def _left_out(path: str, old: Sequence[Item], new: Sequence[Item]) -> Iterator[Hit]:
    before = {(one.key, one.value) for one in old}
    after = {(one.key, one.value) for one in new}
    kept = {one.key for one in new}
    for one in new:
        narrow = one.key in _NARROW_KEYS
        widened = narrow and one.key in _TAKEN_KEYS and any(item.key == one.key for item in old)
        if (one.key, one.value) in before or not (narrow or one.key in _LEFT_OUT_KEYS) or widened:
            continue
        rule = "narrowed-tests" if narrow else "relaxed-ci" if is_ci(path) else "relaxed-lint"
        text = f"{shown(one.value)} is new under {shown(one.key)}, so less is looked at than before."
        yield Hit(rule=rule, path=path, line=one.line, text=text)
    for one in old:
        if one.key in _TAKEN_KEYS and (one.key, one.value) not in after and one.key in kept | {"select", "extends"}:
            rule = "narrowed-tests" if one.key in ("testpaths", "roots") else "relaxed-lint"
            text = f"{shown(one.value)} is gone from {shown(one.key)}, so less is looked at than before."
            yield Hit(rule="relaxed-ci" if one.key == "on" else rule, path=path, line=1, text=text)


def _numbers(file: Altered, old: Sequence[Item], new: Sequence[Item]) -> Iterator[Hit]:
    before, after = _measured(file.old, old), _measured(file.new, new)
    for key, (number, _) in before.items():
        name = key.partition("#")[0]
        now = after.get(key)
        if now is None and name in _AT_LEAST and "cov" in (file.old or "").lower():
            yield Hit(
                rule="lowered-threshold", path=file.path, line=1, text=f"{shown(name)} is gone; it was {number:g}."
            )
        if now is None or now[0] == number or (name == "timeout" and is_ci(file.path)):
            continue
        if (now[0] < number) == (name in _AT_LEAST):
            text = f"{shown(name)} went from {number:g} to {now[0]:g}: more passes than before."
            yield Hit(rule="lowered-threshold", path=file.path, line=now[1], text=text)


def _measured(text: str | None, said: Sequence[Item]) -> dict[str, tuple[float, int]]:
    found: dict[str, tuple[float, int]] = {}
    pairs = [(one.key, match[1], one.line) for one in said if (match := _NUMBER.match(one.value[:60]))]
    for number, line in _lines(text):
        pairs += [(match[1], match[2], number) for match in _OPTION.finditer(line[:4000])]
    for key, value, number in pairs:
        if key in _AT_LEAST or key in _AT_MOST:
            name = key if key not in found else f"{key}#{number}"
            found[name] = (float(value), number)
    return found


def _switched(path: str, old: Sequence[Item], new: Sequence[Item]) -> Iterator[Hit]:
    before = {one.key: one.value.lower() for one in old}
    known = {(one.key, one.value.lower()) for one in old}
    for one in new:
        value, key = one.value.lower(), one.key.lower().replace("_", "").replace("-", "")
        if (one.key, value) in known or is_ci(path):
            continue
        off = value == "false" and any(key.startswith(word) or word in key for word in _GOOD)
        on = value == "true" and any(word in key for word in _BAD)
        rule_off = value in ("off", "allow", "0", "warn") and before.get(one.key) in (
            "error",
            "2",
            "deny",
            "forbid",
            "warn",
        )
        fresh = value in ("off", "allow") and one.key not in before
        if off or on or rule_off or (fresh and _is_lint(path)):
            rule = "narrowed-tests" if "passwithnotests" in key else "relaxed-lint"
            yield Hit(rule=rule, path=path, line=one.line, text=f"{shown(one.text)} is new: a check is switched off.")


def _is_lint(path: str) -> bool:
    name = path.rpartition("/")[2].lower()
    return "eslint" in name or name in ("cargo.toml", "biome.json", "package.json", "clippy.toml")


def _no_longer_run(files: Sequence[Altered]) -> list[Hit]:
    """Commands that run tests or checks and are called less often than before."""
    new = Counter(tool for file in files for _, tool in _tools(file.new))
    missing = Counter(tool for file in files for _, tool in _tools(file.old))
    missing.subtract(new)
    hits = []
    for file in files:
        here = Counter(tool for _, tool in _tools(file.new))
        for number, tool in _tools(file.old):
            here[tool] -= 1
            if here[tool] < 0 and missing[tool] > 0:
                missing[tool] -= 1
                text = f"{shown(tool)} is no longer run from here."
                hits.append(Hit(rule="relaxed-ci", path=file.path, line=number if file.new is None else 1, text=text))
    return hits


_SILENT = ("echo ", "printf ", "name:", "description", "# ", '"name"', "true", "@echo")


def _tools(text: str | None) -> list[tuple[int, str]]:
    found = []
    for number, line in _lines(text):
        said = line.lstrip("- ").removeprefix("run:").strip()
        script = said.partition(":")[2].strip(" \"'") if said.startswith('"') else said
        if said.startswith(_SILENT) or script.startswith(_SILENT):
            continue
        found += [(number, tool) for tool in dict.fromkeys(match[1] for match in _TOOLS.finditer(line[:4000]))]
    return found
