"""What a reward may return, and which checkpoints count."""

import asyncio
import contextlib
import errno
import functools
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer
from math_verify.utils import timeout
from transformers import TrainerControl

from console.faults import RunStopped
from runs import files, state
from tests.made_runs import write_json
from tests.support import run_program
from tests.waits import in_time
from training import callbacks, scoring, train
from training.callbacks import Checkpoints, FiniteNumbers
from training.scoring import Batch, GuardedReward


class Mute(Exception):
    """Of which nothing can be shown."""

    def __repr__(self):
        raise ValueError("no")

    __str__ = __repr__


def raising(error):
    def reward(**columns):
        raise error

    return reward


def guarded(function, seen: int = 1000) -> GuardedReward:
    reward = GuardedReward(function, "mine")
    reward.rows_scored = seen  # the first batch is judged more harshly
    return reward


@pytest.mark.parametrize(
    ("returned", "judged"),
    [
        ([1, 0.5, True], [1.0, 0.5, 1.0]),
        ([torch.tensor(2.0), None, -1], [2.0, None, -1.0]),
        ([math.nan, 1.0, 1.0], [None, 1.0, 1.0]),
        ([math.inf, -math.inf, 1.0], [None, None, 1.0]),
        ([1e38, "1", 1.0], [None, None, 1.0]),
        ([1.0, [1.0], {}], [1.0, None, None]),
        (np.array([1.0, math.nan, 0.5]), [1.0, None, 0.5]),
        (torch.tensor([1, 0, 1]), [1.0, 0.0, 1.0]),
        ([1.0, 1.0], [None] * 3),
        (None, [None] * 3),
        (7.0, [None] * 3),
        (Mute(), [None] * 3),
        ([1.0, Mute(), 1.0], [1.0, None, 1.0]),
        ([10**5000, 1.0, 1.0], [None, 1.0, 1.0]),
    ],
)
def test_a_row_is_judged_by_a_number_or_not_at_all(returned, judged, capsys):
    reward = guarded(lambda completions, **columns: returned)
    assert reward(completions=["a"] * 3, problem=["p"] * 3) == judged
    skipped = returned.count(None) if isinstance(returned, list) and len(returned) == 3 else 0
    assert ("judged None" in capsys.readouterr().err) == (judged.count(None) > skipped)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (lambda **columns: 1 / 0, "ZeroDivisionError: division by zero"),
        (lambda **columns: sys.exit(3), "SystemExit: 3"),
        (raising(ValueError("two\nlines")), "ValueError: two lines"),
        (raising(ConnectionResetError("by a library")), "ConnectionResetError: by a library"),
        (raising(Mute()), "Mute: it has no text"),
    ],
)
def test_a_reward_that_raises_is_told_once_with_its_row(function, told, capsys):
    reward = guarded(function)
    for _ in range(3):
        problems = ["What is 1 + 1?", "…"]
        scores = reward(completions=["a", "b"], problem=problems, self=["a column"] * 2)
        assert scores == [None, None]
    warning = r"rewards.mine failed at \S+/test_guards.py:\d+: (.*), first in (.*):"
    said = re.findall(warning, capsys.readouterr().err)
    assert said == [(told, "row 0 ('What is 1 + 1?')")]


# The place is in the user's file.
LATE = r"failed at \S+/test_guards.py:(\d+): TimeoutError: no answer within 0.2 s"


def test_an_async_reward_is_waited_for_on_one_loop_and_no_longer_than_its_limit(capsys):
    loops, ended = [], []

    async def slow(completions, **columns):
        loops.append(asyncio.get_running_loop())
        try:
            await asyncio.sleep(0 if len(completions) == 2 else 1000)
        finally:
            ended.append(len(completions))
        return [1.0] * len(completions)

    reward = guarded(functools.partial(slow))
    reward.seconds = 0.2
    assert reward(completions=["a"] * 2) == [1.0, 1.0]
    assert reward(completions=["a"] * 3) == [None] * 3
    (line,) = re.findall(LATE, capsys.readouterr().err)
    assert int(line) == slow.__code__.co_firstlineno  # where it waits, no frame of it is left
    assert reward(completions=["a"] * 2) == [1.0, 1.0]
    assert len(set(loops)) == 1 and sorted(ended) == [2, 2, 3]


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread")],
)
def test_a_machine_with_no_process_or_file_left_stops_the_run_and_judges_nothing(error):
    with pytest.raises(RunStopped, match=error.args[-1]) as stopped:
        guarded(raising(error))(completions=["a"])
    assert stopped.value.exit_code == 75


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        ({0: 1.0}, "returned {0: 1.0} for 1 completions, not a list with a number for each"),
        ([1.0, 0.0], "returned 2 values for 1 completions, not a list"),
        (np.ones((1, 1)), "returned [1.0], not a number"),
    ],
)
def test_what_is_no_number_for_each_completion_is_named(returned, words, capsys):
    guarded(lambda completions, **columns: returned)(completions=["a"])
    assert words in capsys.readouterr().err


