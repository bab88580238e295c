"""How fast GRPO learns, by the completions it generates: held-out accuracy over them, for arms × seeds.

    python -m tests.bench.learning                             # the baselines and `ours`, five seeds; resumable
    python -m tests.bench.learning --task "four digits" --arms grid --seeds 1 2 3 --problems study --cores 0 1
    python -m tests.bench.learning --report                    # tables and plots again, from the lines on disk

A run is the real stages with the overrides of an arm, as a user would type them. All arms of a seed begin with the same
warm start. A run saves a checkpoint at each point of its curve, and afterwards each of them answers the same test
problems greedily; nothing in a run sees these, and no arm was chosen by them (`--problems study` has others). What an
arm samples before it trains (a probe) or throws away counts. `learning.jsonl` has a line for each finished run; a
killed benchmark begins with the runs that have none, each from its last checkpoint if that holds all it needs.
"""

import argparse
import contextlib
import importlib
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest.mock import patch

os.environ["TRUST_FILES"] = "tests/bench/learning/sums.py"
os.environ.setdefault("OMP_NUM_THREADS", "1")  # a run per core; two with two threads each take far longer

from schema.recipe import load_recipe
from stages import parted
from tests.bench.learning.arms import TASKS, Task
from tests.bench.learning.report import write_report

FOLDER = Path("outputs/bench/learning")


