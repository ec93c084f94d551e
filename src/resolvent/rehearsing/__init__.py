"""A run on a copy: the issue and its repository on a rehearsal forge, and nothing reaches the real one."""
