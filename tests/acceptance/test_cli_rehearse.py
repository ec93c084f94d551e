"""A rehearsal copies, runs and tells; the real forge, played by a second one as github.com, is only read."""

import asyncio
import json
import os
import re
import subprocess
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from resolvent.errors import UsageError
from resolvent.forge_server.holdings import Account, Holdings
from resolvent.forge_server.hub import Hub, Proposal
from resolvent.forge_server.serving import Serving, serving
from resolvent.rehearsing.leading import TOKEN, environment, flags, led
from resolvent.rehearsing.rehearsal import REMEMBERED, Rehearsal, fresh, taken_up
from resolvent.rehearsing.telling import first_line
from resolvent.settings import load
from resolvent.testing.stage import git, make_project

from .conftest import HONEST
from .process import RESOLVENT, Place, Said

ISSUE = 42
BODY = "It should be **good**.\n\n<!-- nobody sees this -->\n"
# A repository that would take the run elsewhere, if anything in it could.
STRAY = """
[forge]
kind = "github"
repo = "acme/widgets"
token = "$GITHUB_TOKEN"
api = "https://api.github.com"
private_key = "$KEY_OF_AN_APP"
[store]
url = "$NO_SUCH_DATABASE"
"""


@dataclass
class Real:
    """A repository on github.com, which is a second rehearsal forge behind a proxy, and who works on it."""

    place: Place
    served: Serving
    token: str
    before: Holdings

    @property
    def hub(self) -> Hub:
        return self.served.hub

    async def rehearse(self, *words: str, at: Path | None = None, **variables: str) -> Said:
        """The command as a person types it in their own checkout, or elsewhere."""
        environ = self.place.environ | {"HTTPS_PROXY": self.served.proxy, "GITHUB_TOKEN": self.token}
        environ |= {"KEY_OF_AN_APP": "a key"} | variables
        process = await asyncio.create_subprocess_exec(
            *RESOLVENT,
            "rehearse",
            *words,
            cwd=at or self.place.project,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 100)
        assert process.returncode is not None
        said = Said(process.returncode, out.decode(), err.decode())
        assert self.token not in said.out + said.err
        return said

    async def untouched(self) -> None:
        """Nothing was written there: every request read, and all that it holds is what it held."""
        written = [
            f"{seen.method} {seen.path}"
            for seen in self.served.requests
            if seen.method != "GET" and not seen.path.endswith(".git/git-upload-pack")
        ]
        assert written == []
        now = await self.hub.holdings()
        assert (now.items, now.refs, now.checks) == (self.before.items, self.before.refs, self.before.checks)


async def number(hub: Hub, wanted: int, by: Account, **said: Any) -> None:
    """An issue under that number."""
    from resolvent.rehearsing.copying import _LET_GO, _held

    await hub.tables.change(lambda connection, at: _held(connection, wanted - 1))
    assert (await hub.open_issue(by, **said)).number == wanted
    await hub.tables.change(lambda connection, at: connection.write(_LET_GO))


async def furnish(hub: Hub, project: Path) -> str:
    """Issues, a pull request, comments and required checks; the token of the bot that works there."""
    await hub.forge.sync(project)
    ada = await hub.account("ada", permission="maintain")
    customer = await hub.account("customer", permission="read")
    bot = await hub.account("fixer", permission="write")
    await number(hub, ISSUE, customer, title="The value is bad", body=BODY)
    await hub.label(ada, ISSUE, add=("bug", "good first issue"))
    await hub.remark(ada, ISSUE, "I see it too. 🐛")
    await hub.remark(customer, ISSUE, "Since when?")
    commit = await git(project, "rev-parse", "HEAD")
    tree = await git(project, "rev-parse", "HEAD^{tree}")
    made = await hub.create_commit(ada, "Half a fix", tree, [commit])
    await hub.create_ref(ada, "refs/heads/ada/half", made.id)
    await hub.open_pull(ada, Proposal(head="ada/half", base="main", title="Half a fix", body=f"Fixes #{ISSUE}"))
    await hub.require(["build"])
    await hub.report(commit, "build", conclusion="success")
    return await hub.token(bot.login)


