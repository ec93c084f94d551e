"""The corpus: small projects with one bug each, and everything an honest or a cheating author could do about it.

A file of `corpus/` is a bug: lines of `key: value`, then sections. `=== project PATH` is a file of the project;
`=== issue`, `=== reproducer`, `=== variant` and `=== truth` are texts; `=== honest PATH` and the like say what a patch
does to a file: hunks of lines that begin with a minus, a plus or a blank, parted by `@@`, or the text of a new file.
What the projects of one language share is in `corpus/_LANGUAGE.txt`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from resolvent.domain.change import Expect, File, Reproducer

# The truth is one more patch file nobody but the bench sees; the others are what authors may do.
PATCHES = ("honest", "special", "swallow", "plant", "flaky")
LIMIT_S = 60.0
Tree = dict[str, str]


@dataclass(frozen=True)
class Language:
    """How its scripts are run, what they are called, and how a project's own tests are run."""

    name: str
    program: str
    suffix: str
    tests: str

    def script(self, name: str) -> str:
        return f"{name}.{self.suffix}"


LANGUAGES = {
    "python": Language("python", "python3", "py", "python3 -m unittest -q"),
    "javascript": Language("javascript", "node", "js", 'for each in test/*.test.js; do node "$each" || exit 1; done'),
    "shell": Language("shell", "sh", "sh", 'for each in tests/test_*.sh; do sh "$each" || exit 1; done'),
}


@dataclass(frozen=True)
class Bug:
    """One project with its issue, how to show the problem, and what may be done about it."""

    name: str
    language: Language
    title: str
    kind: str
    issue: str
    # The existing test that catches what the planted regression breaks.
    guard: str
    project: Mapping[str, str]
    reproducer: Reproducer
    # What somebody would write who read the issue and never saw a patch.
    variants: tuple[Reproducer, ...]
    # Decides whether a tree really is right: with the project's own tests as they were.
    truth: Reproducer
    patches: Mapping[str, Mapping[str, str]]

    def patched(self, kind: str) -> Tree:
        """The whole project after a patch."""
        return {**self.project, **self.patches[kind]}

    @property
    def product(self) -> str:
        """The file the bug is in."""
        return next(path for path in self.patches["honest"] if not is_test(path))

    @property
    def new_tests(self) -> Tree:
        """What the honest author adds to the tests."""
        return {path: text for path, text in self.patches["honest"].items() if is_test(path)}

    @property
    def guarding(self) -> str:
        """The file of the test that catches the regression."""
        return next(path for path, text in self.project.items() if is_test(path) and self.guard in text)


def is_test(path: str) -> bool:
    """In this corpus, tests are below one of two directories."""
    return path.startswith(("tests/", "test/"))


@cache
def corpus() -> tuple[Bug, ...]:
    """Every bug, in the order of their names."""
    texts = {
        entry.name.removesuffix(".txt"): entry.read_text(encoding="utf-8")
        for entry in (files("resolvent.testing.gates") / "corpus").iterdir()
        if entry.name.endswith(".txt")
    }
    return tuple(
        read_bug(name, texts[name], shared=texts[f"_{name.partition('_')[0]}"])
        for name in sorted(texts)
        if not name.startswith("_")
    )


def read_bug(name: str, text: str, *, shared: str) -> Bug:
    """A bug from its file; ValueError when something is missing or a hunk does not fit."""
    language = LANGUAGES[name.partition("_")[0]]
    head, _, body = text.partition("=== ")
    told = dict(line.split(": ", 1) for line in head.splitlines())
    sections = [*_sections(shared.partition("=== ")[2]), *_sections(body)]
    project = {words[1]: section for words, section in sections if words[0] == "project"}
    told_once = {words[0]: section for words, section in sections if len(words) == 1}
    expect = Expect(pattern=told["expect"])
    variants = [section for words, section in sections if words[0] == "variant"]
    patches = {kind: _patch(project, sections, kind) for kind in PATCHES if kind != "plant"}
    # The regression is planted into the honest fix, for which everything else passes.
    honest = {**project, **patches["honest"]}
    return Bug(
        name=name,
        language=language,
        title=told["title"],
        kind=told["kind"],
        issue=told_once["issue"].strip(),
        guard=told["guard"],
        project=project,
        reproducer=_script(language, "reproduce", told_once["reproducer"], expect),
        variants=tuple(
            _script(language, f"variant{number}", variant, expect) for number, variant in enumerate(variants, start=1)
        ),
        truth=_truth(language, told_once["truth"], project),
        patches={**patches, "plant": patches["honest"] | _patch(honest, sections, "plant")},
    )


def _sections(text: str) -> list[tuple[list[str], str]]:
    """The words of each heading, and what stands below it."""
    found = []
    for section in text.split("\n=== "):
        heading, _, below = section.partition("\n")
        found.append((heading.split(), below if below.endswith("\n") or not below else f"{below}\n"))
    return found


def _script(language: Language, name: str, text: str, expect: Expect) -> Reproducer:
    path = language.script(name)
    command = f"{language.program} {path}"
    return Reproducer(command=command, files=(File(path=path, text=text),), expect=expect, timeout_s=LIMIT_S)


def _truth(language: Language, text: str, project: Tree) -> Reproducer:
    script = language.script("truth")
    tests = [File(path=path, text=test) for path, test in project.items() if is_test(path)]
    return Reproducer(
        command=f"{language.program} {script} && {{ {language.tests}; }}",
        files=(File(path=script, text=text), *tests),
        timeout_s=LIMIT_S,
    )


def _patch(tree: Tree, sections: list[tuple[list[str], str]], kind: str) -> Tree:
    """The files a patch touches, as they are after it."""
    return {
        words[1]: edited(tree[words[1]], section) if words[1] in tree else section
        for words, section in sections
        if words[0] == kind
    }


def edited(text: str, hunks: str) -> str:
    """The text after hunks of `-`, `+` and blank lines, each of which fits in exactly one place."""
    for hunk in hunks.removesuffix("\n").split("\n@@\n"):
        lines = hunk.split("\n")
        if wrong := [line for line in lines if line[:1] not in ("-", "+", " ")]:
            raise ValueError(f"not a line of a hunk: {wrong[0]!r}")
        old, new = ("".join(f"{line[1:]}\n" for line in lines if line[0] in (sign, " ")) for sign in ("-", "+"))
        if not old or text.count(old) != 1:
            raise ValueError(f"fits in {text.count(old)} places:\n{hunk}")
        text = text.replace(old, new)
    return text
