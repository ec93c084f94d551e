"""Intake: what `serve` takes up by itself, and what calls a run off."""