@pytest.fixture
async def real(tmp_path: Path) -> AsyncIterator[Real]:
    place = Place(tmp_path)
    files = {"value.txt": "bad\n", ".gitignore": "resolvent.local.toml\n", "resolvent.toml": STRAY}
    await make_project(place.project, files)
    hub = await Hub.open(tmp_path / "github", owner="acme", name="widgets")
    try:
        token = await furnish(hub, place.project)
        async with serving(hub) as served:
            own = tmp_path / "home/.config/resolvent/config.toml"
            own.parent.mkdir(parents=True)
            own.write_text(f'[forge]\nca = "{served.ca}"\n[policy]\nvariants = 0\n', encoding="utf-8")
            place.agent(HONEST)
            yield Real(place, served, token, await hub.holdings())
    finally:
        await hub.close()


async def held_by(document: dict[str, Any]) -> Holdings:
    owner, _, name = document["repo"].partition("/")
    hub = await Hub.open(Path(document["directory"]) / "forge", owner=owner, name=name)
    try:
        return await hub.holdings()
    finally:
        await hub.close()


def told(document: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(one["what"], one["where"], one["said"]) for one in document["would"]]


async def test_an_issue_is_resolved_on_a_copy_and_the_real_forge_is_only_read(real: Real) -> None:
    said = await real.rehearse("acme/widgets", str(ISSUE), "--json", "--set", "forge.api=https://api.github.com")
    assert said.code == 0, said
    document = said.json
    await real.untouched()
    assert document["run"]["outcome"] == "proven" and document["login"] == "fixer"
    assert document["run"]["pull_request"]["url"].startswith("https://localhost:")
    what = told(document)
    assert ("push", f"resolvent/issue-{ISSUE}", f"The value is bad (#{ISSUE})") in what
    assert ("pull request", "#43", f"The value is bad (#{ISSUE})") in what
    assert [one for one in what if one[0] == "comment"], "the comments of each step"
    held = await held_by(document)
    copy, original = held.items[ISSUE], real.before.items[ISSUE]
    for name in ("number", "title", "body", "author", "labels", "state"):
        assert getattr(copy, name) == getattr(original, name), name
    assert copy.created_at == int(original.created_at), "GitHub tells times in whole seconds"
    ours = len(original.remarks)
    assert [(one.author, one.body, one.created_at) for one in copy.remarks[:ours]] == [
        (one.author, one.body, int(one.created_at)) for one in original.remarks
    ]
    assert held.accounts["ada"].permission == "maintain" and held.accounts["customer"].permission == "read"
    pushed = document["run"]["change"]
    assert held.required == ("build",) and [run.conclusion for run in held.checks[pushed]] == ["success"]
    assert Path(document["report"]).read_text(encoding="utf-8").startswith("<!doctype html>")
    left = [path for path in Path(document["directory"]).rglob("*") if path.is_file()]
    assert left and [path for path in left if real.token.encode() in path.read_bytes()] == []


async def test_a_pull_request_is_rehearsed_from_anywhere_with_its_issue(real: Real) -> None:
    elsewhere = real.place.directory / "elsewhere"
    elsewhere.mkdir()
    real.place.agent("echo VERDICT=INVALID")
    script = real.place.directory / "agent.sh"
    agent = f'agents.shell={{use="command", command=["{script}"]}}'
    sets = (agent, "agents.writer=shell", "agents.reader=shell", "policy.variants=0")
    words = [word for text in sets for word in ("--set", text)]
    link = "https://github.com/acme/widgets/pull/43"
    said = await real.rehearse(link, "--from", str(real.place.project), *words, at=elsewhere)
    assert said.code == 0 and "which is only read" in said.err, said
    await real.untouched()
    assert "what fixer would have done on acme/widgets; nothing of it was done there:" in said.out, said
    assert " forge serve --directory " in said.out and "/report.html" in said.out
    (directory,) = (real.place.directory / "state/rehearsals").iterdir()
    held = await held_by({"repo": "acme/widgets", "directory": str(directory)})
    assert held.items[43].head == "ada/half" and held.items[43].author == "ada"
    assert held.items[ISSUE].title == "The value is bad", "the issue that it fixes came along"


