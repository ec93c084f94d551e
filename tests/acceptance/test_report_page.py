"""The report of a run in a real browser: it is read with nothing else, anywhere, and whatever others wrote is text."""

import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from .conftest import make_place
from .process import Place

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
QUIET = ("--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-sync")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no browser: sudo apt-get install -y chromium")

POISON = "</details></section><script>document.title=`owned`</script><img src=http://127.0.0.1:9/x onerror=alert(1)>"
BIDI = "\u202etxet sdrawkcab\u202c"
LOUD = f"yes '{POISON}' | head -c 1000000; printf '\\033[31mred \\342\\200\\256 \\000 end'"
REPRODUCER = {"command": f"grep -q good value.txt || {{ {LOUD}; exit 1; }}", "expect": {"exit": 1}}
# Everything that an agent says, leaves and lets us run is as bad as it can be.
HOSTILE = rf"""
case "$RESOLVENT_STEP" in
  analyze) cat <<'END'
VERDICT=NEED_FIX
BEGIN_SOLUTION_DESIGN
root_cause: {POISON} {BIDI}
severity: P1
approach: make it good {POISON}
reproducer:
```json
{json.dumps(REPRODUCER)}
```
END_SOLUTION_DESIGN
END
  ;;
  implement) echo good > value.txt; echo '{POISON} {BIDI}' > '<b>bold.html'
    head -c 300000 /dev/zero | tr '\0' x > wide.txt
    echo '{POISON}'; echo IMPLEMENTATION_SUCCESS ;;
  review) cat <<'END'
P0_P1_FINDINGS
BEGIN_P0_P1_FINDINGS
- Severity: P1
  Description: {POISON} {BIDI} @team
  Code evidence: value.txt:1 {POISON}
  Reachability: {POISON}
  Blast radius: {POISON}
  reproducer: none {POISON}
END_P0_P1_FINDINGS
END
  ;;
  verify) echo '{POISON}'; echo NO_IN_SCOPE_P0_P1 ;;
  variants) echo '{POISON}' ;;
esac
"""