def stages(task: Task, arm: str, seed: int, folder: Path, problems: str) -> dict:
    """Train an arm of a seed, or end what is there of it, and return its line."""
    from stages import grpo, probe, sft
    from tests.bench.learning.trainers import FLAT, GENERATED, TRAINERS
    from training import trainer

    start = folder / "start" / f"seed-{seed}"
    own = [f"seed={seed}", *task.overrides]
    sft.main(load_recipe(task.recipe, [*own, f"output_dir={start}"]))
    home = folder / arm / f"seed-{seed}"
    if not (home / "sft/summary.json").is_file():
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(start / "sft", home / "sft.partial")  # a run folder may hold no link
        (home / "sft.partial").rename(home / "sft")
    recipe = load_recipe(task.recipe, [*own, *task.budget(arm), f"output_dir={home}"])
    chosen = TRAINERS.get(task.arms[arm].get("trainer"), trainer.GreedyEvaluation)
    if spent := task.probed(arm):
        probe.main(recipe, *task.arms[arm]["probe"])
    if chosen is not trainer.GreedyEvaluation and not (home / "grpo/summary.json").is_file():
        shutil.rmtree(home / "grpo", ignore_errors=True)  # no checkpoint holds what these remember
    with patch.object(trainer, "GreedyEvaluation", chosen):
        grpo.main(recipe)
    logged = [json.loads(line) for line in (home / "grpo/metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    key = FLAT if chosen is not trainer.GreedyEvaluation else "groups_without_signal"
    flat = [line[key] for line in logged if line.get(key) is not None]
    checkpoints = sorted((home / "grpo").glob("checkpoint-*"), key=lambda each: int(each.name.split("-")[1]))
    steps = int(checkpoints[-1].name.split("-")[1])
    # A run that was interrupted has one more, where that was.
    checkpoints = [each for each in checkpoints if int(each.name.split("-")[1]) % (steps // task.points) == 0]
    trained = task.completions - spent
    generated = [spent + round(int(each.name.split("-")[1]) / steps * trained) for each in checkpoints]
    # Of arms that throw some away.
    generated = [round(line[GENERATED]) for line in logged if GENERATED in line] or generated
    accuracy, answered = curve(recipe, task, [home / "sft", *checkpoints], problems)
    return {
        "task": task.name,
        "arm": arm,
        "seed": seed,
        "settings": task.settings(arm),
        "problems": problems,
        "n": answered,
        "commit": commit(),
        "generated": [0, *([spent] if spent else []), *generated],
        "accuracy": [*([accuracy[0]] if spent else []), *accuracy],
        "no_signal": sum(flat) / len(flat),
    }


def commit() -> str:
    command = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


def curve(recipe, task: Task, models: list[Path], problems: str) -> tuple[list[float], int]:
    """Greedy accuracy of each model on the same problems of the recipe's benchmarks, and how many these are."""
    from data import prompt
    from evaluation.answers import judged
    from evaluation.engines import transformers_engine
    from schema.problem_sets import load_benchmarks
    from training.model import load_tokenizer

    each = load_benchmarks(recipe).values()
    share = task.problems // len(each)
    first = {"test": 0, "study": share}[problems]
    rows = [row for benchmark in each for row in benchmark[first : first + share]]
    tokenizer = load_tokenizer(recipe)
    prompts = [prompt.prompt_ids(tokenizer, prompt.messages(row["problem"], recipe.prompt.system)) for row in rows]
    size, asked, found = recipe.evaluate.batch_size, recipe.evaluate.sampling(), []
    for model in models:
        policy = transformers_engine(recipe, tokenizer, model)
        texts = [each.text for i in range(0, len(rows), size) for each in policy(prompts[i : i + size], 0, asked)]
        right = [line["right"] for line in judged(rows, texts, recipe.strict)]
        found.append(sum(right) / len(right))
    return found, len(rows)


def child(task: Task, arm: str, seed: int, folder: Path, problems: str, core: int):
    """One run in a process of its own, on one core, which ends with its parent."""
    parent = os.getppid()

    def follow():
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
    os.sched_setaffinity(0, {core})
    home = folder / arm
    home.mkdir(parents=True, exist_ok=True)
    log = (home / f"seed-{seed}.log").open("a", encoding="utf-8")
    os.dup2(log.fileno(), 1)
    os.dup2(log.fileno(), 2)
    line = stages(task, arm, seed, folder, problems)
    (home / f"seed-{seed}.json").write_text(json.dumps(line), encoding="utf-8")


def run(task: Task, arms: list[str], seeds: list[int], folder: Path, problems: str, cores: list[int]):
    """Every run that has no line yet, as many at once as there are cores. The first of a seed makes its start."""
    lines = folder / "learning.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    there = {(each["arm"], each["seed"]): each["settings"] for each in read(lines)}
    if other := [arm for (arm, _), settings in there.items() if arm in arms and settings != task.settings(arm)]:
        sys.exit(f"{lines} has runs of {other[0]} with other settings: move it, or delete their lines")
    done = there.keys()
    waiting = [(arm, seed) for seed in seeds for arm in arms if (arm, seed) not in done]
    context, running, began, total = multiprocessing.get_context("fork"), {}, time.monotonic(), len(waiting)
    while waiting or running:
        making = {seed for _, seed in running.values()}
        for core in cores:
            # Two runs of a seed may not make its start at once.
            ready = [
                each
                for each in waiting
                if each[1] not in making or (folder / f"start/seed-{each[1]}/sft/summary.json").is_file()
            ]
            if ready and core not in {core for core, _ in running}:
                arm, seed = ready[0]
                waiting.remove(ready[0])
                process = context.Process(target=child, args=(task, arm, seed, folder, problems, core))
                process.start()
                running[core, process] = (arm, seed)
                making.add(seed)
        time.sleep(0.2)
        for key in [each for each in running if not each[1].is_alive()]:
            (_, process), (arm, seed) = key, running.pop(key)
            if process.exitcode:
                sys.exit(f"{task.name} {arm} seed {seed} failed: {folder / arm / f'seed-{seed}.log'}")
            result = folder / arm / f"seed-{seed}.json"
            with lines.open("a", encoding="utf-8") as file:
                file.write(result.read_text(encoding="utf-8") + "\n")
            result.unlink()
            shutil.rmtree(folder / arm / f"seed-{seed}")
            ended = total - len(waiting) - len(running)
            left = (time.monotonic() - began) / ended * (total - ended)
            last = read(lines)[-1]
            points = " ".join(f"{100 * each:.0f}" for each in last["accuracy"])
            print(f"{task.name} {arm} seed {seed}: {points}; {ended} of {total}, {left / 60:.0f} min left", flush=True)


def read(file: Path) -> list[dict]:
    with contextlib.suppress(FileNotFoundError):
        return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    return []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", nargs="+", choices=TASKS, default=[each for each in TASKS if each != "smoke"])
    parser.add_argument("--arms", nargs="+", default=["benchmark"], help="names of arms, or of groups of arms")
    parser.add_argument("--seeds", type=int, nargs="+", default=[11, 12, 13, 14, 15])
    parser.add_argument("--problems", choices=["test", "study"], default="test")
    parser.add_argument("--cores", type=int, nargs="+", default=sorted(os.sched_getaffinity(0)))
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--report", action="store_true", help="only the report")
    options = parser.parse_args(parted(sys.argv[1:]))
    if not options.report:
        for module in ("stages.cli", "stages.grpo", "stages.probe", "tests.bench.learning.trainers"):
            importlib.import_module(module)  # for the children, which are forked
        sys.modules["stages.cli"].quiet_libraries()
    for name in options.task:
        task, folder = TASKS[name], options.folder / f"{name.replace(' ', '-')}-{options.problems}"
        if not options.report:
            run(task, task.named(options.arms), options.seeds, folder, options.problems, options.cores)
        if lines := read(folder / "learning.jsonl"):
            print(write_report(task, lines, folder))


if __name__ == "__main__":
    main()