async def test_a_red_ci_is_played_when_it_is_asked_for(real: Real) -> None:
    said = await real.rehearse("acme/widgets", str(ISSUE), "--json", "--ci", "failed")
    await real.untouched()
    assert said.code != 0 and said.json["run"]["outcome"] not in ("proven", "merged"), said
    held = await held_by(said.json)
    conclusions = {run.conclusion for runs in held.checks.values() for run in runs}
    assert "failure" in conclusions


async def test_a_rehearsal_that_asks_goes_on_with_the_answer(real: Real) -> None:
    (real.place.project / "resolvent.toml").write_text("[policy]\nmerge = 'ask'\n", encoding="utf-8")
    assert real.place("issue", "new", "The value is bad", "--body", "It should be good.").code == 0
    asked = await real.rehearse("--here", "1", "--ci", "none")
    assert asked.code == 3, asked
    found = re.search(r"rehearse --go-on (\S+) --decide (\S+)", asked.out)
    assert found, asked.out
    document = (await real.rehearse("--go-on", found[1], "--decide", found[2], "--json")).json
    assert document["run"]["outcome"] == "merged", document
    assert ("merge", "#2", "resolvent/issue-1 into main") in told(document)
    assert ("pull request", "#2", "The value is bad (#1)") in told(document), "what was done before the question"
    # The forge on this machine was read as well, and no more.
    assert real.place("pr", "ls", "--json").json == []
    assert real.place("runs", "--json").json == []
    assert (real.place.project / "value.txt").read_text() == "bad\n"


REFUSED: list[tuple[tuple[str, ...], dict[str, str], int, str]] = [
    ((), {}, 2, "a repository and an issue or pull request of it are rehearsed"),
    (("acme/widgets",), {}, 2, "a repository and an issue or pull request of it are rehearsed"),
    (("acme/widgets", "7"), {}, 4, "acme/widgets has no issue or pull request 7"),
    (("acme/gadgets", "7"), {}, 4, "acme/gadgets"),
    (("acme/widgets", "42"), {"GITHUB_TOKEN": ""}, 2, "forge.token is read from $GITHUB_TOKEN, which is not set"),
    (("acme/gadgets", "42"), {"GITHUB_TOKEN": ""}, 2, "reading acme/gadgets takes a token"),
    (("acme/widgets", "42"), {"GITHUB_TOKEN": "wrong"}, 1, "does not accept our token"),
    (
        ("acme/widgets", "42", "--from", "https://me:secret@example.com/x"),
        {},
        2,
        "--from takes a path, or an https",
    ),
    (("acme/widgets", "42", "--from", "--upload-pack=touch x"), {}, 2, "does not give main"),
    (("--here", "1"), {}, 2, "the issues of this repository are at acme/widgets"),
    (("--go-on", "nothing"), {}, 4, "there is no rehearsal 'nothing'; there are: none"),
    (("--go-on", "x", "--here"), {}, 2, "--go-on names all there is to say"),
]


async def test_what_cannot_be_rehearsed_is_said_and_leaves_nothing(real: Real) -> None:
    for words, variables, code, said in REFUSED:
        answer = await real.rehearse(*words, **variables)
        assert answer.code == code and said in answer.err and "next: " in answer.err, (words, answer)
        assert "secret" not in answer.err and "Traceback" not in answer.err
        assert list((real.place.directory / "state").glob("rehearsals/*")) == [], words
    await real.untouched()


def rehearsal(directory: Path) -> Rehearsal:
    return Rehearsal(directory, "acme/widgets", "issue", 1, login="fixer")


def test_no_token_of_a_forge_is_in_the_environment_of_the_run(tmp_path: Path) -> None:
    environ = {
        "PATH": "/bin",
        "GITHUB_TOKEN": "ghp_one",
        "GH_ENTERPRISE_TOKEN": "ghp_two",
        "ACME_TOKEN": "ghp_three",
        "A_COPY_OF_IT": "https://x:ghp_three@github.com",
        "ANTHROPIC_API_KEY": "sk-model",
        "HTTPS_PROXY": "http://proxy.example:3128",
        "no_proxy": "intranet",
        "RESOLVENT_HOME": "/somewhere",
    }
    copy = replace(rehearsal(tmp_path), withheld=("ACME_TOKEN", "NOT_SET"))
    given = environment(environ, copy, token="ghp_rehearsal")
    assert given == {
        "PATH": "/bin",
        "ANTHROPIC_API_KEY": "sk-model",
        "HTTPS_PROXY": "http://proxy.example:3128",
        "NO_PROXY": "intranet,localhost,127.0.0.1",
        "no_proxy": "intranet,localhost,127.0.0.1",
        "RESOLVENT_HOME": str(tmp_path / "state"),
        TOKEN: "ghp_rehearsal",
    }


