"""Faults, injected for real into runs of the tiny recipe; a line each: fault, what is required, what happened.

make faults
python -m tests.faults [--only kill] [--trl]     # --trl: under trl's own trainer with an auto-resume line
"""

import argparse
import contextlib
import http.server
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import psutil
import torch
from safetensors.torch import load_file

ROOT = Path(__file__).parent.parent
STEPS = 8
SHORT = ["data.validation=40", "sft.max_steps=100", f"grpo.max_steps={STEPS}", "grpo.save_steps=2"]
SHORT += ["grpo.logging_steps=1", "grpo.save_total_limit=3"]
LONG = ["grpo.num_iterations=2", "grpo.steps_per_generation=4", "grpo.gradient_accumulation_steps=2"]
LONG += ["grpo.save_steps=4", "grpo.per_device_train_batch_size=16"]
PAIR = ["grpo.per_device_train_batch_size=12"]
ADAPTER = ["adapter={r: 8, lora_alpha: 16, target_modules: all-linear}", "grpo.beta=0.04"]
ADAPTER += ["rewards.tests.varied_reward.varied={weight: 1.0}"]
CPU2 = [str(Path(sys.executable).with_name("accelerate")), "launch", "--config_file", "accelerate_configs/cpu2.yaml"]
PATIENCE = 300  # seconds for any one run


class Fault(NamedTuple):
    name: str
    required: str
    inject: Callable[["Arena"], str]


