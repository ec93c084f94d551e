"""`resolvent serve` with intake, and `resolvent claim`, as a person types them; here on the local forge."""

import json
import re
import signal
import socket
from pathlib import Path

import httpx
import pytest
from githubkit.webhooks import sign

from resolvent.adapters.forges.local import LocalForge
from resolvent.adapters.journal.store import Store
from tests.acceptance.conftest import make_place
from tests.acceptance.process import Place

OTHER = "omega.0123abcd.r99999999.20260105T090000Z"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = make_place(tmp_path)
    assert made("issue", "new", "The value is bad", "--label", "resolvent").code == 0
    return made


async def claimed_elsewhere(place: Place, subject: str) -> None:
    state = place.directory / "state"
    store = await Store.open(f"sqlite:///{state}/resolvent.db")
    forge = await LocalForge.open(store, state / "forge")
    assert await forge.claim(subject, OTHER) == OTHER
    await store.close()


def test_serving_until_idle_takes_one_look_and_does_what_came(place: Place) -> None:
    said = place("serve", "--until-idle", "--intake")
    assert (said.code, said.err) == (0, "")
    taken = re.findall(r"^\d\d:\d\d:\d\d issue-2 labelled: taken up as (r[0-9a-f]{8})$", said.out, re.M)
    assert len(taken) == 1
    assert place.outcome(taken[0])["outcome"] == "proven"
    again = place("serve", "--until-idle", "--intake")
    assert (again.code, again.out) == (0, "")


def test_for_programs_arrivals_are_objects_among_the_events(place: Place) -> None:
    said = place("serve", "--until-idle", "--intake", "--json")
    first, *_ = [json.loads(line) for line in said.out.splitlines()]
    told = first["arrival"]
    assert (told["kind"], told["subject"], told["fate"]) == ("labelled", "issue-2", "taken")


@pytest.mark.parametrize("words", [(), ("--no-intake",)])
def test_on_the_local_forge_nothing_is_taken_up_unless_a_person_says_so(place: Place, words: tuple[str, ...]) -> None:
    said = place("serve", "--until-idle", *words)
    assert (said.code, said.out, said.err) == (0, "", "")
    assert place("runs", "--json").json == []


def test_both_at_once_is_a_mistake(place: Place) -> None:
    said = place("serve", "--intake", "--no-intake")
    assert (said.code, "on or off" in said.err) == (2, True)


async def test_a_claim_of_another_host_is_told_shown_by_doctor_and_ended_by_force(place: Place) -> None:
    await claimed_elsewhere(place, "issue-2")
    said = place("serve", "--until-idle", "--intake")
    assert f"issue-2 labelled: another host is at work on it: {OTHER}" in said.out
    listed = place("claim", "ls")
    said_by = "run r99999999 on omega (store 0123abcd) since 2026-01-05 09:00 UTC"
    assert " ".join(listed.out.split()) == f"issue-2 another's {said_by}"
    assert "resolvent claim release issue-2 --force" in place("doctor").out
    refused = place("claim", "release", "2")
    assert refused.code == 2
    assert "held by run r99999999 on omega" in refused.err
    freed = place("claim", "release", "2", "--force")
    assert (freed.code, "is free now" in freed.out) == (0, True)
    assert place("claim", "ls", "--json").json == []
    assert place("claim", "release", "issue-2").out == "nobody holds issue-2\n"


@pytest.mark.parametrize("subject", ["", "issue-", "../x", "file-a", "issue-1\nx", "²"])
def test_what_is_no_subject_is_told_so(place: Place, subject: str) -> None:
    assert place("claim", "release", subject, "--force").code == 2


def test_serving_takes_webhooks_says_where_and_ends_when_it_is_told_to(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    secret = "a-secret-of-the-test"
    place.extra["HOOK"] = secret
    sets = (f'intake.listen="127.0.0.1:{port}"', 'intake.secret="$HOOK"', "intake.poll=0")
    serving = place.start("serve", "--intake", *(word for text in sets for word in ("--set", text)))
    assert serving.stdout is not None
    assert serving.stderr is not None
    assert serving.stderr.readline() == f"taking webhooks at http://127.0.0.1:{port}/webhook\n"
    # The look that is made before anything is told.
    assert "issue-2 labelled: taken up as" in serving.stdout.readline()
    url = f"http://127.0.0.1:{port}"
    assert httpx.get(f"{url}/healthz").status_code == 200
    body = json.dumps({"zen": "…"}).encode()
    signed = {"x-hub-signature-256": sign(secret, body), "x-github-event": "ping"}
    assert httpx.post(f"{url}/webhook", content=body, headers=signed).status_code == 200
    assert httpx.post(f"{url}/webhook", content=body).status_code == 401
    serving.send_signal(signal.SIGTERM)
    out, err = serving.communicate(timeout=60)
    assert (serving.returncode, secret in out + err) == (0, False)
