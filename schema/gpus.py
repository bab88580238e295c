"""The memory of GPUs that are not in this machine."""

import contextlib

from schema.faults import RecipeError

CARDS = {"L4": 24, "RTX4090": 24, "L40S": 48, "A100": 80, "H100": 80, "H200": 141}  # GiB


def card_named(text: str) -> float:
    """The GiB of a card that is given by its name or by them.

    Raises:
        RecipeError: it is neither.
    """
    if named := CARDS.get(text.upper()):
        return named
    with contextlib.suppress(ValueError):
        if 0 < float(text) < 1000:  # CARD=4090 is meant as a name
            return float(text)
    raise RecipeError(
        [f"CARD={text}: give a card's memory in GiB, such as CARD=24, or one of these by name: {', '.join(CARDS)}"]
    )
