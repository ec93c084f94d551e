"""Read and write amounts of money as whole cents."""


def parse_amount(text):
    """Turn what a person typed into cents; ValueError when it is not an amount."""
    text = text.strip().replace(",", ".")
    if not text:
        raise ValueError("no amount")
    whole, _, cents = text.partition(".")
    if not whole.isdigit() or (cents and not cents[:2].isdigit()):
        raise ValueError(f"not an amount: {text!r}")
    return int(whole) * 100 + int((cents + "00")[:2])


def format_amount(cents):
    """Write cents the way people read them."""
    return f"{cents // 100:,}.{cents % 100:02d}"
