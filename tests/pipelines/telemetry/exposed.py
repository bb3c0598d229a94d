"""Numbers of a text exposition."""


def sample(text: bytes, start: str) -> float:
    """The sum of the lines that begin so."""
    found = [row for row in text.decode().splitlines() if row.startswith(start)]
    return sum(float(row.rsplit(" ", 1)[1]) for row in found)