class Arena:
    """A folder for one fault, with the warm start in it, and the ways to run GRPO there.

    Args:
        home: where the warm start and the uninterrupted runs are kept, by their overrides.
        trl: run trl's own trainer instead of ours.
        always: overrides of every run, the warm start's too.
    """

    def __init__(self, home: Path, name: str, trl: bool = False, always: list[str] = ()):
        self.home, self.trl, self.always = home, trl, always
        self.folder = home / ("trl" if trl else "ours") / name.replace(" ", "-").replace("/", "-")
        shutil.rmtree(self.folder, ignore_errors=True)
        self.warm_start()
        shutil.copytree(home / "sft", self.folder / "sft")

    @property
    def grpo(self) -> Path:
        return self.folder / "grpo"

    def warm_start(self):
        if not (self.home / "sft/summary.json").is_file():
            self.finish(self.command(self.home, module="stages.sft"))

    def command(self, folder: Path, *overrides: str, module: str | None = None, launcher: list[str] = ()) -> list[str]:
        module = module or ("tests.trl_auto_resume" if self.trl else "stages.grpo")
        recipe = ["recipes/tiny-arithmetic.yaml", f"output_dir={folder}", *SHORT, *self.always, *overrides]
        return [*(launcher or [sys.executable]), "-m", module, *recipe]

    def start(self, *overrides: str, launcher: list[str] = (), **environment: str) -> subprocess.Popen:
        return subprocess.Popen(
            self.command(self.folder, *overrides, launcher=launcher),
            cwd=ROOT,
            env=os.environ | {"HF_HUB_OFFLINE": "1"} | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def run(self, *overrides: str, launcher: list[str] = (), **environment: str) -> tuple[int, str]:
        """Exit code and output of a whole run."""
        return self.ended(self.start(*overrides, launcher=launcher, **environment))

    def ended(self, process: subprocess.Popen) -> tuple[int, str]:
        try:
            out = process.communicate(timeout=PATIENCE)[0]
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            return None, process.communicate()[0]
        return process.returncode, out

    def finish(self, command: list[str]):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(done.stderr[-3000:])

    def when(self, file: str, process: subprocess.Popen):
        """Wait until a file of the run is there."""
        while not (self.grpo / file).exists():
            if process.poll() is not None:
                raise AssertionError(f"ended before {file} was there: {process.communicate()[0][-2000:]}")
            time.sleep(0.001)

    def weights(self, *overrides: str, launcher: list[str] = ()) -> str:
        """Whether the run ended with the weights of one that nothing happened to."""
        file = next(self.grpo.glob("*model.safetensors"), None)
        if file is None:
            return "NO WEIGHTS"
        ours = load_file(file)
        if not all(torch.isfinite(each).all() for each in ours.values()):
            return "weights are not finite"
        key = "-".join(["whole", "trl" if self.trl else "ours", *overrides, "two" if launcher else "one"])
        whole = self.home / "whole" / "".join(c if c.isalnum() else "-" for c in key)
        if not (whole / "grpo" / file.name).is_file():
            shutil.copytree(self.home / "sft", whole / "sft", dirs_exist_ok=True)
            self.finish(self.command(whole, *overrides, launcher=launcher))
        theirs = load_file(whole / "grpo" / file.name)
        return "same weights" if all(torch.equal(ours[name], theirs[name]) for name in theirs) else "OTHER WEIGHTS"

    def newest(self) -> Path | None:
        """Of those that were written to their end: what comes last is there."""
        last = "trainer_state.json" if self.trl else "manifest.json"
        written = [each.parent for each in self.grpo.glob(f"checkpoint-*/{last}")]
        return max(written, key=lambda each: int(each.name[11:]), default=None)

    def interrupted(self, after: str = "checkpoint-4/trainer_state.json", *overrides: str, **environment: str):
        """A run that was killed a while after a checkpoint, by default its second."""
        process = self.start(*overrides, **environment)
        self.when(after, process)
        time.sleep(0.3)
        process.kill()
        process.communicate()


def line(out: str, *words: str) -> str:
    """The first line of an output with one of the words."""
    found = (each for each in out.splitlines() if any(word in each for word in words))
    return " ".join(next(found, "no message").replace(str(ROOT), "").split())[:160]


# Signals -------------------------------------------------------------------------------------------------------------


def killed(arena: Arena) -> str:
    arena.interrupted()
    _, out = arena.run()
    return f"resumed from {line(out, 'problems, from')[-24:]}, {arena.weights()}"


def killed_while_saving(arena: Arena) -> str:
    process = arena.start()
    arena.when("checkpoint-4/model.safetensors", process)
    process.kill()
    process.communicate()
    files = len(list((arena.grpo / "checkpoint-4").iterdir()))
    _, out = arena.run()
    return f"{files} files written; {line(out, 'passed over', 'Error')}; {arena.weights()}"


def killed_while_loading(arena: Arena) -> str:
    process = arena.start()
    time.sleep(2)
    process.kill()
    process.communicate()
    return f"exit {arena.run()[0]}, {arena.weights()}"


def _signalled(
    arena: Arena, number: int, *overrides: str, launcher: list[str] = (), twice: bool = False, all_of_it: bool = False
) -> str:
    process = arena.start(*overrides, launcher=launcher)
    arena.when("checkpoint-4/trainer_state.json", process)
    time.sleep(0.3)
    for each in _ranks(process) if all_of_it else []:
        each.send_signal(number)
    process.send_signal(number)
    if twice:
        time.sleep(0.02)
        process.send_signal(number)
    code, out = arena.ended(process)
    stopped = line(out, "stopped at step") if "stopped at step" in out else f"newest {arena.newest().name}"
    arena.run(*overrides, launcher=launcher)
    return f"exit {code}, {stopped.split(', saved')[0]}; then {arena.weights(*overrides, launcher=launcher)}"


def sigterm(arena: Arena) -> str:
    return _signalled(arena, signal.SIGTERM)


def ctrl_c(arena: Arena) -> str:
    return _signalled(arena, signal.SIGINT)


def sigterm_twice(arena: Arena) -> str:
    return _signalled(arena, signal.SIGTERM, twice=True)


def sigterm_while_loading(arena: Arena) -> str:
    process = arena.start()
    time.sleep(4.5)
    process.send_signal(signal.SIGTERM)
    code, _ = arena.ended(process)
    return f"exit {code}; then exit {arena.run()[0]}, {arena.weights()}"


def sigterm_within_a_cycle(arena: Arena) -> str:
    return _signalled(arena, signal.SIGTERM, *LONG)


def killed_in_long_cycles(arena: Arena) -> str:
    arena.interrupted("checkpoint-4/trainer_state.json", *LONG)
    arena.run(*LONG)
    return arena.weights(*LONG)


def killed_with_a_reference(arena: Arena) -> str:
    adapter = Arena(arena.home / "adapter", "SIGKILL", arena.trl, ADAPTER)
    adapter.interrupted()
    code, _ = adapter.run()
    return f"exit {code}, {adapter.weights()}"


def saves_within_a_cycle(arena: Arena) -> str:
    if not arena.trl:
        code, out = arena.run(*LONG, "grpo.save_steps=3")
        return f"exit {code}; {line(out, 'grpo.save_steps')}"
    arena.interrupted("checkpoint-3/trainer_state.json", *LONG, SAVE_STEPS="3")
    code, _ = arena.run(*LONG, SAVE_STEPS="3")
    return f"exit {code}, {arena.weights(*LONG)}"


# Files ---------------------------------------------------------------------------------------------------------------


def _damaged(arena: Arena, damage: Callable[[Path], None]) -> str:
    arena.interrupted()
    damage(arena.newest())
    code, out = arena.run()
    message = line(out, "passed over", "Error:", "error:", "Can't find")
    return f"exit {code}; {message.replace(str(arena.grpo), '…')}; {arena.weights()}"


def truncated(arena: Arena) -> str:
    return _damaged(arena, lambda folder: os.truncate(folder / "optimizer.pt", 100_000))


def missing(arena: Arena) -> str:
    return _damaged(arena, lambda folder: (folder / "optimizer.pt").unlink())


def missing_scheduler(arena: Arena) -> str:
    return _damaged(arena, lambda folder: (folder / "scheduler.pt").unlink())


def missing_random_state(arena: Arena) -> str:
    return _damaged(arena, lambda folder: (folder / "rng_state.pth").unlink())


def _flip(file: Path, at: int):
    content = bytearray(file.read_bytes())
    content[at] ^= 0b100
    file.write_bytes(content)


def flipped_weights(arena: Arena) -> str:
    return _damaged(arena, lambda folder: _flip(folder / "model.safetensors", -5000))


def flipped_optimizer(arena: Arena) -> str:
    return _damaged(arena, lambda folder: _flip(folder / "optimizer.pt", 500_000))


def torn_manifest(arena: Arena) -> str:
    return _damaged(arena, lambda folder: (folder / "manifest.json").write_text('{"step": 4, "fi'))


def all_damaged(arena: Arena) -> str:
    def damage(newest: Path):
        for file in newest.parent.glob("checkpoint-*/optimizer.pt"):
            os.truncate(file, 100_000)

    return _damaged(arena, damage)


def full_disk(arena: Arena) -> str:
    """A file system of 10 MB of its own, which a checkpoint of 3 MB fills; then another 30 MB."""
    mount = arena.folder / "disk"
    mount.mkdir()
    ours = " ".join(f"'{each}'" for each in arena.command(mount))
    script = f"""
        mount -t tmpfs -o size=10m tmpfs {mount} && cp -r {arena.folder}/sft {mount}/ || exit 99
        HF_HUB_OFFLINE=1 {ours} > {arena.folder}/first 2>&1; echo $? > {arena.folder}/code
        mount -o remount,size=40m {mount}
        HF_HUB_OFFLINE=1 {ours} > {arena.folder}/second 2>&1
        cp -r {mount}/grpo {arena.grpo}
    """
    done = subprocess.run(["unshare", "-rm", "sh", "-c", script], cwd=ROOT, capture_output=True, check=False)
    if done.returncode == 99:
        raise RuntimeError(f"no file system can be mounted here: {done.stderr.decode()}")
    code = (arena.folder / "code").read_text().strip()
    out = (arena.folder / "first").read_text()
    return f"exit {code}; {line(out, 'no room', 'is full', 'Error')[:60]}…; then {arena.weights()}"


# Rewards -------------------------------------------------------------------------------------------------------------


def _reward(kind: str, *overrides: str) -> Callable[[Arena], str]:
    def inject(arena: Arena) -> str:
        reward = f'rewards.tests.faulty_reward.faulty={{weight: 0.5, kind: "{kind}", timeout: 20}}'
        if arena.trl:
            reward = reward.replace(", timeout: 20", "")
        code, out = arena.run(reward, *overrides)
        happened = f"exit {code}; {line(out, 'faulty_reward.py', 'faulty_reward.faulty r', 'Error')[:110]}"
        if code != 0:
            arena.run(reward, *overrides, MENDED="1")
            happened += "; mended: " if not arena.trl else "; once more: "
            return happened + arena.weights()
        return f"{happened}; {arena.weights()}"

    return inject


# Numbers -------------------------------------------------------------------------------------------------------------


def _exploding(*overrides: str) -> Callable[[Arena], str]:
    def inject(arena: Arena) -> str:
        code, out = arena.run(*overrides, "grpo.save_steps=1", "grpo.max_grad_norm=0")
        saved = list(arena.grpo.glob("checkpoint-*/model.safetensors"))
        finite = all(torch.isfinite(t).all() for file in saved for t in load_file(file).values())
        prompts = "prompts written, " if list(arena.grpo.glob("not-finite-*.json")) else ""
        message = line(out, "is not finite", "Error").split(":")[0]
        return f"exit {code}; {message}; {prompts}{'every' if finite else 'NOT every'} checkpoint finite"

    return inject


def out_of_memory(arena: Arena) -> str:
    """A limit of address space that a thousand completions do not fit."""
    many = ["grpo.per_device_train_batch_size=4096", "grpo.max_completion_length=96", "grpo.num_generations=8"]
    code, out = arena.run(*many, launcher=["prlimit", f"--as={6 * 2**30}", sys.executable])
    return f"exit {code}; {line(out, 'out of memory', 'Error')[:70]}; {line(out, 'per_device_train_batch_size 4096')}"


# Data ----------------------------------------------------------------------------------------------------------------


def _data(arena: Arena, rows: list[dict]) -> tuple[int, str]:
    file = arena.folder / "mine.jsonl"
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return arena.run(f"data.train=[{file}]", "sft=null")


def poisoned_rows(arena: Arena) -> str:
    rows = [{"problem": f"What is {a} + {b}?", "answer": a + b} for a in range(10, 30) for b in range(10, 20)]
    rows[3]["problem"], rows[4]["problem"], rows[5]["answer"] = None, "", None
    code, out = _data(arena, rows)
    return f"exit {code}; {line(out, 'dropped', 'Error')}"


def wrong_columns(arena: Arena) -> str:
    code, out = _data(arena, [{"question": "What is 1 + 1?", "gold": 2}])
    return f"exit {code}; {line(out, 'mine.jsonl', 'Error').replace(str(arena.folder), '…')}"


# Two of them ---------------------------------------------------------------------------------------------------------


def two_runs(arena: Arena) -> str:
    process = arena.start()
    arena.when("checkpoint-2/trainer_state.json", process)
    code, out = arena.run()
    first, _ = arena.ended(process)
    refused = line(out, "in use", "Error").replace(str(arena.folder), "…")[:60]
    return f"second: exit {code}, {refused}; first: exit {first}, {arena.weights()}"


def stale_lock(arena: Arena) -> str:
    arena.interrupted()
    there = (arena.grpo / ".lock").is_file()
    code, _ = arena.run()
    return f"lock file there: {there}; exit {code}, {arena.weights()}"


def _ranks(launcher: subprocess.Popen) -> list[psutil.Process]:
    """A launcher's ranks, in order, without the verifier's workers."""
    below = psutil.Process(launcher.pid).children(recursive=True)
    ranks = [each for each in below if "RANK" in each.environ() and "rewards" not in " ".join(each.cmdline())]
    return sorted(ranks, key=lambda each: each.environ()["RANK"])


def dead_rank(arena: Arena) -> str:
    process = arena.start(*PAIR, launcher=CPU2)
    arena.when("checkpoint-4/trainer_state.json", process)
    ranks = _ranks(process)
    ranks[1].kill()
    code, _ = arena.ended(process)
    alive = [each for each in ranks if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    arena.run(*PAIR, launcher=CPU2)
    return f"exit {code}, {len(alive)} left behind; then {arena.weights(*PAIR, launcher=CPU2)}"


def sigterm_of_two(arena: Arena) -> str:
    return _signalled(arena, signal.SIGTERM, *PAIR, launcher=CPU2)


def sigterm_of_all(arena: Arena) -> str:
    """What a batch system does: the launcher and each rank, so that a rank has it twice, once from its launcher."""
    return _signalled(arena, signal.SIGTERM, *PAIR, launcher=CPU2, all_of_it=True)


# The Hub -------------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def hub(home: Path, status: int | None):
    """A Hub that answers with this status, or never: the environment that leads there, and what it was asked."""
    asked, over = [], threading.Event()

    class Hub(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            asked.append(self.path)
            if status is None:
                over.wait()
                return
            self.send_response(status)
            self.end_headers()

        do_GET = do_HEAD

        def log_message(self, *arguments):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hub)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    there = {"HF_HUB_OFFLINE": "0", "HF_ENDPOINT": f"http://127.0.0.1:{server.server_port}"}
    yield there | {"HF_HOME": str(home), "no_proxy": "127.0.0.1"}, asked
    over.set()
    server.shutdown()


ELSEWHERE = ["model.build=null", "model.name_or_path=a/model", "sft=null"]


def hub_fails(status: int) -> Callable[[Arena], str]:
    def inject(arena: Arena) -> str:
        with hub(arena.folder, status) as (environment, asked):
            code, out = arena.run(*ELSEWHERE, **environment)
        return f"asked {len(asked)} times, exit {code}; {line(out, 'model a/model:', 'Error:')[:90]}"

    return inject


def hub_hangs(arena: Arena) -> str:
    """The model was downloaded before."""
    cache = arena.folder / "hub/models--a--model"
    shutil.copytree(ROOT / "outputs/models/tiny-qwen3-seed42", cache / "snapshots" / ("0" * 40))
    (cache / "refs").mkdir()
    (cache / "refs/main").write_text("0" * 40)
    with hub(arena.folder, None) as (environment, asked):
        code, _ = arena.run(*ELSEWHERE, **environment)
    return f"asked {len(asked)} times, exit {code}, {arena.weights('sft=null')}"


SAME = "the weights of a run that nothing happened to"
PASSED = f"named and passed over; {SAME}"
JUDGED = f"judged None and told; {SAME}"
STOPS = "stops with exit 3 and names the function; mended, it goes on"
UNHARMED = "prompts written; every checkpoint finite"
HANGS = "ended after its timeout, names the line; mended, it goes on"
FAULTS = [
    Fault("SIGKILL", SAME, killed),
    Fault("SIGKILL while a checkpoint is written", PASSED, killed_while_saving),
    Fault("SIGKILL while loading", SAME, killed_while_loading),
    Fault("SIGKILL in a cycle of num_iterations 2, steps_per_generation 4", SAME, killed_in_long_cycles),
    Fault("SIGKILL of an adapter's run with a reference", SAME, killed_with_a_reference),
    Fault("saves within a generation cycle", "exit 2, names the key: no run to the bit", saves_within_a_cycle),
    Fault("SIGTERM", f"step finished and saved, exit 75; {SAME}", sigterm),
    Fault("Ctrl-C", f"step finished and saved, exit 130; {SAME}", ctrl_c),
    Fault("SIGTERM twice", f"stops at once, exit 75; {SAME}", sigterm_twice),
    Fault("SIGTERM while loading", f"nothing begun; {SAME}", sigterm_while_loading),
    Fault(
        "SIGTERM, num_iterations 2, steps_per_generation 4",
        f"saved after the cycle, exit 75; {SAME}",
        sigterm_within_a_cycle,
    ),
    Fault("optimizer.pt truncated", PASSED, truncated),
    Fault("optimizer.pt missing", PASSED, missing),
    Fault("scheduler.pt missing", PASSED, missing_scheduler),
    Fault("rng_state.pth missing", PASSED, missing_random_state),
    Fault("a bit of the weights flipped", PASSED, flipped_weights),
    Fault("a bit of the optimizer flipped", PASSED, flipped_optimizer),
    Fault("the manifest torn", PASSED, torn_manifest),
    Fault("every checkpoint truncated", f"all named; begins again; {SAME}", all_damaged),
    Fault("disk full", f"exit 3, last checkpoint stays; with room {SAME}", full_disk),
    Fault("reward: NaN in a row", JUDGED, _reward("NaN")),
    Fault("reward: inf in a row", JUDGED, _reward("inf")),
    Fault("reward: 1e38 in a row", JUDGED, _reward("huge")),
    Fault("reward: text in a row", JUDGED, _reward("text")),
    Fault("reward: inf in every row", STOPS, _reward("every row inf")),
    Fault("reward: raises", STOPS, _reward("raises")),
    Fault("reward: returns None", STOPS, _reward("returns None")),
    Fault("reward: a value too few", STOPS, _reward("wrong length")),
    Fault("reward: waits for ever", STOPS, _reward("waits")),
    Fault("reward: hangs with the interpreter lock", HANGS, _reward("hangs")),
    Fault("the verifier's workers killed", SAME, _reward("kills the verifier's workers")),
    Fault("gradient not finite", f"exit 3 before it is applied; {UNHARMED}", _exploding("grpo.beta=1.0e+39")),
    Fault(
        "weights not finite",
        f"exit 3 before a checkpoint has them; {UNHARMED}",
        _exploding("grpo.learning_rate=1.0e+39"),
    ),
    Fault("out of memory", "exit 4, names the lines to change", out_of_memory),
    Fault("rows without a problem or an answer", "dropped at load, with their numbers", poisoned_rows),
    Fault("wrong column names", "exit 2, names the file", wrong_columns),
    Fault("two runs on one folder", "the second refused, exit 2; the first unharmed", two_runs),
    Fault("the lock of a dead run", SAME, stale_lock),
    Fault("one of two ranks killed", f"none left behind; {SAME}", dead_rank),
    Fault("SIGTERM of two ranks", f"step finished and saved; {SAME}", sigterm_of_two),
    Fault("SIGTERM of two ranks and their launcher", f"step finished and saved; {SAME}", sigterm_of_all),
    Fault("Hub answers 503", "asks a few times, exit 2, one line", hub_fails(503)),
    Fault("Hub answers 429", "asks a few times, exit 2, one line", hub_fails(429)),
    Fault("Hub never answers, the model in its cache", SAME, hub_hangs),
]
# What must stand in what happened, by what is required; the first that is part of the requirement.
MUST = {
    SAME: ["same weights"],
    "passed over": ["passed over", "exit 0"],
    "all named": ["passed over", "exit 0", "same weights"],
    "names the key": ["grpo.save_steps"],
    "exit 75": ["exit 75"],
    "exit 130": ["exit 130"],
    "saved": ["stopped at step"],
    "judged None": ["judged None", "exit 0", "same weights"],
    "exit 3": ["exit 3"],
    "names the function": ["rewards.tests.faulty_reward.faulty"],
    "names the line;": ["faulty_reward.py", "in faulty"],
    "goes on": ["same weights"],
    "before it is applied": ["a gradient is not finite"],
    "before a checkpoint has": ["a weight is not finite"],
    "every checkpoint finite": ["; prompts written, every checkpoint finite"],
    "exit 4": ["exit 4"],
    "lines to change": ["per_device_train_batch_size 4096 → 2048"],
    "their numbers": ["dropped", "4, 5"],
    "exit 2": ["exit 2"],
    "the second refused": ["in use by process", "first: exit 0, same weights"],
    "none left behind": ["0 left behind"],
    "a few times": ["asked 3 times"],
    "one line": ["; model a/model: "],
    "names the file": ["mine.jsonl"],
}


def passed(fault: Fault, happened: str) -> bool:
    needed = [each for words, texts in MUST.items() if words in fault.required for each in texts]
    # A checkpoint that was being written is passed over before anything is said of an exit code.
    if fault.inject is killed_while_saving:
        needed.remove("exit 0")
    return bool(needed) and all(each in happened for each in needed)


def soak(home: Path, kills: int):
    """One GRPO run of 400 steps, killed at random moments, against one that was not."""
    overrides, dice = ["grpo.max_steps=400", "grpo.save_steps=1"], random.Random(0)
    arena = Arena(home, "soak")
    for number in range(1, kills + 1):
        process = arena.start(*overrides)
        # From the middle of its loading to some steps into its training.
        time.sleep(dice.uniform(3, 10))
        process.kill()
        if "done, in" in process.communicate()[0]:
            raise AssertionError(f"the run was over before kill {number}")
        print(f"kill {number}, newest {getattr(arena.newest(), 'name', 'none yet')}", flush=True)
    code, _ = arena.run(*overrides)
    print(f"{kills} kills; exit {code}; {arena.weights(*overrides)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="faults with this in their name")
    parser.add_argument("--trl", action="store_true", help="the same faults under trl's own trainer, with auto-resume")
    parser.add_argument("--soak", type=int, metavar="KILLS", help="kill one run so often, and let it end")
    options = parser.parse_args()
    if options.soak:
        with tempfile.TemporaryDirectory(prefix="soak-") as home:
            soak(Path(home), options.soak)
        return
    chosen = [fault for fault in FAULTS if options.only in fault.name]
    failed, began = [], time.monotonic()
    with tempfile.TemporaryDirectory(prefix="faults-") as home:
        for number, fault in enumerate(chosen, 1):
            try:
                happened = fault.inject(Arena(Path(home), fault.name, options.trl))
            except Exception as error:  # the others are still to be seen
                happened = f"NOT INJECTED: {error!r}"
            mark = "" if options.trl else "ok   " if passed(fault, happened) else "FAIL "
            failed += [fault.name] if mark == "FAIL " else []
            left = (time.monotonic() - began) / number * (len(chosen) - number) / 60
            print(f"{mark}{fault.name} | {fault.required} | {happened}", flush=True)
            print(f"{number}/{len(chosen)}, {left:.0f} min left", end="\r", file=sys.stderr, flush=True)
    if not options.trl:
        print(f"\n{len(chosen) - len(failed)} of {len(chosen)} faults end as required")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
