"""Programs that run inside a check, in the check's own interpreters, and tell whether a watched line was executed."""
