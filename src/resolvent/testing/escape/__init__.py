"""The escape suite: attacks on our own walls, tried live."""