def test_a_reward_that_never_pays_is_told(capsys):
    reward = guarded(lambda completions, **columns: [None] * 2, seen=0)
    reward(completions=["a"] * 2, problem=["p"] * 2)
    assert "returned None for each completion of its first batch" in capsys.readouterr().err


def test_a_share_of_faulty_rows_stops_the_run():
    reward = guarded(lambda completions, **columns: [math.nan, *[1.0] * 9], seen=0)
    for _ in range(50):  # one in ten is let pass
        reward(completions=["a"] * 10)
    reward.function = lambda completions, **columns: [math.nan] * 10
    reason = r"rewards.mine: 60 of 510 rows have no usable reward \(returned nan\)"
    with pytest.raises(RunStopped, match=reason):
        reward(completions=["a"] * 10)


def test_a_first_batch_of_faults_stops_at_once():
    with pytest.raises(RunStopped, match="8 of 8 rows"):
        GuardedReward(lambda completions, **columns: None, "mine")(completions=["a"] * 8)


def loops():
    while True:
        pass


def catches():
    """As open-r1's rewards do for every row."""
    for _ in range(3):
        with contextlib.suppress(Exception):
            time.sleep(1000)


def waits_for_a_thread():
    over = threading.Event()
    with ThreadPoolExecutor() as pool:
        threading.Timer(1, over.set).start()
        pool.submit(over.wait).result()


async def gathers():
    async def loops_too():
        loops()

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(asyncio.to_thread(time.sleep, 0.5))
        tasks.create_task(loops_too())


def sets_the_alarm_clock():
    timeout(5)(int)()  # as math_verify does, which then turns it off
    time.sleep(1000)


HANGS = {
    "a loop": loops,
    "sleep": functools.partial(time.sleep, 1000),
    "a loop that catches": catches,
    "a thread": waits_for_a_thread,
    "several tasks": gathers,
    "an event": threading.Event().wait,
    "an alarm clock of its own": sets_the_alarm_clock,
    "a regular expression": functools.partial(re.match, "(a+)+b", "a" * 40),
}


@pytest.mark.parametrize("hang", HANGS.values(), ids=HANGS)
def test_one_that_hangs_is_judged_none_and_stops_as_another_fault_does(hang):
    handler = signal.getsignal(signal.SIGALRM)
    reward = guarded(lambda **columns: hang())
    reward.seconds = 0.2
    with in_time():  # which no hang ends in
        assert reward(completions=["a"] * 3) == [None] * 3
    assert re.match(LATE, reward.mistakes[0])
    reason = r"rewards.mine: 8 of 8 rows .*TimeoutError: no answer within 0.1 s"
    with pytest.raises(RunStopped, match=reason):
        GuardedReward(lambda **columns: hang(), "mine", 0.1)(completions=["a"] * 8)
    assert signal.getsignal(signal.SIGALRM) is handler
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


HUNG = """
import ctypes, sys, time
from training import scoring
def holds_the_lock():
    c, mutex = ctypes.PyDLL(None), ctypes.create_string_buffer(64)
    c.pthread_mutex_lock(mutex)
    c.pthread_mutex_lock(mutex)  # its own: for ever, and no signal ends it
def catches_all():
    while True:
        try:
            time.sleep(60)
        except BaseException:
            pass
def mine(**columns):
    globals()[sys.argv[1]]()
scoring.GRACE = 0.5
reward = scoring.GuardedReward(mine, "mine", 0.2)
scoring.Scores([reward], ends=set())
reward(completions=["a"])
"""


@pytest.mark.train
@pytest.mark.parametrize(("hang", "line"), [("holds_the_lock", 7), ("catches_all", 11)])
def test_one_that_cannot_be_interrupted_ends_the_process_where_it_hangs(hang, line, tmp_path):
    program = tmp_path / "hung.py"
    program.write_text(HUNG)
    ended = run_program(program, hang, check=False)
    assert ended.returncode == 1
    assert f'hung.py", line {line} in {hang}' in ended.stderr
    remedy = "rewards.mine: no answer within 0.2 s; correct the function.* the same command resumes"
    assert re.search(remedy, ended.stderr)


