"""Two runs on one folder, and runs of two ranks."""

import signal

import psutil

from tests.faults.arena import CPU2, PAIR, SECOND, Arena, ranks
from tests.faults.kills import SAVED, signalled
from tests.faults.outcome import Fault, Outcome, Required


def two_runs(arena: Arena) -> Outcome:
    process = arena.start()
    arena.when("checkpoint-2/trainer_state.json", process)
    second = arena.run()
    return arena.compared(second, exit_of_the_first=arena.ended(process).exit)


def stale_lock(arena: Arena) -> Outcome:
    arena.interrupted()
    there = (arena.grpo / ".lock").is_file()
    return arena.compared(arena.run(), lock_file_there=there)


def dead_rank(arena: Arena) -> Outcome:
    process = arena.start(*PAIR, launcher=CPU2)
    arena.when(SECOND, process)
    both = ranks(process)
    both[1].kill()
    arena.ended(process)
    alive = [each for each in both if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    again = arena.run(*PAIR, launcher=CPU2)
    return arena.compared(again, *PAIR, launcher=CPU2, left_behind=len(alive))


# The exit code of a run of two is accelerate's.
FAULTS = [
    Fault(
        "two runs on one folder",
        two_runs,
        Required(2, ("in use by process",), noted={"exit of the first": 0}),
    ),
    Fault("the lock of a dead run", stale_lock, Required(noted={"lock file there": True})),
    Fault("one of two ranks killed", dead_rank, Required(noted={"left behind": 0})),
    Fault(
        "SIGTERM of two ranks",
        signalled(signal.SIGTERM, *PAIR, launcher=CPU2),
        Required(None, (SAVED,)),
    ),
    # What a batch system does: a rank has the signal twice, once from its launcher.
    Fault(
        "SIGTERM of two ranks and their launcher",
        signalled(signal.SIGTERM, *PAIR, launcher=CPU2, each_rank=True),
        Required(None, (SAVED,)),
    ),
]
