"""init finds the GitHub that a checkout belongs to, and proposes what leads there."""

import tomllib
from pathlib import Path

import pytest

from resolvent.cli.remotes import github_remotes
from resolvent.settings import load

from .process import Place

TOKEN = "ghp_" + "0123456789abcdef" * 2
URLS = {
    "https://github.com/acme/widgets.git": ("github.com", "acme/widgets"),
    "https://github.com/acme/widgets/": ("github.com", "acme/widgets"),
    "https://GitHub.com/Acme/Widgets.js": ("github.com", "Acme/Widgets.js"),
    f"https://x-access-token:{TOKEN}@github.com/acme/widgets": ("github.com", "acme/widgets"),
    "https://www.github.com/acme/widgets": ("github.com", "acme/widgets"),
    "git://github.com/acme/widgets.git": ("github.com", "acme/widgets"),
    "git@github.com:acme/widgets.git": ("github.com", "acme/widgets"),
    "github.com:acme/widgets": ("github.com", "acme/widgets"),
    "git@github.com-work:acme/widgets.git": ("github.com", "acme/widgets"),
    "github-work:acme/widgets": ("github.com", "acme/widgets"),
    "ssh://git@github.com/acme/widgets.git": ("github.com", "acme/widgets"),
    "ssh://git@ssh.github.com:443/acme/widgets.git": ("github.com", "acme/widgets"),
    "ssh://git@github.example.com:2222/acme/widgets.git": ("github.example.com", "acme/widgets"),
    "https://github.example.com:8443/acme/widgets.git": ("github.example.com:8443", "acme/widgets"),
    "git@ghe.example.com:acme/widgets.git": ("ghe.example.com", "acme/widgets"),
    "https://example.ghe.com/acme/widgets": ("example.ghe.com", "acme/widgets"),
    "https://code.example.com/acme/widgets.git": ("code.example.com", "acme/widgets"),
}
NOT_GITHUB = (
    "https://gitlab.com/acme/widgets.git",
    "https://notgithub.com/acme/widgets",
    "https://gist.github.com/acme/0123456789abcdef",
    "https://acme.github.io/widgets/docs",
    "https://github.com/acme",
    "https://github.com/acme/widgets/tree/main",
    "https://github.com/../widgets",
    'https://github.com/acme/wid"gets',
    "https://github.com:99999/acme/widgets",
    "https://github.com/acme/widgets\n[evil]",
    "https://[github.com/acme/widgets",
    "file:///srv/github.com/acme/widgets",
    "/srv/git/github.com/acme",
    "../widgets",
    "ext::sh -c touch% /tmp/x github.com/a/b",
    "",
)


@pytest.fixture
def fresh(tmp_path: Path) -> Place:
    """A repository that has never seen us."""
    made = Place(tmp_path)
    made.project.mkdir()
    (tmp_path / "home").mkdir()
    made.git("init", "-q", "-b", "main")
    return made


def remotes(place: Place, **urls: str) -> list[tuple[str, str, str]]:
    for name, url in urls.items():
        place.git("config", f"remote.{name}.url", url)
    return [
        (one.name, one.host, one.repo) for one in github_remotes(place.project, environ={"GH_HOST": "Code.example.com"})
    ]


@pytest.mark.parametrize("url", URLS)
def test_every_way_to_write_a_remote_names_its_repository(fresh: Place, url: str) -> None:
    assert remotes(fresh, origin=url) == [("origin", *URLS[url])]


@pytest.mark.parametrize("url", NOT_GITHUB)
def test_what_is_not_on_a_github_is_not_taken_for_it(fresh: Place, url: str) -> None:
    assert remotes(fresh, origin=url) == []


def test_the_remote_that_gh_was_told_to_use_comes_first(fresh: Place) -> None:
    urls = {"origin": "git@github.com:me/widgets", "upstream": "git@github.com:acme/widgets", "other": "github.com:x/y"}
    assert [name for name, _, _ in remotes(fresh, **urls)] == ["origin", "upstream"]
    fresh.git("config", "remote.upstream.gh-resolved", "base")
    assert [name for name, _, _ in remotes(fresh)] == ["upstream", "origin"]


def test_the_remotes_of_a_work_tree_are_those_of_its_repository(fresh: Place) -> None:
    fresh.git("commit", "-q", "--allow-empty", "-m", "first")
    fresh.git("worktree", "add", "-q", str(fresh.directory / "tree"))
    assert remotes(fresh, origin="github.com:acme/widgets") == [("origin", "github.com", "acme/widgets")]
    assert [one.repo for one in github_remotes(fresh.directory / "tree", environ={})] == ["acme/widgets"]


