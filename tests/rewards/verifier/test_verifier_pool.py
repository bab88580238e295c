"""The verifier cannot hang: hostile answers, dying workers and dying trainers."""

import os
import select
import signal
import subprocess
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from rewards.verifier import judge, judge_all, pool, prepare
from tests.rewards.verifier.hostile_answers import HOSTILE, LONG, SURD
from tests.support import ROOT, TWO_PROCESSES, far_below_quadratic
from tests.tables import rows
from tests.waits import GUARD, in_time, is_gone, start_command, until

pytestmark = pytest.mark.train  # attacks, and many processes


@pytest.mark.parametrize("answer", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(
    "gold", [SURD, r"\begin{pmatrix} \sqrt{2} & x \end{pmatrix}", "5", r"\{x, \sqrt{2}\}"]
)
def test_a_hostile_answer_is_incorrect_in_time(answer, gold):
    # The limit on a judgement is 1 s; without it some of these never end.
    with in_time(), far_below_quadratic():
        verdict = judge(rf"<think>t</think><answer>{answer}</answer>", gold)
    correct = HOSTILE["shallow parentheses"], HOSTILE["100,000 spaces"]
    assert verdict.correct is False or answer in correct


# Long white space and long runs of marks, wherever an expression allows some; what thoughts leave
# behind is space too.
RUNS = {"hard spaces": "&nbsp;" * 20_000, "squares": r"\square" * 14_000}
RUNS |= {"thoughts": "<think></think>" * 1500, "mixed": " \n\t" * 33_000}
RUNS |= {"digits": f"{'5 ' * 490}\nx</answer><answer>She is " * 500}
for case, piece in {"spaces": " ", "lines": "\n", "stars": "*"}.items():
    RUNS[case] = piece * 100_000
[PLACES] = rows(__file__, "places")


@pytest.mark.parametrize("place", PLACES["texts"])
@pytest.mark.parametrize("run", RUNS.values(), ids=RUNS)
def test_a_long_run_is_read_in_time(run, place):
    with far_below_quadratic():
        verdict = judge(place.format(run).replace("⏎", "\n"), "17")
    # a worker's time is not in this process's
    assert verdict.correct is False and not verdict.timed_out


# What a data set holds: (gold, question, right), each of 40,000 characters.
ROWS = {f"a gold of {each!r}": (each * 40_000, "What?", None) for each in "7٣₂½{\n"} | {
    "a gold of fractions": (r"\frac" * 8_000, "What?", None),
    "a question of lines": ("34/2", "\n" * 40_000, True),
    "a question of blank lines": ("34/2", " \n\t\r" * 10_000, True),
    "a question of roots": ("34/2", "√(" * 20_000, True),
    "an option of digits": ("34/2", "(A) 17 (B) 4" + "7" * 40_000, True),
    "the three together": ("7" * 40_000, "7" * 40_000, None),
}


@pytest.mark.parametrize(("gold", "question", "correct"), ROWS.values(), ids=ROWS)
def test_a_long_gold_or_question_is_read_in_time(gold, question, correct):
    gold = gold if gold.strip() else f"5{gold}5"
    with far_below_quadratic():
        verdict = judge("<answer>17</answer>", gold, question=question)
    assert verdict.correct is correct


def test_a_long_question_is_read_by_a_worker(hanging, monkeypatch):
    """Which is ended when it takes too long; a short one, in this process, is not."""
    monkeypatch.setattr(pool, "POOL", hanging)
    assert judge("<answer>17</answer>", "34/2", question="What? " * 100).correct is True
    assert judge("<answer>17</answer>", "34/2", question="What? " * 1000, timeout=0.5).timed_out


@pytest.mark.parametrize("answer", [*HOSTILE.values(), *LONG])
def test_a_hostile_response_without_tags_is_incorrect_in_time(answer):
    # The limit on a judgement is 1 s; without it some of these never end.
    with in_time(), far_below_quadratic():
        assert judge(answer, "17").correct is False


def _in_thread(call):
    result = []
    thread = threading.Thread(target=lambda: result.append(call()))
    thread.start()
    thread.join(GUARD)
    return result[0]


ANY = {"gold": "", "answers": [""], "question": None}
# A worker whose every judgement is one C loop without end, into which no signal and no other thread
# gets.
HANGING = (
    "import itertools; from rewards.verifier.pool import serve; serve(lambda *_:"
    " any(itertools.repeat(False)))"
)


@pytest.fixture
def hanging():
    """A pool whose workers hold the interpreter lock for ever, whatever they are asked."""
    workers = pool.Pool(HANGING)
    workers.ask(ANY, 0.1)
    time.sleep(1)
    yield workers
    workers.close()


@pytest.mark.parametrize(
    "run", [lambda call: call(), _in_thread], ids=["main thread", "another thread"]
)
def test_code_that_holds_the_interpreter_lock_is_killed(hanging, run):
    for _ in range(2):
        with in_time():
            assert run(lambda: hanging.ask(ANY, 0.5)) is None


def test_workers_start_early_where_the_golds_are_not_all_numbers(monkeypatch):
    """While the first completions are sampled; runs on sums need none."""
    monkeypatch.setattr(pool, "POOL", pool.Pool())
    prepare(["5", "#### 1,000", r"so \boxed{-2.5}", 17, None])
    assert pool.POOL.workers == []
    prepare(["5", r"\frac{\sqrt{3}}{2}"])
    early = [worker.process.pid for worker in pool.POOL.workers]
    assert len(early) == 2
    assert judge(rf"<answer>{SURD}+1</answer>", f"1+{SURD}").correct is True
    assert [worker.process.pid for worker in pool.POOL.workers] == early
    pool.POOL.close()


def test_nobody_waits_for_workers_that_start_early(monkeypatch):
    never_ready = pool.Pool("import time; time.sleep(600)")
    monkeypatch.setattr(pool, "POOL", never_ready)
    with in_time(pool.SILENCE / 2):
        prepare([r"\frac{\sqrt{3}}{2}"])
    assert [worker.ready for worker in never_ready.workers] == [False, False]
    never_ready.close()


def test_a_batch_of_hanging_answers_is_judged_in_parallel(hanging):
    replies = []
    thread = threading.Thread(target=lambda: replies.extend(hanging.ask_all([ANY] * 2, 1.0)))
    thread.start()
    until(lambda: hanging._idle == [], GUARD)  # both workers are busy
    thread.join(GUARD)
    assert replies == [None] * 2


def test_a_worker_that_waits_for_the_processor_is_not_late():
    """As on a busy machine: its time is the processor's."""
    waiting = pool.Pool(
        "import time; from rewards.verifier.pool import serve; serve(lambda *_: (not time.sleep(1),"
        " ''))"
    )
    assert waiting.ask(ANY, 0.05) == {"correct": True, "reason": ""}
    waiting.close()


def test_a_pause_of_this_process_is_no_verdict(monkeypatch):
    def paused():  # between the question and the reply, as by Ctrl-Z and fg
        wake = f"sleep 1; kill -CONT {os.getpid()}"
        subprocess.Popen(["sh", "-c", wake], start_new_session=True)
        os.kill(os.getpid(), signal.SIGSTOP)
        return select.poll()

    monkeypatch.setattr(pool, "SILENCE", 1)
    workers = pool.Pool("from rewards.verifier.pool import serve; serve(lambda *_: (True, ''))")
    assert workers.ask(ANY, 0.01)["correct"] is True
    monkeypatch.setattr(pool, "select", SimpleNamespace(poll=paused, POLLIN=select.POLLIN))
    assert workers.ask(ANY, 0.01)["correct"] is True
    workers.close()


@pytest.mark.parametrize("ready", [True, False])
def test_a_worker_killed_from_outside_is_replaced(ready):
    workers = pool.Pool()
    request = ANY | {"gold": r"\frac{\sqrt{2}}{2}", "answers": [r"\frac{2}{\sqrt{8}}"]}
    workers.start()
    assert not ready or workers.ask(request, 2.0)["correct"] is True
    for worker in workers.workers:
        os.kill(worker.process.pid, signal.SIGKILL)
    assert workers.ask(request, 2.0)["correct"] is True
    workers.close()


def test_workers_that_cannot_start_are_an_error():
    workers = pool.Pool("raise ImportError")
    with pytest.raises(ConnectionError, match="no verifier worker could be started"):
        workers.ask(ANY, 2.0)
    workers.close()


def test_workers_killed_while_they_start_are_replaced_until_one_starts(tmp_path):
    starts = f"import os, signal; open({str(tmp_path / 'starts')!r}, 'ab').write(b'.')"
    killed = (
        f"if os.path.getsize({str(tmp_path / 'starts')!r}) < 9: os.kill(os.getpid(),"
        " signal.SIGKILL)"
    )
    workers = pool.Pool(f"{starts}\n{killed}\nfrom rewards.verifier.pool import work; work()")
    assert workers.ask(ANY, 10.0)["correct"] is not None
    workers.close()


def test_a_worker_killed_in_the_middle_of_a_judgement_gives_a_verdict(hanging):
    threading.Timer(
        0.3, lambda: [os.kill(w.process.pid, signal.SIGKILL) for w in hanging.workers]
    ).start()
    with in_time():  # killed, asked again of a new worker, late
        assert hanging.ask(ANY, 1.0) is None


TRAINER = f"""
import signal, sys, time
# A shell's background job ignores it, and hands that down.
signal.signal(signal.SIGINT, signal.default_int_handler)
from rewards.verifier import judge, pool
assert judge("<answer>(x+1)^2</answer>", "x^2+2x+1").correct
if "hang" in sys.argv:
    import threading
    idle = pool.POOL.workers
    hanging = pool.POOL = pool.Pool({HANGING!r})
    request = dict(gold="", answers=[""], question=None)
    threading.Thread(target=hanging.ask, args=(request, 1.0), daemon=True).start()
    time.sleep(1)
else:
    idle = []
print(*[w.process.pid for w in [*idle, *pool.POOL.workers]], flush=True)
if "end" not in sys.argv:
    time.sleep(600)
"""


# SIGTERM ends it as SIGKILL does, without a word to Python.
@pytest.mark.parametrize(
    ("how", "busy"),
    [(None, True), (signal.SIGINT, True), (signal.SIGKILL, True), (signal.SIGKILL, False)],
)
def test_no_worker_outlives_the_trainer(how, busy):
    arguments = ["hang"] * busy + ["end"] * (how is None)
    command = [sys.executable, "-c", TRAINER, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    trainer = start_command(command, cwd=ROOT, **pipes)
    workers = [int(pid) for pid in trainer.stdout.readline().split()]
    assert len(workers) == (4 if busy else 2)
    if how is not None:
        trainer.send_signal(how)
    trainer.wait(GUARD)
    until(lambda: all(map(is_gone, workers)), GUARD)


RANK = """
import os, sys, time
import torch
from pathlib import Path
from accelerate import PartialState
from rewards.verifier import pool
from rewards.verifier import judge
state = PartialState(cpu=True)
assert state.num_processes == 2 and torch.distributed.get_backend() == "gloo", state
right = judge(r"\\boxed{\\frac{2}{\\sqrt{8}}}", r"\\frac{\\sqrt{2}}{2}").correct
state.wait_for_everyone()
pids = [os.getpid(), *(w.process.pid for w in pool.POOL.workers)]
report = Path(sys.argv[1]) / str(state.process_index)
report.with_suffix(".partial").write_text(" ".join(map(str, [right, *pids])))
report.with_suffix(".partial").rename(report)
time.sleep(600 if sys.argv[2] == "wait" else 0)
"""


@pytest.mark.slow
@pytest.mark.parametrize("how", ["KILL", "end"])
def test_each_launched_process_has_workers_of_its_own_and_takes_them_along(tmp_path, how):
    (tmp_path / "rank.py").write_text(RANK)
    end = "wait" if how == "KILL" else "end"
    command = [*TWO_PROCESSES, tmp_path / "rank.py", tmp_path, end]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    launcher = start_command(command, cwd=ROOT, env=environment, stderr=subprocess.DEVNULL)
    reports = [tmp_path / "0", tmp_path / "1"]
    until(lambda: all(report.exists() for report in reports))
    processes = []
    for report in reports:
        correct, *pids = report.read_text().split()
        assert correct == "True"
        assert len(pids) == 3  # itself and two workers
        processes += map(int, pids)
    assert len(set(processes)) == 6
    if how == "KILL":
        for trainer in processes[::3]:
            os.kill(trainer, signal.SIGKILL)
    launcher.wait(GUARD)
    until(lambda: all(map(is_gone, processes)), GUARD)


def test_a_forked_child_uses_workers_of_its_own():
    assert judge(r"\boxed{\frac{3}{\sqrt{18}}}", r"\frac{\sqrt{2}}{2}").correct is True
    before = pool.POOL
    child = os.fork()
    if child == 0:
        os._exit(0 if pool.POOL is not before and not pool.POOL.workers else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_many_threads_share_the_workers():
    golds = [rf"\frac{{{n}\sqrt{{2}}}}{{2}}" for n in range(3, 60, 2)]
    completions = [rf"\boxed{{\frac{{{n}}}{{\sqrt{{2}}}}}}" for n in range(3, 60, 2)]
    verdicts = []
    threads = [
        threading.Thread(
            target=lambda n=n: verdicts.extend(
                judge_all(completions[n::4], golds[n::4], [None] * len(golds[n::4]))
            )
        )
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GUARD)
    assert [v.correct for v in verdicts] == [True] * len(golds)
