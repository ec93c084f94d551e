"""Apps are known by their key, and the logs of CI are had as Actions keeps them."""

import hmac
import io
import time
import zipfile
from base64 import urlsafe_b64encode
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.forge_server.rest_scene import REPO, set_up
from tests.forge_server.serving import Served

from resolvent.forge_server.rest.apps import register
from resolvent.forge_server.shapes.apps import App


@pytest.fixture(scope="module")
def keys() -> tuple[RSAPrivateKey, RSAPrivateKey]:
    """The key of the App, and somebody else's."""
    first, second = (rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2))
    return first, second


async def registered(served: Served, key: RSAPrivateKey) -> App:
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()
    return await register(served.hub, "helpful", public_key=public)


def signed(app: App, key: RSAPrivateKey, **claims: Any) -> str:
    now = int(time.time())
    return jwt.encode({"iss": str(app.id), "iat": now - 10, "exp": now + 500, **claims}, key, algorithm="RS256")


def confused(app: App) -> str:
    """Signed with the public half as if that were a secret, which is the oldest trick there is."""
    now = int(time.time())
    claims = {"iss": str(app.id), "iat": now, "exp": now + 60}
    plain = jwt.encode(claims, "k" * 32, algorithm="HS256").rpartition(".")[0]
    mark = hmac.digest(app.public_key.encode(), plain.encode(), "sha256")
    return f"{plain}.{urlsafe_b64encode(mark).decode().rstrip('=')}"


async def test_only_a_fresh_signature_by_its_own_key_is_the_app(
    served: Served, keys: tuple[RSAPrivateKey, RSAPrivateKey]
) -> None:
    own, other = keys
    app = await registered(served, own)
    now = int(time.time())
    for shown, status in (
        (signed(app, own), 200),
        (signed(app, own, iss="Iv1.helpful"), 200),
        (signed(app, other), 401),
        (signed(app, own, exp=now - 100), 401),
        (signed(app, own, exp=now + 5000), 401),
        (signed(app, own, iss="7"), 404),
        (signed(app, own, iss=""), 404),
        (signed(app, own)[:-4] + "AAAA", 401),
        (confused(app), 401),
        (jwt.encode({"iss": str(app.id)}, None, algorithm="none"), 401),
        ("nonsense", 401),
        ("", 401),
    ):
        answer = await served.client(token=shown).get("/app")
        assert answer.status_code == status, (shown, answer.text)


async def test_an_installation_is_lent_a_token_for_its_repository_only(
    served: Served, keys: tuple[RSAPrivateKey, RSAPrivateKey]
) -> None:
    app = await registered(served, keys[0])
    client = served.client(token=signed(app, keys[0]))
    path = f"/app/installations/{app.installation}/access_tokens"
    assert (await client.post("/app/installations/1/access_tokens")).status_code == 404
    assert (await client.post(path, json={"repositories": ["other"]})).status_code == 422
    lent = (await client.post(path, json={"repositories": ["widget"]})).json()["token"]
    bot = served.client(token=lent)
    assert (await bot.get("/installation/repositories")).json()["total_count"] == 1
    assert (await bot.get("/user")).status_code == 403
    assert (await bot.post(f"{REPO}/issues", json={"title": "x"})).json()["user"]["login"] == "helpful[bot]"
    assert (await served.client().get("/installation/repositories")).status_code == 403


async def test_the_log_of_a_job_has_the_time_before_every_line_and_is_kept_elsewhere(served: Served) -> None:
    scene = await set_up(served)
    run = await served.hub.report(scene.topic, "unit / linux", conclusion="failure", log="one\ntwo 🎉\n")
    client = served.client()
    led = await client.get(f"{REPO}/actions/jobs/{run.id}/logs")
    assert led.status_code == 302
    log = await client.get(led.headers["location"])
    assert log.text.startswith("\ufeff")
    lines = log.text.removeprefix("\ufeff").splitlines()
    assert [line.split(" ", 1)[1] for line in lines] == ["one", "two 🎉"]
    assert all(line.split(" ", 1)[0].endswith(".0000000Z") for line in lines)


async def test_the_logs_of_a_run_are_an_archive_with_a_directory_for_every_job(served: Served) -> None:
    scene = await set_up(served)
    await served.hub.report(scene.topic, "unit / linux", conclusion="failure", log="broken\n")
    client = served.client()
    run = (await client.get(f"{REPO}/actions/runs", params={"status": "failure"})).json()["workflow_runs"][0]
    packed = await client.get(f"{REPO}/actions/runs/{run['id']}/logs", follow_redirects=True)
    with zipfile.ZipFile(io.BytesIO(packed.content)) as archive:
        assert archive.namelist() == ["0_unit  linux.txt", "unit  linux/1_Run.txt"]
        assert "broken" in archive.read("unit  linux/1_Run.txt").decode()


async def test_a_job_that_is_not_done_has_no_log(served: Served) -> None:
    scene = await set_up(served)
    run = await served.hub.report(scene.topic, "test", status="in_progress")
    assert (await served.client().get(f"{REPO}/actions/jobs/{run.id}/logs")).status_code == 404
