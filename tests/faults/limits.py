"""Numbers that are not finite, and more than the memory holds."""

import sys
from collections.abc import Callable

from tests.faults.arena import Arena, finite
from tests.faults.outcome import Fault, Outcome, Required


def exploding(what: str) -> Callable[[Arena], Outcome]:
    def inject(arena: Arena) -> Outcome:
        reward = f"rewards.tests.faulty_reward.faulty={{weight: 0.5, kind: {what}}}"
        ended = arena.run(reward, "grpo.save_steps=1")
        noted = {
            "prompts written": bool(list(arena.grpo.glob("not-finite-*.json"))),
            "every checkpoint finite": all(map(finite, arena.grpo.glob("checkpoint-*"))),
        }
        return ended._replace(noted=noted)

    return inject


def out_of_memory(arena: Arena) -> Outcome:
    """A limit of address space that a thousand completions do not fit."""
    many = [
        "grpo.per_device_train_batch_size=4096",
        "grpo.max_completion_length=96",
        "grpo.num_generations=8",
    ]
    return arena.run(*many, launcher=["prlimit", f"--as={6 * 2**30}", sys.executable])


def stops(what: str) -> Required:
    return Required(
        3,
        (f"a {what} is not finite",),
        "",
        {"prompts written": True, "every checkpoint finite": True},
    )


FAULTS = [
    Fault("gradient not finite", exploding("gradient"), stops("gradient")),
    Fault("weights not finite", exploding("weights"), stops("weight")),
    Fault(
        "out of memory",
        out_of_memory,
        Required(4, ("per_device_train_batch_size 4096 → 2048",), weights=""),
    ),
]
