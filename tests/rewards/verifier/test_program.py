"""Programs are judged by running them: hostile ones end as wrong, in time, and leave nothing
behind."""

import contextlib
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from evaluation.answers import judged
from rewards import correct_answer
from rewards.verifier import CONTRACT, STRICT, Verdict, checks, judge
from rewards.verifier.checks import NotHeld, judge_programs, run_program
from tests.support import ROOT, far_below_quadratic
from tests.tables import cases
from tests.waits import GUARD, capture, in_time, start_command, until

pytestmark = pytest.mark.train  # attacks, each in processes of its own

SECONDS = 0.5  # of processor time
NAME = f"hostile-{os.getpid()}"


def _table(text: str) -> dict[str, str]:
    return dict(
        each.split("\n", 1)
        for each in re.split(r"(?:^|\n)## ", re.sub(r"(?m)^# .*\n", "", text))[1:]
    )


WRONG, RIGHT = map(
    _table, Path(__file__).with_name("hostile_programs.txt").read_text().split("\n# Right\n")
)
WRONG |= {
    "nested source": f"def f(x): return {'(' * 4000}x{')' * 4000}",
    "NUL": "def f(x): return 2\0",
    "half a character": "def f(x): return '\ud800'",
}


def _alive() -> list[str]:
    """Processes that run a program, or something that a program started."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has just ended
            words = each.read_text(errors="replace")
            if NAME in words:
                found.append(words)
    return found


def _memory() -> int:
    """MiB of this process that are resident."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() >> 20


@pytest.fixture
def process(tmp_path_factory, monkeypatch) -> Path:
    """A copy of the process's file, whose path tells its processes from those of another run of
    these tests."""
    copy = shutil.copy(checks._PROCESS, tmp_path_factory.mktemp(NAME))
    monkeypatch.setattr(checks, "_PROCESS", str(copy))
    return Path(copy)


@pytest.fixture
def world(tmp_path, process):
    """What hostile programs go for, checked to be untouched: a file, a port, this process."""
    kept = tmp_path / "kept"
    kept.write_text("2")
    listener = socket.create_server(("127.0.0.1", 0))
    names = {"folder": tmp_path, "port": listener.getsockname()[1]}
    names |= {"parent": os.getpid(), "name": NAME}
    before = kept.stat().st_mode, _memory()
    strays = [Path("/written"), ROOT / "written", Path("/tmp", NAME), Path("/dev/shm", NAME)]
    strays = [each for each in strays if not each.exists()]  # an earlier failure's stay
    yield names
    assert _alive() == []
    assert [each.name for each in tmp_path.iterdir()] == ["kept"]
    assert (kept.read_text(), kept.stat().st_mode) == ("2", before[0])
    assert [each for each in strays if each.exists()] == []
    assert not select.select([listener], [], [], 0)[0]
    listener.close()
    assert _memory() < before[1] + 16  # 64 KiB of JSON, the most that is read, take some 2 MiB


def _judged(source: str, names: dict):
    for name, value in names.items():
        source = source.replace(f"{{{name}}}", str(value))
    return run_program(source, "f", [[[1], 2]], seconds=SECONDS)


def _used() -> float:
    spent = resource.getrusage(resource.RUSAGE_CHILDREN)
    return spent.ru_utime + spent.ru_stime


@pytest.mark.parametrize("name", WRONG)
def test_a_hostile_program_is_wrong_in_time_and_leaves_nothing(name, world):
    used = _used()
    with in_time():
        outcome = _judged(WRONG[name], world)
    assert outcome.right is False, outcome
    assert _used() - used < SECONDS + 1  # and the start of the interpreter


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_passes(name, world):
    assert _judged(RIGHT[name], world).right is True


@cases(__file__, "reasons")
def test_the_reason_says_what_happened(name, reason, timed_out, world):
    outcome = _judged(WRONG[name], world)
    assert (outcome.reason, outcome.timed_out) == (reason, timed_out)


def test_the_program_is_not_told_what_is_expected():
    """The secret is in no object of its process, and not in the memory that its libc can search."""
    secret = 918_273_645_546
    source = """
import gc, sys
def f(x):
    frame, seen = sys._getframe(), []
    while frame:
        seen += [repr(frame.f_locals), repr(frame.f_globals)]
        frame = frame.f_back
    seen += map(repr, gc.get_objects())
    part = str(918_273_645)
    return [text for text in seen if part + "546" in text][:1] or 0
"""
    assert run_program(source, "f", [[[1], secret]]).reason == f"f(1) is 0, not {secret}"


