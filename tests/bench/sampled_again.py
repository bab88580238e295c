"""Are groups without signal sampled again? docs/study/methods/plan.md has the plan and its rule.

python -m tests.bench.sampled_again 1 2 3 4 5
"""

import importlib
import json
import os
import runpy
import sys

from tests.bench import methods
from tests.bench.methods import OUTPUTS, STUDY, TASKS, grpo, measure

FILE = STUDY / "sampled-again.jsonl"
ARMS = {"GRPO": "0", "GRPO, sampled again": "2"}
NO_CURVE = "grpo.eval_steps=null"  # an evaluation that chooses no checkpoint changes no training
LIBRARIES = (  # imported once, for the stages, which are forked
    "trl.trainer.sft_trainer trl.trainer.grpo_trainer peft datasets scipy.stats math_verify"
    " transformers.models.qwen3.modeling_qwen3 matplotlib.figure evaluation.check"
    " evaluation.run_pages evaluation.sample training.memory training.trainer viewer.callback"
)


def run_stage(name: str, *arguments: object):
    child = os.fork()
    if child == 0:
        os.dup2(2, 1)
        sys.argv = ["-m", name, *map(str, arguments)]
        try:
            runpy.run_module("stages", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            os._exit(end.code or 0)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    if status:
        raise SystemExit(f"{name} ended with {status}")


def main():
    os.environ["OMP_NUM_THREADS"] = "1"
    for library in LIBRARIES.split():
        importlib.import_module(library)
    methods.run_stage = run_stage
    finished = set()
    if FILE.is_file():
        for line in map(json.loads, FILE.read_text(encoding="utf-8").splitlines()):
            finished.add((line["arm"], line["seed"]))
    task = TASKS["tiny"]
    for seed in map(int, sys.argv[1:]):
        for arm, rounds in ARMS.items():
            if (arm, seed) in finished:
                continue
            os.environ["SAMPLE_AGAIN"] = rounds
            folder = OUTPUTS / "again" / f"seed-{seed}" / arm.replace(" ", "-").replace(",", "")
            policy = grpo(NO_CURVE)(task, seed, folder)
            facts = {"sampled": task.completions, "updates": 240}
            if rounds != "0":
                facts = json.loads((policy / "sampled-again.json").read_text(encoding="utf-8"))
            counts = measure(task, seed, policy, folder)
            with FILE.open("a", encoding="utf-8") as handle:
                for kind, correct in counts.items():
                    line = {"task": "tiny", "arm": arm, "seed": seed, "measure": kind}
                    line["samples"] = 1 if kind == "greedy" else task.samples
                    line["completions"] = facts["sampled"]
                    line["updates"] = f"{facts['updates']} of 32"
                    line["correct"] = "".join(map(str, correct))
                    handle.write(json.dumps(line) + "\n")
            print(f"{arm}, seed {seed}: {sum(counts['greedy']) / task.limit:.1%}", flush=True)


main()