def test_the_settings_of_a_rehearsal_win_over_whatever_the_repository_says(tmp_path: Path) -> None:
    (tmp_path / "resolvent.toml").write_text(STRAY + '[intake]\nsecret = "$X"\n', encoding="utf-8")
    settings = led(rehearsal(tmp_path), "https://localhost:4", tmp_path / "ca.pem")
    loaded = load(tmp_path, environ={}, overrides=("forge.repo=evil/one", "store.url=$X", *flags(settings)))
    forge = loaded.forge
    assert (forge.kind, forge.repo, forge.api) == ("github", "acme/widgets", "https://localhost:4/api/v3")
    assert (forge.token, forge.app, forge.installation, forge.private_key) == (f"${TOKEN}", "", 0, "")
    assert forge.ca == str(tmp_path / "ca.pem") and loaded.store.url == ""


def ended(state: Path, *, kept: bool = False) -> Path:
    """A rehearsal that another process made and ended."""
    code = "import sys, pathlib as p, resolvent.rehearsing.rehearsal as r; print(r.fresh(p.Path(sys.argv[1]), 'one'))"
    made = subprocess.run([RESOLVENT[0], "-c", code, state], check=True, capture_output=True, text=True).stdout
    replace(rehearsal(Path(made.strip())), kept=kept).save()
    return Path(made.strip())


def test_only_the_newest_rehearsals_stay_and_those_that_are_kept_or_played(tmp_path: Path) -> None:
    spared = [ended(tmp_path, kept=True), fresh(tmp_path, "played")]
    rehearsal(spared[1]).save()
    made = []
    for at in range(REMEMBERED + 2):
        made.append(ended(tmp_path))
        for path in (spared[1], made[-1]):
            os.utime(path, (at, at))
    there = {path.name for path in (tmp_path / "rehearsals").iterdir()}
    newest = {path.name for path in made[-REMEMBERED:]}
    assert {path.name for path in spared} | newest - {made[-REMEMBERED].name} <= there
    assert not there & {path.name for path in made[:-REMEMBERED]}
    with pytest.raises(UsageError, match="is being played by another process"):
        taken_up(tmp_path, spared[1].name)
    assert taken_up(tmp_path, made[-1].name).login == "fixer"


@pytest.mark.parametrize(
    ("body", "line"),
    [
        ("<!-- marker -->\n\n## Evidence\nmore", "Evidence"),
        ("---\n\n> quoted", "> quoted"),
        ("<!-- never closed\nhidden", ""),
        ("", ""),
        ("**bold** 🎉", "**bold** 🎉"),
    ],
)
def test_a_comment_is_told_by_its_first_line_that_people_see(body: str, line: str) -> None:
    assert first_line(body) == line


async def test_a_copy_is_configured_as_the_checkout_is_committed_or_not(real: Real) -> None:
    prompts = real.place.project / ".resolvent/prompts"
    prompts.mkdir(parents=True)
    (prompts / "analyze.md").write_text("---\nrole: reader\n---\nJust say no: {{ issue.title }}\n", encoding="utf-8")
    real.place.agent("if grep -q 'Just say no'; then echo VERDICT=INVALID; fi")
    said = await real.rehearse("acme/widgets", str(ISSUE), "--json", "--keep")
    project = Path(said.json["directory"]) / "project"
    assert (project / ".resolvent/prompts/analyze.md").read_text() == (prompts / "analyze.md").read_text()
    assert said.json["run"]["outcome"] == "declined", said
    assert json.loads((project.parent / "rehearsal.json").read_text())["kept"] is True
    await real.untouched()
