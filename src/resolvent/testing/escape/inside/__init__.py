"""The attacker's own programs: copied into a box and run there, never here."""
