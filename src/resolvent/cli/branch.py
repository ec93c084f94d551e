"""resolvent branch: the sandbox on its own."""

# In the order of the help; each module hangs its commands on the application.
from resolvent.cli import branch_making, branch_reading, branch_removing
from resolvent.cli.branch_options import app

__all__ = ["app", "branch_making", "branch_reading", "branch_removing"]
