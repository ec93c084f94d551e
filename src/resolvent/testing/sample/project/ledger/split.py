"""Split a bill."""


def split(cents, people):
    """Divide an amount among people, as evenly as whole cents allow."""
    if people < 1:
        raise ValueError("nobody to split among")
    return [cents // people] * people
