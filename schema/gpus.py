"""GPUs that are not in this machine: the memory, and the speeds by their makers' data sheets."""

import contextlib
from typing import NamedTuple

from schema.faults import RecipeError


class Card(NamedTuple):
    """`memory`: GiB. `bandwidth`: of the memory, GB/s. `flops`: dense bfloat16 products, TFLOP/s. `link`: to a GPU of
    the same machine, GB/s in one direction. A card that is known by its memory alone has no speeds."""

    name: str
    memory: float
    bandwidth: float = 0
    flops: float = 0
    link: float = 0


# NVIDIA's data sheets; without sparsity, and NVLink counted in one direction (PCIe 4 x16: 32 GB/s).
CARDS = {
    each.name: each
    for each in (
        Card("L4", 24, 300, 121, 32),
        Card("RTX4090", 24, 1008, 165, 32),
        Card("L40S", 48, 864, 362, 32),
        Card("A100", 80, 2039, 312, 300),
        Card("H100", 80, 3350, 989, 450),
        Card("H200", 141, 4800, 989, 450),
    )
}


def card_named(text: str) -> Card:
    """A card by its name or its GiB.

    Raises:
        RecipeError: it is neither.
    """
    if named := CARDS.get(text.upper()):
        return named
    with contextlib.suppress(ValueError):
        if 0 < float(text) < 1000:  # CARD=4090 is meant as a name
            return Card(f"{text} GiB", float(text))
    raise RecipeError(
        [f"CARD={text}: give a card's memory in GiB, such as CARD=24, or one of these by name: {', '.join(CARDS)}"]
    )
