"""What we talk about. Pure: no I/O, no clock."""
