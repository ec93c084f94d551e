"""The gate bench: agents that cheat, on a corpus of bugs, and which rule of the engine catches them."""