@cases(__file__, "results", ("10 ** 400", 10**400, True), ("'x' * 10 ** 6", "x" * 10**6, True))
def test_results_are_compared_as_json(body, wanted, right):
    assert run_program(f"def f(): return {body}", "f", [[[], wanted]]).right is right


def test_every_case_counts_and_no_case_changes_another():
    cases = [[[[1, 2]], 2], [[[1, 2]], 2], [[[]], 0]]
    clears = "def f(x):\n    n = len(x)\n    x.clear()\n    return n"
    assert run_program(clears, "f", cases).right is True
    assert run_program("def f(x): return 2", "f", cases).reason == "f([]) is 2, not 0"
    divides = run_program("def f(x): return len(x) // len(x) * 2", "f", cases)
    assert divides.reason == "f([]) raised ZeroDivisionError"
    kept = "held = []\ndef f(x):\n    held.append(x)\n    return held"
    # as it was when it was returned
    assert run_program(kept, "f", [[[1], [1]], [[2], [1, 2]]]).right is True


SPEC = {"function": "f", "cases": [[[3], 13], [[0], 4]]}
GOOD, BAD = "def f(x):\n    return x * 3 + 4", "def f(x):\n    return x * 3"


def judge_program(response: str, reading: str = CONTRACT) -> Verdict:
    return judge_programs([response], [SPEC], [reading])[0]


DEEP = "def f(x):\n    if x:\n        if x:\n            return x * 3 + 4\n    return 4"


@cases(
    __file__,
    "responses",
    (f"<answer>{GOOD}</answer>".replace("\n", "\r\n"), True, True),
    (f"<answer>{GOOD}\n#{'x' * 10_000}</answer>", False, False),
    ("<answer>" + "if x:" * 500 + "</answer>", False, False),
)
def test_where_the_program_stands(response, lenient, strict):
    for name, program in {"{good}": GOOD, "{bad}": BAD, "{deep}": DEEP}.items():
        response = response.replace(name, program)
    assert judge_program(response).right is lenient
    assert judge_program(response, STRICT).right is strict


@pytest.mark.parametrize(
    "run", [" " * 100_000, "\n" * 100_000, "`" * 100_000, "```x\n" * 20_000, "<" * 100_000]
)
@pytest.mark.parametrize(
    "place", ["{}", "<{}think>", "</{}answer>", "<answer>{}</answer>", "```{}"]
)
def test_a_long_run_is_read_in_time(run, place):
    with far_below_quadratic():
        assert judge_program(place.format(run)).right is False


@pytest.mark.parametrize(
    "spec",
    [{}, {"function": "f"}, {"function": "f", "cases": []}, {"function": "f(", "cases": [[[1], 2]]}]
    + [
        {"function": "f", "cases": cases}
        for cases in ([[1, 2]], [[[1]]], ["ab"], "ab", [[[1], 2, 3]], [None])
    ],
)
def test_a_check_that_cannot_be_used_is_refused(spec):
    with pytest.raises(ValueError, match="python needs"):
        judge(GOOD, None, check=json.dumps({"python": spec}))


def test_a_check_decides_in_place_of_the_gold():
    check = json.dumps({"python": SPEC})
    assert judge(f"<answer>{GOOD}</answer>", BAD, check=check, run_programs=True).right is True
    assert judge(f"<answer>{BAD}</answer>", BAD, check=check, run_programs=True).right is False


def test_no_program_is_run_that_nobody_allowed():
    with pytest.raises(ValueError, match="allow it with run_programs"):
        judge(GOOD, None, check=json.dumps({"python": SPEC}))
    with pytest.raises(ValueError, match="allow it with run_programs"):
        correct_answer([GOOD], [BAD], check=[json.dumps({"python": SPEC})])
    rows = {"solution": [BAD], "check": [json.dumps({"python": SPEC})]}
    assert correct_answer([f"<answer>{GOOD}</answer>"], run_programs=True, **rows) == [1.0]


def test_text_that_names_no_function_starts_no_process(monkeypatch):
    monkeypatch.setattr(checks, "run_program", None)
    verdict = judge_program("<answer>I do not know.</answer>")
    assert verdict.right is False and verdict.reason == "it defines no f"


@pytest.fixture
def runs(monkeypatch) -> list[tuple]:
    """The programs that are run, by the arguments of `run_program`."""
    calls = []

    def recorded(*arguments, **options):
        calls.append(arguments)
        return run_program(*arguments, **options)

    monkeypatch.setattr(checks, "run_program", recorded)
    return calls


