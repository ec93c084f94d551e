"""The line to GitHub: githubkit's client with our own certificates, proxy and cache. It reads no environment."""

import ssl
from collections.abc import Mapping
from typing import Any

import certifi
import httpx
from githubkit import GitHub
from githubkit.auth import AppInstallationAuthStrategy, BaseAuthStrategy, TokenAuthStrategy
from githubkit.cache import MemCacheStrategy
from githubkit.exception import GitHubException, RequestError, RequestFailed
from githubkit.versions import LATEST_VERSION

from resolvent.adapters.forges.github_budget import Budget
from resolvent.adapters.forges.github_cache import ANEW, KEPT, Answers, Revalidating
from resolvent.adapters.forges.github_place import GitHubPlace
from resolvent.adapters.forges.github_refusals import Answer
from resolvent.errors import ForgeDown, ForgeRefused, ResolventError, UsageError

LOG_BYTES = 64 << 10
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_REDIRECTS = 3
_PUBLIC = "https://api.github.com"


class Wire:
    """Sends one request and gives its answer, whatever its status; ForgeDown when there is none."""

    def __init__(self, place: GitHubPlace, budget: Budget) -> None:
        self._api = place.where.api
        self._line = httpx.AsyncHTTPTransport(
            verify=_certificates(place.ca),
            trust_env=False,
            proxy=httpx.Proxy(place.proxy) if place.proxy else None,
            limits=httpx.Limits(max_connections=20, max_keepalive_connections=10),
        )
        self._shared = Revalidating(
            self._line, Answers(place.cache), lambda answer: budget.hear(answer.status_code, answer.headers)
        )
        self._github: GitHub[BaseAuthStrategy] = GitHub(
            _identity(place),
            base_url=self._api,
            user_agent="resolvent",
            # Whom a redirect leads to, and whether a write may follow it, is decided above.
            follow_redirects=False,
            timeout=_TIMEOUT,
            trust_env=False,
            async_transport=self._shared,
            cache_strategy=MemCacheStrategy(),
            http_cache=False,
            auto_retry=False,
        )
        # An Enterprise server may be older than the version, and would refuse to be asked for it.
        self._headers = {"X-GitHub-Api-Version": LATEST_VERSION} if self._api == _PUBLIC else {}

    async def ask(
        self,
        method: str,
        url: str,
        *,
        params: Mapping[str, str | int] | None = None,
        said: Any = None,
        anew: bool = False,
    ) -> Answer:
        """Send it once; `anew`: without what is kept of an earlier answer."""
        headers = self._headers | ({ANEW: "yes"} if anew else {})
        try:
            answer = await self._github.arequest(method, url, params=params, json=said, headers=headers)
        except GitHubException as error:
            failed = _innermost(error)
            if not isinstance(failed, RequestFailed):
                raise _silence(failed, url) from error
            answer = failed.response
        raw = answer.raw_response
        path, told, kept = raw.request.url.path, dict(raw.headers.items()), bool(raw.extensions.get(KEPT))
        return Answer(method, path, raw.status_code, told, raw.content, kept)

    async def log(self, path: str) -> str:
        """The end of a text that may be elsewhere; our token is shown to GitHub only."""
        try:
            answer = await self._streamed(httpx.URL(path))
            for _ in range(_REDIRECTS):
                if not answer.has_redirect_location:
                    break
                await answer.aclose()
                answer = await self._streamed(answer.request.url.join(answer.headers["location"]))
            if answer.status_code != httpx.codes.OK:
                await answer.aclose()
                return ""
            return await _tail(answer)
        except GitHubException as error:
            failed = _innermost(error)
            if isinstance(failed, RequestFailed):
                return ""
            raise _silence(failed, path) from error
        except httpx.HTTPError as error:
            raise ForgeDown(f"a log did not come: {type(error).__name__}") from error

    async def _streamed(self, url: httpx.URL) -> httpx.Response:
        here = httpx.URL(self._api)
        if url.is_relative_url or (url.scheme, url.netloc) == (here.scheme, here.netloc):
            return (await self._github.arequest("GET", url, headers=self._headers, stream=True)).raw_response
        if url.scheme != "https":
            raise httpx.UnsupportedProtocol("a log is only followed over https")
        request = httpx.Request("GET", url, extensions={"timeout": _TIMEOUT.as_dict()})
        answer = await self._line.handle_async_request(request)
        answer.request = request
        return answer

    async def token(self) -> str:
        """The token of this moment, for git: given, or lent to the installation of an App."""
        request = httpx.Request("GET", self._api)
        flow = self._github.auth.get_auth_flow(self._github).async_auth_flow(request)
        try:
            asked = await anext(flow)
            while asked is not request:
                asked.extensions["timeout"] = _TIMEOUT.as_dict()
                answer = await self._shared.handle_async_request(asked)
                answer.request = asked
                await answer.aread()
                asked = await flow.asend(answer)
        except RequestFailed as error:
            status = error.response.status_code
            raise ForgeRefused(f"the App is lent no token: status {status}", hint=_APP, auth=True) from error
        except httpx.HTTPError as error:
            raise ForgeDown(f"GitHub cannot be reached: {type(error).__name__}") from error
        finally:
            await flow.aclose()
        return str(request.headers["Authorization"]).partition(" ")[2]

    async def close(self) -> None:
        await self._shared.end()


_APP = "look at forge.app, forge.installation and forge.private_key"


def _identity(place: GitHubPlace) -> BaseAuthStrategy:
    if place.token:
        return TokenAuthStrategy(place.token)
    from jwt.algorithms import RSAAlgorithm
    from jwt.exceptions import InvalidKeyError

    try:
        RSAAlgorithm(RSAAlgorithm.SHA256).prepare_key(place.private_key)
    except (InvalidKeyError, ValueError) as error:
        raise UsageError("forge.private_key holds no RSA private key in PEM", hint=_APP) from error
    # For this repository only, wherever else the App is installed.
    name = place.repo.partition("/")[2]
    return AppInstallationAuthStrategy(place.app, place.private_key, place.installation, repositories=[name])


def _certificates(ca: str) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=ca or certifi.where())
    except OSError as error:
        raise UsageError(f"forge.ca {ca} holds no certificates: {error.strerror}", hint=f"ls -l {ca}") from error


def _innermost(error: GitHubException) -> GitHubException:
    """What failed: an App's token is asked for inside another request."""
    while isinstance(error, RequestError) and isinstance(error.exc, GitHubException):
        error = error.exc
    return error


def _silence(error: GitHubException, url: str) -> ResolventError:
    cause = error.exc if isinstance(error, RequestError) else error
    if isinstance(cause, httpx.ConnectError) and "CERTIFICATE_VERIFY_FAILED" in str(cause):
        hint = 'set forge.ca = "/path/to/its/ca.pem" if it is a server of your own'
        return ForgeRefused("GitHub's certificate is not one we know", hint=hint)
    # The words of the library may hold what was sent; its name says enough.
    return ForgeDown(f"GitHub gave no answer to {httpx.URL(url).path}: {type(cause).__name__}")


async def _tail(answer: httpx.Response) -> str:
    kept = bytearray()
    async for piece in answer.aiter_bytes():
        kept += piece
        if len(kept) > 4 * LOG_BYTES:
            del kept[: -2 * LOG_BYTES]
    await answer.aclose()
    return kept.decode("utf-8", "replace")