@dataclass
class Opened:
    """A page in the browser, and everything that it did besides standing there."""

    page: Page
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)
    dialogs: list[str] = field(default_factory=list)

    def js(self, expression: str) -> Any:
        return self.page.evaluate(expression)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    root = ("--no-sandbox",) if os.getuid() == 0 else ()
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=[*QUIET, *root])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def report(finished: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run as it should be."""
    return written(finished, tmp_path_factory.mktemp("report") / "a b.html")


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The report of a run in which everybody was hostile."""
    made = make_place(tmp_path_factory.mktemp("hostile"))
    made.agent(HOSTILE)
    assert made("issue", "new", f"Bad {POISON} {BIDI}", "--body", POISON).code == 0
    said = made("resolve", "2", "--json")
    assert said.json["evidence"], said.err
    assert said.json["findings"], said.out
    return written(made, tmp_path_factory.mktemp("report") / "hostile.html")


def written(place: Place, file: Path) -> Path:
    said = place("report", "-o", str(file), "--json")
    assert said.code == 0, said.err
    assert said.json["file"] == str(file) and said.json["bytes"] == file.stat().st_size
    return file


def opened(browser: Browser, file: Path, *, width: int = 1280, **context: Any) -> Opened:
    page = browser.new_context(viewport={"width": width, "height": 900}, **context).new_page()
    found = Opened(page)
    page.on("console", lambda message: found.console.append(message.text))
    page.on("pageerror", lambda error: found.console.append(str(error)))
    page.on("request", lambda request: found.requests.append(request.url))
    page.on("dialog", lambda dialog: (found.dialogs.append(dialog.message), dialog.dismiss()))
    page.goto(file.as_uri())
    return found


SECTIONS = ["gate", "evidence", "findings", "decisions", "timeline", "diff", "cost", "transcripts", "record"]
ALL_OPEN = "document.querySelectorAll('details').forEach(one => one.open = true)"
WIDER = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.mark.spec("K13")
@pytest.mark.parametrize("which", ["report", "hostile"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_it_loads_nothing_says_nothing_and_is_never_wider_than_the_screen(
    browser: Browser, request: pytest.FixtureRequest, which: str, width: int
) -> None:
    file: Path = request.getfixturevalue(which)
    seen = opened(browser, file, width=width)
    assert seen.js(WIDER) == 0
    seen.js(ALL_OPEN)
    assert seen.js(WIDER) == 0
    assert seen.requests == [file.as_uri()]
    assert (seen.console, seen.dialogs) == ([], [])


def test_it_tells_the_run_to_who_allows_no_script(browser: Browser, report: Path) -> None:
    seen = opened(browser, report, java_script_enabled=False)
    page = seen.page
    assert page.locator("h1").inner_text() == "The value is bad"
    assert page.locator(".badge.large").inner_text() == "proven"
    reproducer = page.locator("#evidence > details").first
    assert "grep -q good value.txt" not in page.locator("#evidence").inner_text()
    reproducer.locator("summary").first.click()
    assert "grep -q good value.txt" in page.locator("#evidence").inner_text()
    assert "+good" in page.locator("#diff").inner_text()


@pytest.mark.spec("K13")
def test_nothing_that_others_wrote_is_more_than_text(browser: Browser, hostile: Path) -> None:
    seen = opened(browser, hostile)
    seen.js(ALL_OPEN)
    assert "owned" not in seen.page.title().replace(POISON, "")
    assert seen.js("document.querySelectorAll('script, img, iframe, object, embed, form, input, b').length") == 0
    names = "e.getAttributeNames().some(name => name.startsWith('on'))"
    assert seen.js(f"[...document.querySelectorAll('*')].filter(e => {names}).length") == 0
    sections = seen.js("[...document.querySelectorAll('section')].map(one => [one.id, one.parentElement.localName])")
    assert [name for name, parent in sections if parent == "main" and name != "question"] == SECTIONS
    text = seen.page.locator("body").inner_text()
    for section in ("#evidence", "#findings", "#diff", "#transcripts"):
        assert POISON in seen.page.locator(section).inner_text(), section
    assert "[U+202E]txet sdrawkcab" in text
    assert not set("\u202e\u202c\x1b\x00") & set(text)


def test_a_megabyte_of_log_makes_no_megabytes_of_page(hostile: Path) -> None:
    assert hostile.stat().st_size < 1_500_000
    assert "The end of what it printed" in hostile.read_text(encoding="utf-8")


CONTRAST = """() => {
  const parse = c => c.match(/[\\d.]+/g).map(Number);
  const one = v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const light = c => { const [r, g, b] = c.map(v => one(v / 255));
    return .2126 * r + .7152 * g + .0722 * b; };
  const back = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor);
    if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim())) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(parse(style.color)), light(back(e))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5 || parseFloat(style.fontSize) < 11.5)
      poor.push(`${e.localName}.${e.className} ${ratio} ${style.fontSize}`);
  }
  return [...new Set(poor)];
}"""


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_is_large_and_strong_enough_to_read(browser: Browser, report: Path, scheme: Any, width: int) -> None:
    seen = opened(browser, report, width=width, color_scheme=scheme)
    seen.js(ALL_OPEN)
    assert seen.js(CONTRAST) == []


def test_where_it_cannot_be_written_is_said_with_the_next_command(finished: Place, tmp_path: Path) -> None:
    said = finished("report", "-o", str(tmp_path / "no/where.html"))
    assert said.code == 2 and "cannot be written: No such file or directory" in said.err and "next:" in said.err
    here = finished("report", "-C", str(finished.project))
    assert here.code == 0 and Path(here.out.strip()).name.startswith("resolvent-r")
    Path(here.out.strip()).unlink()
