"""Rewards that go wrong in their third batch (tests/faulty_reward.py), and then, mended, go on."""

from collections.abc import Callable

from tests.faults.arena import Arena
from tests.faults.outcome import Fault, Outcome, Required


def faulty(kind: str) -> Callable[[Arena], Outcome]:
    def inject(arena: Arena) -> Outcome:
        timeout = "" if arena.trl else ", timeout: 20"
        reward = f'rewards.tests.faulty_reward.faulty={{weight: 0.5, kind: "{kind}"{timeout}}}'
        ended = arena.run(reward)
        if ended.exit != 0:
            arena.run(reward, MENDED="1")
        return arena.compared(ended)

    return inject


JUDGED = Required(says=("judged None",))
STOPS = Required(3, ("rewards.tests.faulty_reward.faulty",))
FAULTS = [
    Fault("reward: NaN in a row", faulty("NaN"), JUDGED),
    Fault("reward: inf in a row", faulty("inf"), JUDGED),
    Fault("reward: 1e38 in a row", faulty("huge"), JUDGED),
    Fault("reward: text in a row", faulty("text"), JUDGED),
    Fault("reward: inf in every row", faulty("every row inf"), STOPS),
    Fault("reward: raises", faulty("raises"), STOPS),
    Fault("reward: returns None", faulty("returns None"), STOPS),
    Fault("reward: a value too few", faulty("wrong length"), STOPS),
    Fault("reward: waits for ever", faulty("waits"), STOPS),
    Fault(
        "reward: hangs with the interpreter lock",
        faulty("hangs"),
        Required(1, ("faulty_reward.py", " in faulty")),
    ),
    Fault("the verifier's workers killed", faulty("kills the verifier's workers"), Required()),
]
