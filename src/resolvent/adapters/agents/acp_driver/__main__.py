"""Start: the first word names the directories to import from, for we run isolated and see nothing else."""

import sys

if __name__ == "__main__":
    sys.path[:0] = sys.argv.pop(1).split(":")
    from resolvent.adapters.agents.acp_driver.program import main

    sys.exit(main(sys.argv[1:]))