def test_a_batch_is_judged_in_order_and_equal_programs_once(runs):
    other = {"function": "f", "cases": [[[3], 9]]}
    responses, specs = [GOOD, BAD, "<think>", GOOD, BAD], [SPEC, SPEC, SPEC, SPEC, other]
    verdicts = judge_programs(responses, specs, [CONTRACT] * 5)
    assert [verdict.right for verdict in verdicts] == [True, False, False, True, True]
    assert len(runs) == 3
    assert judge_programs([], [], []) == []


def test_as_many_run_at_a_time_as_this_process_has_processors(monkeypatch):
    pools = []
    executor = checks.ThreadPoolExecutor
    monkeypatch.setattr(checks, "ThreadPoolExecutor", lambda n: pools.append(n) or executor(n))
    for cores, threads in ((1, 1), (128, checks._MOST_AT_ONCE)):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, cores=cores: range(cores))
        judge_programs([], [], [])
        assert pools.pop() == threads


@pytest.mark.parametrize("kills", [1, checks._ATTEMPTS])
def test_a_program_that_was_killed_from_outside_is_run_again(kills, process, monkeypatch):
    source = process.read_text()
    monkeypatch.setattr(checks, "_PROCESS", str(process))
    kill = "import os; count = open({!r}, 'a+'); count.write('.'); count.flush(); count.seek(0)\n"
    kill += "len(count.read()) > {} or os.kill(os.getpid(), 9)\n"
    process.write_text(kill.format(str(process.with_name("count")), kills) + source)
    if kills == 1:
        assert judge_program(GOOD).right is True
    else:
        with pytest.raises(ConnectionError, match="killed from outside"):
            judge_program(GOOD)


def test_the_evaluation_runs_a_program_once_for_both_verdicts(runs):
    rows = [{"problem": "f?", "solution": "x", "check": json.dumps({"python": SPEC})}] * 3
    responses = [f"<answer>{GOOD}</answer>", f"<answer>{BAD}</answer>", GOOD]
    lines = judged(rows, responses, strict=True, run_programs=True)
    verdicts = [(line["right"], line["lenient"]) for line in lines]
    assert verdicts == [(True, True), (False, False), (False, True)]
    assert len(runs) == 2


def test_it_is_judged_in_any_thread():
    verdicts = []
    thread = threading.Thread(target=lambda: verdicts.append(judge_program(GOOD)))
    thread.start()
    thread.join(60)
    assert verdicts[0].right is True


def test_a_program_ends_after_a_trainer_that_was_killed(process):
    code = "from rewards.verifier import checks\n"
    code += f"checks._PROCESS = {str(process)!r}\n"
    code += "checks.run_program('while 1: pass', 'f', [[[], 1]], seconds=1)"
    trainer = start_command([sys.executable, "-"], cwd=ROOT, stdin=subprocess.PIPE)
    trainer.stdin.write(code.encode())
    trainer.stdin.close()
    until(_alive, running=[trainer], pause=0.01)
    trainer.send_signal(signal.SIGKILL)
    trainer.wait(60)
    until(lambda: not _alive(), GUARD, pause=0.05)  # a second of processor time


@cases(__file__, "not_held")
def test_where_nothing_holds_a_program_it_is_not_run(said, told, tmp_path, monkeypatch):
    (tmp_path / "process.py").write_text(said)
    monkeypatch.setattr(checks, "_PROCESS", str(tmp_path / "process.py"))
    with pytest.raises(NotHeld, match=told):
        judge_program(GOOD)


def test_elsewhere_than_on_linux_it_is_not_run(monkeypatch):
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(NotHeld, match="on Linux only"):
        judge_program(GOOD)


def test_the_filter_of_an_unknown_machine_is_refused(tmp_path):
    """The process says so itself, before it compiles anything."""
    source = Path(checks._PROCESS).read_text()
    source = source.replace('"x86_64": ', '"vax": ').replace('"aarch64": ', '"pdp": ')
    (tmp_path / "process.py").write_text(source)
    job = '{"source": "1/0", "function": "f", "arguments": [[]], "seconds": 1, "memory_mib": 256,'
    job += ' "modules": {}, "calls": []}'
    done = capture([sys.executable, "-I", "-S", tmp_path / "process.py"], input=job)
    message = f"no filter is written for {os.uname().machine}, only for vax"
    assert done.returncode == 1 and done.stdout.startswith(message)
