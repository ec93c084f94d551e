"""The random SIGKILL campaign on branches: kill whoever works on a store at any moment, then look whether all is there.

A worker makes, forks, enters, snapshots, exports and removes branches. It is killed again and again, now and then with
the supervisor of its job; after each kill another process opens the store and checks what the worker was promised.
"""

import argparse
import asyncio
import os
import pickle
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from resolvent.adapters.workspace.files import remove_tree
from resolvent.testing.campaign.lane import BETWEEN, Lane, Tally, prepared
from resolvent.testing.campaign.outside import called, end_with
from resolvent.testing.campaign.worker import VERBS

# What may be wrong, in the words of the table.
KINDS = {
    "lost": "acknowledged and lost",
    "stray": "branches that nobody made, or that were removed",
    "unusable": "branches that cannot be entered",
    "job": "jobs that died with their caller, or ran twice",
    "alive": "processes of a box left alive",
    "mount": "mounts leaked",
    "litter": "layers and trash that a collection left",
    "git": "faults in the repository",
    "worker": "errors of the worker, or of who looked",
}
# Of these nobody can tell whether they were done.
SILENT = ("snapshot", "export", "collect", BETWEEN)

Told = Callable[[str], None]


def campaign(directory: Path, *, kills: int, seed: str, lanes: int, told: Told) -> Tally:
    """All kills, on several stores at the same time; what came of them."""
    children = []
    for number in range(lanes):
        share = kills // lanes + (number < kills % lanes)
        children.append(os.fork())
        if children[-1] == 0:
            place = directory / f"lane-{number}"

            def work(place: Path = place, share: int = share) -> None:
                place.mkdir(mode=0o700)
                tally = _lane(place, share, seed=f"{seed}/{place.name}", told=told)
                (place / "tally").write_bytes(pickle.dumps(tally))

            end_with(work)
    whole = Tally()
    for number, child in enumerate(children):
        if status := os.waitpid(child, 0)[1]:
            whole.fault("worker", f"lane {number} ended with {status}")
        else:
            whole.add(pickle.loads((directory / f"lane-{number}/tally").read_bytes()))
    return whole


def _lane(place: Path, kills: int, *, seed: str, told: Told) -> Tally:
    state = place / "state"
    state.mkdir(mode=0o700)
    # By another process: who forks the workers never had the store open, and has no thread.
    lane = Lane(*called(lambda: asyncio.run(prepared(state))), seed=seed)
    begun, faults = time.monotonic(), 0
    for number in range(1, kills + 1):
        try:
            lane.strike(number, last=number == kills)
        except RuntimeError as error:
            lane.tally.fault("worker", f"kill {number}: {error}")
        for kind, what in lane.tally.faults[faults:]:
            told(f"{place.name}, kill {number}: {KINDS[kind]}: {what}")
        if number % 100 == 0:
            told(f"{place.name}: {number} of {kills} kills, {lane.tally.snapshots} snapshots acknowledged")
        if any(kind == "worker" for kind, _ in lane.tally.faults[faults:]):
            # What is promised is not known any more.
            break
        faults = len(lane.tally.faults)
    lane.tally.seconds = time.monotonic() - begun
    return lane.tally


def table(tally: Tally) -> str:
    """What came of it, as people read it."""
    verbs = [*VERBS, *sorted(verb for verb in tally.kills if verb not in VERBS)]
    lines = [f"{'killed while at':28} {'kills':>6} {'found done':>11} {'found undone':>13}"]
    for verb in verbs:
        kills, done = tally.kills[verb], tally.done[verb]
        halves = ("-", "-") if verb in SILENT else (f"{done}", f"{kills - done}")
        lines.append(f"{verb:28} {kills:>6} {halves[0]:>11} {halves[1]:>13}")
    lines += [f"{'all':28} {tally.kills.total():>6}", ""]
    lines.append(f"{tally.snapshots} snapshots acknowledged, {tally.entered} times a branch was entered after a kill")
    if tally.deaths:
        slowest = max(tally.deaths) * 1e3
        lines.append(
            f"{len(tally.deaths)} supervisors killed; the last of a box was dead {slowest:.0f} ms later at most"
        )
    found = Counter(kind for kind, _ in tally.faults)
    lines += [f"{found[kind]:>6} {words}" for kind, words in KINDS.items()]
    return "\n".join([*lines, f"{tally.seconds:.0f} s"])


def main() -> int:
    """`python -m resolvent.testing.campaign --kills 10000`: 0 when nothing was wrong."""
    parser = argparse.ArgumentParser(prog="resolvent.testing.campaign", description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", default=f"{time.time_ns()}")
    parser.add_argument("--lanes", type=int, default=min(4, os.cpu_count() or 1), help="stores at the same time")
    parser.add_argument("--directory", type=Path, help="an empty directory, which is kept; else a temporary one")
    asked = parser.parse_args()
    directory = asked.directory or Path(tempfile.mkdtemp(prefix="resolvent-campaign-"))

    def told(line: str) -> None:
        sys.stderr.write(f"{line}\n")

    told(f"seed {asked.seed}")
    tally = campaign(directory, kills=asked.kills, seed=asked.seed, lanes=min(asked.lanes, asked.kills), told=told)
    sys.stdout.write(f"{table(tally)}\n")
    if asked.directory is None and not tally.faults:
        remove_tree(directory)
    elif tally.faults:
        told(f"kept for a look: {directory}")
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
