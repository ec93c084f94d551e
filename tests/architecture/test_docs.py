"""Documents say what is there, and nothing about the machine they were written on."""

import re
from pathlib import Path

import pytest
from tests.architecture import source
from tests.conformance.report import marks

DOCS = source.ROOT / "docs"
PAGES = sorted([*source.ROOT.glob("*.md"), *DOCS.rglob("*.md")])
NOUNS = [
    "issue",
    "pull request",
    "crash",
    "run",
    "playbook",
    "branch",
    "job",
    "change",
    "check",
    "evidence",
    "claim",
    "finding",
    "verdict",
    "gate",
    "effect",
    "decision",
]


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_the_glossary_holds_every_noun_once() -> None:
    defined = re.findall(r"^\| \*\*(.+?)\*\* \|", text_of(DOCS / "GLOSSARY.md"), re.M)
    assert [noun for noun in NOUNS if noun not in defined] == []
    assert len(defined) == len(set(defined))


def statements() -> list[tuple[str, str]]:
    """Every numbered statement of the specification, with its text."""
    found = re.findall(r"^- \*\*([A-Z]\d+)\*\* (.+?)(?=^- |^$|^\|)", text_of(DOCS / "SPEC.md") + "\n\n", re.M | re.S)
    return [(number, text) for number, text in found]


def test_every_statement_is_numbered_in_order_and_says_how_binding_it_is() -> None:
    counts: dict[str, int] = {}
    for number, text in statements():
        letter = number[0]
        counts[letter] = counts.get(letter, 0) + 1
        assert number == f"{letter}{counts[letter]}"
        assert re.search(r"\b(MUST|SHOULD|MAY)\b", text), number
    assert sum(counts.values()) > 80


def test_nothing_binding_is_said_outside_of_a_numbered_statement() -> None:
    said = len(re.findall(r"\b(?:MUST|SHOULD|MAY)\b", text_of(DOCS / "SPEC.md")))
    numbered = sum(len(re.findall(r"\b(?:MUST|SHOULD|MAY)\b", text)) for _, text in statements())
    introduced = len("MUST, MUST NOT, SHOULD and MAY".replace(",", "").split()) - 2
    assert said == numbered + introduced


def test_every_statement_is_asserted_by_a_test_that_can_fail_and_no_mark_names_another() -> None:
    known, marked = [number for number, _ in statements()], marks("spec")
    assert [number for number in known if number not in {mark.id for mark in marked}] == []
    assert [f"{mark.file}:{mark.line} {mark.id}" for mark in marked if mark.id not in known] == []
    assert [f"{mark.file}:{mark.line} {mark.test}" for mark in marked if not mark.asserts] == []


def test_the_architecture_shows_every_module_there_is_and_none_that_is_not() -> None:
    tree = re.search(r"```\nsrc/resolvent/\n(.*?)\ndocs/", text_of(DOCS / "ARCHITECTURE.md"), re.S)
    assert tree
    drawn = re.findall(r"^[├└]── (\S+)", tree[1], re.M)
    there = {path.name + ("/" if path.is_dir() else "") for path in source.PACKAGE.iterdir()}
    code = {name for name in there if name.endswith(("/", ".py")) and not name.startswith("__")}
    assert set(drawn) == code


@pytest.mark.parametrize("page", PAGES, ids=source.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text_of(page)):
        if not re.match(r"[a-z]+:", target):
            place = (page.parent / target).resolve()
            assert place.is_relative_to(source.ROOT), target
            assert place.exists(), target


def test_every_target_that_documents_name_is_in_the_makefile() -> None:
    makefile = text_of(source.ROOT / "Makefile")
    for page in PAGES:
        for target in re.findall(r"(?:^|`)make ([a-z-]+)", text_of(page), re.M):
            assert re.search(rf"^{target}:", makefile, re.M), f"{source.name(page)}: make {target}"


def test_every_decision_is_numbered_and_listed() -> None:
    listed = text_of(DOCS / "ARCHITECTURE.md")
    pages = sorted((DOCS / "decisions").glob("*.md"))
    assert [page.name[:4] for page in pages] == [f"{number:04}" for number in range(1, len(pages) + 1)]
    assert [page.name for page in pages if page.name not in listed] == []


def test_the_lock_holds_names_versions_and_hashes_only() -> None:
    line = re.compile(r"[a-z0-9._-]+==\S+( ; [^\\]+)? \\|    --hash=sha256:[0-9a-f]{64}( \\)?")
    for name in ("requirements.lock", "requirements-agents.lock"):
        assert [one for one in text_of(source.ROOT / name).splitlines() if not line.fullmatch(one)] == []


def test_the_lock_covers_every_dependency_of_the_project() -> None:
    locked = set(re.findall(r"^([a-z0-9._-]+)==", text_of(source.ROOT / "requirements.lock"), re.M))
    wanted = re.findall(r'^  "([A-Za-z0-9._-]+)(?:\[\w+\])?(?:[><=]=)', text_of(source.ROOT / "pyproject.toml"), re.M)
    assert [name for name in wanted if name.lower() not in locked] == []


def test_nothing_names_a_place_of_this_machine_or_of_a_package_index() -> None:
    places = {str(source.ROOT), f"{Path.home()}/"} - {"/", "//"}
    index = re.compile(r"--(?:extra-)?index-url|--find-links|pythonhosted|PIP_(?:INDEX|FIND)", re.I)
    wrong = []
    for path in source.kept_files():
        if path == Path(__file__):
            continue
        content = path.read_bytes().decode("utf-8", "replace")
        wrong += [f"{source.name(path)} names {place}" for place in places if place in content]
        wrong += [f"{source.name(path)} names {found[0]}" for found in index.finditer(content)]
    assert wrong == []