def test_no_clock_goes_on_after_a_call_that_left_one_or_from_another_thread(monkeypatch):
    monkeypatch.setattr(scoring, "GRACE", 0.1)
    handler = signal.getsignal(signal.SIGALRM)

    def sets_a_clock(**columns):
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(1)
        return [1.0]

    reward = guarded(sets_a_clock)
    reward.seconds = 0.2
    assert reward(completions=["a"]) == [1.0]
    assert signal.getsignal(signal.SIGALRM) is handler
    reward.function = lambda **columns: [signal.getitimer(signal.ITIMER_REAL)[0]]
    with ThreadPoolExecutor() as pool:
        assert pool.submit(reward, completions=["a"]).result() == [0.0]
    time.sleep(1.2)  # either clock would end this process


def test_a_pause_does_not_count():
    def is_paused(**columns):
        resume = f"sleep 1; kill -CONT {os.getpid()}"
        subprocess.Popen(["sh", "-c", resume], start_new_session=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        return [1.0]

    reward = guarded(is_paused)
    reward.seconds = 0.5
    assert reward(completions=["a"]) == [1.0]


def test_a_rewards_own_time_limits_hold_within_ours(capsys):
    """math_verify's, whose exception is no Exception."""
    from math_verify.utils import timeout

    reward = guarded(lambda **columns: timeout(1)(loops)())
    assert reward(completions=["a"]) == [None]
    assert "TimeoutException: Operation timed out!" in capsys.readouterr().err


class State:
    global_step, is_world_process_zero = 5, True


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_gradient_that_is_not_finite_stops_before_it_is_applied(value, tmp_path):
    model = torch.nn.Linear(2, 2)
    model.weight.grad = torch.zeros(2, 2)
    args = type("Args", (), {"output_dir": str(tmp_path)})
    scores = SimpleNamespace(batch=Batch({"prompts": ["the culprit"]}, {}))
    watch = FiniteNumbers(scores)
    watch.on_pre_optimizer_step(args, State, None, model=model)
    model.weight.grad[1, 1] = value
    with pytest.raises(RunStopped, match="a gradient is not finite after step 5"):
        watch.on_pre_optimizer_step(args, State, None, model=model)
    assert json.loads((tmp_path / "not-finite-5.json").read_text()) == ["the culprit"]


@pytest.mark.parametrize(("scale", "stops"), [(2.0**16, False), (2.0, False), (1.0, True)])
def test_a_gradient_whose_loss_was_scaled_stops_a_run_once_no_scale_helps(scale, stops, tmp_path):
    model = torch.nn.Linear(2, 2)
    Accelerator(cpu=True)  # the optimizer asks for its state
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    optimizer = AcceleratedOptimizer(torch.optim.SGD(model.parameters()), scaler=scaler)
    scaler.scale(model(torch.full((1, 2), math.inf)).sum()).backward()
    before, args = model.weight.clone(), type("Args", (), {"output_dir": str(tmp_path)})
    with pytest.raises(RunStopped, match="a gradient is not finite") if stops else nullcontext():
        FiniteNumbers().on_pre_optimizer_step(args, State, None, model=model, optimizer=optimizer)
    optimizer.step()
    assert optimizer.step_was_skipped and torch.equal(before, model.weight)
    assert scaler.get_scale() == scale / 2


SHARDED = """
import sys
import torch
from torch import distributed, nn
from torch.distributed.fsdp import fully_shard
from console.faults import RunStopped
from training.callbacks import FiniteNumbers
distributed.init_process_group("gloo")
mesh = torch.distributed.init_device_mesh("cpu", (2,))
model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
for module in (model[0], model):
    fully_shard(module, mesh=mesh)
args = type("Args", (), {"output_dir": sys.argv[1]})
state, control = type("State", (), {"global_step": 5}), type("Control", (), {"should_save": True})
model(torch.ones(3, 4)).sum().backward()
watch = FiniteNumbers()
watch.on_pre_optimizer_step(args, state, control, model=model)
watch.on_step_end(args, state, control, model=model)
if distributed.get_rank() == 1:
    model[0].weight.grad.to_local()[0, 0] = float("inf")
try:
    watch.on_pre_optimizer_step(args, state, control, model=model)
except RunStopped as stopped:
    sys.stdout.write(f"{stopped}\\n")
"""


@pytest.mark.train
def test_shards_of_a_gradient_are_watched_and_every_process_stops(tmp_path):
    """As FSDP2 leaves them, on two processes of a CPU; an infinity in the second's shard."""
    (tmp_path / "sharded.py").write_text(SHARDED)
    done = run_program(tmp_path / "sharded.py", tmp_path, processes=2)
    assert done.stdout.count("a gradient is not finite after step 5") == 2


@pytest.fixture
def exits(monkeypatch) -> list[int]:
    """The codes with which this process would have ended at once. pytest keeps its signals."""
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    monkeypatch.setattr(signal, "signal", lambda *arguments: None)
    return codes


@pytest.mark.parametrize(("echo", "ends"), [(5, []), (0, [75])])
def test_a_launchers_echo_of_a_signal_is_not_a_second_one(echo, ends, exits, monkeypatch):
    monkeypatch.setattr(train, "ECHO", echo)
    watch = train.Interrupts()
    watch.on_train_begin(None, None, None)
    watch._catch(signal.SIGTERM, None)
    watch._catch(signal.SIGTERM, None)
    assert exits == ends
    watch._catch(signal.SIGINT, None)
    assert exits == [*ends, 130]


def test_so_is_that_of_a_signal_another_process_was_sent_first(exits, monkeypatch):
    monkeypatch.setattr(train, "ECHO", 5)
    monkeypatch.setattr(train, "_agreed", lambda caught: signal.SIGTERM)
    watch, control = train.Interrupts(), TrainerControl()
    watch.on_train_begin(None, None, control)
    watch.on_step_end(None, State, control)
    assert control.should_save and control.should_training_stop
    watch._catch(signal.SIGTERM, None)
    assert exits == []


def saved(folder, step: int, best: str | None = None, keep: int | None = None):
    checkpoint = folder / f"checkpoint-{step}"
    (checkpoint / "sub").mkdir(parents=True, exist_ok=True)
    (checkpoint / "sub/weights").write_bytes(os.urandom(100))
    content = {"global_step": step, "epoch": step / 800, "best_model_checkpoint": best}
    write_json(checkpoint / "trainer_state.json", content)
    state = SimpleNamespace(**content, is_world_process_zero=True)
    Checkpoints(keep).on_save(type("Args", (), {"output_dir": str(folder)}), state, None)
    return checkpoint


def test_no_process_leaves_before_the_checkpoint_has_its_manifest(tmp_path, monkeypatch):
    """Once one has left after a signal, its launcher ends the others."""
    waited = []

    class Others:
        def wait_for_everyone(self):
            waited.append((tmp_path / "checkpoint-2" / state.MANIFEST).is_file())

    monkeypatch.setattr(callbacks, "PartialState", Others)
    saved(tmp_path, 2)
    assert waited == [False, True]


def test_what_was_sampled_is_on_the_disk_before_the_checkpoint_counts(tmp_path, monkeypatch):
    """A resumed run samples nothing of the steps before its checkpoint again."""
    names = ["metrics.jsonl", "completions/completions_00002.parquet", "same_questions/x.parquet"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(b"1")
    on_disk = []
    for module in (files, state):
        monkeypatch.setattr(module, "sync", on_disk.append)
    monkeypatch.setattr(state, "write_whole", lambda file, _: on_disk.append(file))
    checkpoint = saved(tmp_path, 2)
    manifest = on_disk.index(checkpoint / state.MANIFEST)
    assert all(on_disk.index(tmp_path / name) < manifest for name in names)
    assert on_disk.index(checkpoint / "sub/weights") < manifest


def test_the_newest_whole_checkpoint_is_found_and_the_others_named(tmp_path, capsys):
    for step in (2, 10, 9):
        saved(tmp_path, step)
    assert state.newest_good(tmp_path).endswith("checkpoint-10")
    content = bytearray((tmp_path / "checkpoint-10/sub/weights").read_bytes())
    content[50] ^= 1
    (tmp_path / "checkpoint-10/sub/weights").write_bytes(content)
    (tmp_path / "checkpoint-11").mkdir()
    assert state.newest_good(tmp_path).endswith("checkpoint-9")
    said = capsys.readouterr().out
    assert "checkpoint-11: it was not written to the end" in said
    assert "checkpoint-10: sub/weights is not the file that was written" in said


def test_old_checkpoints_go_only_when_a_new_one_is_whole_and_the_best_stays(tmp_path):
    for step in (1, 2, 3):
        saved(tmp_path, step)
    (tmp_path / "checkpoint-4").mkdir()  # begun, and killed
    saved(tmp_path, 5, best=str(tmp_path / "checkpoint-1"), keep=2)
    names = sorted(folder.name for folder in tmp_path.iterdir())
    assert names == ["checkpoint-1", "checkpoint-3", "checkpoint-5"]


def test_an_old_checkpoint_that_cannot_be_deleted_is_said_and_passed_over(
    tmp_path, monkeypatch, capsys
):
    saved(tmp_path, 1)
    monkeypatch.setattr(state.shutil, "rmtree", os.rmdir)  # as NFS does while a backup reads
    assert str(saved(tmp_path, 2, keep=1)) == state.newest_good(tmp_path)
    assert "checkpoint-1 cannot be deleted (Directory not empty)" in capsys.readouterr().out