def test_reading_the_remotes_starts_nothing_and_includes_nothing(fresh: Place) -> None:
    trap = fresh.directory / "trap"
    (fresh.directory / "more").write_text('[remote "origin"]\n\turl = github.com:evil/one\n', encoding="utf-8")
    with (fresh.project / ".git/config").open("a", encoding="utf-8") as file:
        file.write(
            f"[core]\n\tfsmonitor = touch {trap}\n\tsshCommand = touch {trap}\n[alias]\n\tconfig = !touch {trap}\n"
        )
        file.write(f"[include]\n\tpath = {fresh.directory / 'more'}\n")
    assert remotes(fresh) == [] and not trap.exists()
    (fresh.project / ".git/config").write_bytes(b"\xff\0[[[")
    assert remotes(fresh) == []


PROPOSED = {
    "token": (
        {"origin": "git@github.com:acme/widgets.git"},
        {"GITHUB_TOKEN": TOKEN},
        """\
[forge]
# The remote origin leads to github.com/acme/widgets.
# Where issues and pull requests live: "local" needs nothing, "github" needs repo and token.
kind = "github"
repo = "acme/widgets"
# A secret is named, never written: the value is read from that variable when it is needed.
token = "$GITHUB_TOKEN"
""",
        """\
  forge   github: acme/widgets, with the token in $GITHUB_TOKEN
          to see what a run would do there without doing it: resolvent rehearse acme/widgets ISSUE
next: resolvent doctor
""",
    ),
    "no token": (
        {"origin": f"https://me:{TOKEN}@github.com/me/widgets", "upstream": "https://github.com/acme/widgets"},
        {},
        """\
[forge]
# The remote origin leads to github.com/me/widgets.
# To have its issues, take the "# " off kind, repo, token, and:
#   export GITHUB_TOKEN=$(gh auth token)
# The remote upstream leads to github.com/acme/widgets.
# Where issues and pull requests live: "local" needs nothing, "github" needs repo and token.
#kind = "local"
# kind = "github"
# repo = "me/widgets"
# A secret is named, never written: the value is read from that variable when it is needed.
# token = "$GITHUB_TOKEN"
""",
        """\
  forge   local: issues and pull requests are kept on this machine, in the state directory
          for those of me/widgets: export GITHUB_TOKEN=$(gh auth token), then: resolvent init --force
next: resolvent doctor
""",
    ),
    "enterprise": (
        {"origin": "ssh://git@github.example.com/acme/widgets.git"},
        {"GH_TOKEN": TOKEN, "GH_ENTERPRISE_TOKEN": TOKEN},
        """\
[forge]
# The remote origin leads to github.example.com/acme/widgets.
# Where issues and pull requests live: "local" needs nothing, "github" needs repo and token.
kind = "github"
repo = "acme/widgets"
# A secret is named, never written: the value is read from that variable when it is needed.
token = "$GH_ENTERPRISE_TOKEN"
# Logins besides our own whose markers in comments count.
#trusted_logins = []
# GitHub Enterprise: its API, and a file with the certificates it is known by where the system does not know them.
api = "https://github.example.com/api/v3"
""",
        "  forge   github: acme/widgets, with the token in $GH_ENTERPRISE_TOKEN\n",
    ),
    "enterprise without token": (
        {"origin": "https://example.ghe.com/acme/widgets"},
        {},
        """\
[forge]
# The remote origin leads to example.ghe.com/acme/widgets.
# To have its issues, take the "# " off kind, repo, token, api, and:
#   export GITHUB_ENTERPRISE_TOKEN=$(gh auth token --hostname example.ghe.com)
""",
        "  forge   local: ",
    ),
    "no remote": (
        {},
        {"GITHUB_TOKEN": TOKEN},
        '[forge]\n# Where issues and pull requests live: "local" needs',
        "  forge   local: ",
    ),
}


@pytest.mark.parametrize("case", PROPOSED)
def test_init_proposes_the_forge_that_the_checkout_came_from(fresh: Place, case: str) -> None:
    urls, variables, written, told = PROPOSED[case]
    for name, url in urls.items():
        fresh.git("config", f"remote.{name}.url", url)
    fresh.extra.update(variables)
    said = fresh("init")
    text = (fresh.project / "resolvent.toml").read_text(encoding="utf-8")
    assert said.code == 0 and told in said.out, said
    assert written in text, text[:2000]
    assert TOKEN not in text + said.out + said.err
    forge = load(fresh.project, environ={}).forge
    assert forge.kind == ("github" if variables and urls else "local")


def test_what_init_proposes_as_comments_holds_once_they_are_taken_off(fresh: Place) -> None:
    fresh.git("config", "remote.origin.url", "https://example.ghe.com/acme/widgets")
    assert fresh("init").code == 0
    text = (fresh.project / "resolvent.toml").read_text(encoding="utf-8")
    for key in ("kind", "repo", "token", "api"):
        text = text.replace(f"\n# {key} = ", f"\n{key} = ", 1)
    forge = tomllib.loads(text)["forge"]
    assert forge == {
        "kind": "github",
        "repo": "acme/widgets",
        "token": "$GITHUB_ENTERPRISE_TOKEN",
        "api": "https://api.example.ghe.com",
    }
    (fresh.project / "resolvent.toml").write_text(text, encoding="utf-8")
    assert load(fresh.project, environ={}).forge.repo == "acme/widgets"
