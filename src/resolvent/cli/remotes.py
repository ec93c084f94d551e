"""The GitHub repository that a checkout's remotes lead to, read from its configuration as data."""

import re
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

MOST_BYTES = 1 << 20
PATIENCE_S = 10.0
PUBLIC = "github.com"
# Where gh looks for tokens, too.
TOKENS = ("GITHUB_TOKEN", "GH_TOKEN")
ENTERPRISE_TOKENS = ("GITHUB_ENTERPRISE_TOKEN", "GH_ENTERPRISE_TOKEN")
_SCP = re.compile(r"(?:[^@/:\s]+@)?(?P<host>[\w.-]+):(?P<path>[^/:\s][^:\s]*)", re.ASCII)
_PATH = re.compile(r"/?(?P<owner>[\w.-]+)/(?P<name>[\w.-]+?)(?:\.git)?/?", re.ASCII)
_SCHEMES = ("https", "http", "ssh", "git", "git+ssh", "git+https")


@dataclass(frozen=True)
class Remote:
    """A remote on a GitHub: `host` is the server people see, `repo` is owner/name."""

    name: str
    host: str
    repo: str

    @property
    def api(self) -> str:
        """What forge.api has to say; empty for github.com."""
        if self.host == PUBLIC:
            return ""
        # With data residency the API has a host of its own; a server of one's own has it below /api/v3.
        return f"https://api.{self.host}" if self.host.endswith(".ghe.com") else f"https://{self.host}/api/v3"

    @property
    def usual_token(self) -> str:
        """The variable to propose for its token."""
        return TOKENS[0] if self.host == PUBLIC else ENTERPRISE_TOKENS[0]

    @property
    def login_line(self) -> str:
        """What to type to have a token in that variable."""
        host = "" if self.host == PUBLIC else f" --hostname {self.host}"
        return f"export {self.usual_token}=$(gh auth token{host})"

    def token(self, environ: Mapping[str, str]) -> str:
        """The variable that holds a token for it; empty when none is set."""
        names = TOKENS if self.host == PUBLIC else (*ENTERPRISE_TOKENS, *TOKENS)
        return next((name for name in names if environ.get(name)), "")


def github_remotes(root: Path, *, environ: Mapping[str, str]) -> list[Remote]:
    """Those of `origin` and `upstream` that lead to a GitHub; the one that `gh` was told to use first."""
    urls, chosen = _configured(root)
    found = [_remote(name, urls[name], environ.get("GH_HOST", "")) for name in ("origin", "upstream") if name in urls]
    return sorted((one for one in found if one), key=lambda one: one.name not in chosen)


def on_github(text: str, remotes: Sequence[Remote], *, environ: Mapping[str, str]) -> str:
    """The configuration with the forge that the first remote leads to; as comments while there is no token for it."""
    if not remotes:
        return text
    first, *others = remotes
    token = first.token(environ)
    said = {"kind": "github", "repo": first.repo, "token": f"${token or first.usual_token}"}
    said |= {"api": first.api} if first.api else {}
    for name, value in said.items():
        line = f'{name} = "{value}"\n' if token else f'# {name} = "{value}"\n'
        # Until somebody has a token the default stays in sight.
        kept = '#kind = "local"\n' if name == "kind" and not token else ""
        text = re.sub(rf'^# ?{name} = ".*"\n', kept + line, text, count=1, flags=re.M)
    told = [f"The remote {first.name} leads to {first.host}/{first.repo}."]
    if not token:
        told += [f'To have its issues, take the "# " off {", ".join(said)}, and:', f"  {first.login_line}"]
    told += [f"The remote {one.name} leads to {one.host}/{one.repo}." for one in others if one.repo != first.repo]
    return text.replace("[forge]\n", "[forge]\n" + "".join(f"# {line}\n" for line in told), 1)


def _remote(name: str, url: str, known: str) -> Remote | None:
    host, path = _parts(url)
    host, named = _server(host, by_name="://" not in url or "ssh://" in url), _PATH.fullmatch(path)
    if not named or not _is_github(host, known) or {named["owner"], named["name"]} & {".", ".."}:
        return None
    return Remote(name, host, f"{named['owner']}/{named['name']}")


def _parts(url: str) -> tuple[str, str]:
    """Host and path of what git takes for a URL; whatever name and password it holds stay behind."""
    if "://" not in url:
        found = _SCP.fullmatch(url)
        return (found["host"].lower(), found["path"]) if found else ("", "")
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return "", ""
    if parts.scheme not in _SCHEMES or not re.fullmatch(r"[\w.-]+", host, re.ASCII):
        return "", ""
    # The port of ssh says nothing about where the API is.
    return f"{host}:{port}" if port and parts.scheme.endswith("https") and port != 443 else host, parts.path


def _server(host: str, *, by_name: bool) -> str:
    """The server behind a name that only ssh knows, such as github.com-work."""
    if host in ("www.github.com", "ssh.github.com") or (by_name and re.match(r"github\.com-|github(?=[^.]*$)", host)):
        return PUBLIC
    return host


def _is_github(host: str, known: str) -> bool:
    own = host == known.lower() or bool(re.search(r"(?:^|[.-])(?:github|ghe)(?=[.-])", host))
    # Pages and files of users are no forge.
    return bool(host) and own and not host.endswith((".github.com", ".github.io", ".githubusercontent.com"))


def _configured(root: Path) -> tuple[dict[str, str], set[str]]:
    """The URL of each remote, and the remotes that `gh repo set-default` marked."""
    urls: dict[str, str] = {}
    chosen: set[str] = set()
    for key, value in _entries(_configuration(root)):
        section, _, rest = key.partition(".")
        name, _, word = rest.rpartition(".")
        if section == "remote" and word == "url":
            urls.setdefault(name, value)
        elif section == "remote" and word == "gh-resolved" and value == "base":
            chosen.add(name)
    return urls, chosen


def _entries(path: Path) -> Iterator[tuple[str, str]]:
    """What git reads in that file alone: it includes nothing and starts nothing."""
    from resolvent.adapters.git import environment

    words = ["git", "config", "--file", "-", "--no-includes", "--null", "--list"]
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES)
        done = subprocess.run(
            words, input=text, capture_output=True, env=environment(), cwd="/", timeout=PATIENCE_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return
    for entry in done.stdout.decode("utf-8", "replace").split("\0"):
        key, _, value = entry.partition("\n")
        yield key, value


def _configuration(root: Path) -> Path:
    """The file that holds the configuration of this checkout: its own, or of the repository it is a work tree of."""
    place = root / ".git"
    if place.is_file():
        place = root / _text(place).removeprefix("gitdir:").strip()
    elif not place.is_dir():
        place = root
    common = _text(place / "commondir").strip()
    return (place / common if common else place) / "config"


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(4096).decode("utf-8", "surrogateescape").replace("\0", "")
    except OSError:
        return ""
