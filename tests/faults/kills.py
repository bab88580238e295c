"""Signals to one process."""

import signal
import time
from collections.abc import Callable

from tests.faults.arena import SECOND, Arena, ranks
from tests.faults.outcome import Fault, Outcome, Required

# Twice over four micro-batches of two: a generation cycle is four steps of the optimizer.
LONG = [
    "grpo.num_iterations=2",
    "grpo.steps_per_generation=4",
    "grpo.gradient_accumulation_steps=2",
]
LONG += ["grpo.save_steps=4", "grpo.per_device_train_batch_size=16"]
ADAPTER = ["adapter={r: 8, lora_alpha: 16, target_modules: all-linear}", "grpo.beta=0.04"]
ADAPTER += ["rewards.tests.varied_reward.varied={weight: 1.0}"]


def killed(*overrides: str, **how: object) -> Callable[[Arena], Outcome]:
    def inject(arena: Arena) -> Outcome:
        arena.interrupted(*overrides, **how)
        return arena.compared(arena.run(*overrides), *overrides)

    return inject


def killed_with_a_reference(arena: Arena) -> Outcome:
    return killed()(Arena(arena.home / "adapter", "SIGKILL", arena.trl, ADAPTER))


def saves_within_a_cycle(arena: Arena) -> Outcome:
    if not arena.trl:
        return arena.run(*LONG, "grpo.save_steps=3")
    arena.interrupted(*LONG, after="checkpoint-3/trainer_state.json", SAVE_STEPS="3")
    return arena.compared(arena.run(*LONG, SAVE_STEPS="3"), *LONG)


def signalled(
    number: int, *overrides: str, launcher: list[str] = (), times: int = 1, each_rank: bool = False
) -> Callable[[Arena], Outcome]:
    """The signal after the second checkpoint, and the same command again."""

    def inject(arena: Arena) -> Outcome:
        process = arena.start(*overrides, launcher=launcher)
        arena.when(SECOND, process)
        time.sleep(0.3)
        for each in [*(ranks(process) if each_rank else []), *[process] * times]:
            each.send_signal(number)
            time.sleep(0.02)
        ended = arena.ended(process)
        arena.run(*overrides, launcher=launcher)
        return arena.compared(ended, *overrides, launcher=launcher)

    return inject


def sigterm_while_loading(arena: Arena) -> Outcome:
    process = arena.start()
    time.sleep(4.5)
    process.send_signal(signal.SIGTERM)
    arena.ended(process)
    begun = arena.newest() is not None
    return arena.compared(arena.run(), a_checkpoint_before=begun)


SAVED = "stopped at step"
FAULTS = [
    Fault("SIGKILL", killed(), Required(says=("problems, from …/grpo/checkpoint-",))),
    Fault(
        "SIGKILL while a checkpoint is written",
        killed(after="checkpoint-4/model.safetensors", wait=0),
        Required(says=("passed over",)),
    ),
    Fault("SIGKILL while loading", killed(after="", wait=2), Required()),
    Fault("SIGKILL in a cycle of several steps", killed(*LONG), Required()),
    Fault("SIGKILL of an adapter's run with a reference", killed_with_a_reference, Required()),
    Fault(
        "saves within a generation cycle",
        saves_within_a_cycle,
        Required(2, ("grpo.save_steps",), weights=""),
    ),
    Fault("SIGTERM", signalled(signal.SIGTERM), Required(75, (SAVED,))),
    Fault("Ctrl-C", signalled(signal.SIGINT), Required(130, (SAVED,))),
    Fault("SIGTERM twice", signalled(signal.SIGTERM, times=2), Required(75)),
    Fault(
        "SIGTERM while loading",
        sigterm_while_loading,
        Required(noted={"a checkpoint before": False}),
    ),
    Fault(
        "SIGTERM, num_iterations 2, steps_per_generation 4",
        signalled(signal.SIGTERM, *LONG),
        Required(75, (SAVED,)),
    ),
]
