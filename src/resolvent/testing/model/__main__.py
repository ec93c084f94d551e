"""The scripted model from a shell: python -m resolvent.testing.model --port 8099 --script scenarios.json"""

import argparse
import json
import signal
import sys
from pathlib import Path

from resolvent.errors import ResolventError, UsageError
from resolvent.testing.model import DemoModel, ScriptedModel


def main() -> int:
    """Say where it listens, and do so until it is asked to end."""
    options = argparse.ArgumentParser(
        prog="python -m resolvent.testing.model", description="A scripted model endpoint."
    )
    options.add_argument("--port", type=int, default=0, help="0 takes a free one")
    options.add_argument("--script", type=Path, help="JSON: a list of steps, or an object of scenarios by name")
    options.add_argument("--demo", action="store_true", help="tell the story of the demo")
    options.add_argument("--key", default="", help="the only key to take; any, unless said")
    options.add_argument("--log", type=Path, help="append one line of JSON for each request")
    given = options.parse_args()
    # Blocked before there are threads, so that only the wait below hears them.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        with _model(given) as model:
            sys.stdout.write(json.dumps({"url": model.url}) + "\n")
            sys.stdout.flush()
            signal.sigwait({signal.SIGINT, signal.SIGTERM})
    except (ResolventError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def _model(given: argparse.Namespace) -> ScriptedModel:
    if given.demo == bool(given.script):
        raise UsageError("either a script or the demo", hint="python -m resolvent.testing.model --demo")
    if given.demo:
        return DemoModel(key=given.key, port=given.port, log_file=given.log)
    try:
        script = json.loads(given.script.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{given.script} is no JSON: {error}") from error
    return ScriptedModel(script, key=given.key, port=given.port, log_file=given.log)


if __name__ == "__main__":
    sys.exit(main())
