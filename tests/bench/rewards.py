"""The verifier against its peers, on the same inputs in one run:

    make bench-rewards        (MATH_DATA_DIR=folder where the data sets are parquet files)

1. Three tables in tests/rewards/verifier, models.tsv and blind.tsv, whose authors had not seen the
   rules, and cases.tsv, which they were written for: agreement, correct answers lost, incorrect
   answers paid.
2. Processor time of a verdict on test problems, beside plain math-verify without its time limits:
   long completions, all distinct, one side after the other. Ours has its workers' time in it.
3. The slowest of a hostile set, in the main thread and in another one.
"""

import argparse
import logging
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from functools import partial

import psutil
from math_verify import parse, verify
from trl.rewards import accuracy_reward

from data.problems import load
from rewards.verifier import judge, judge_all
from rewards.verifier.gold import gold_answer
from rewards.verifier.pool import POOL
from tests.rewards.verifier.hostile_answers import HOSTILE, LONG, SURD
from tests.rewards.verifier.judged_rows import Row, judged_rows

Judge = Callable[[list[str], list[str], list[str | None]], list[bool | None]]


def ours(completions, golds, questions):
    verdicts = judge_all(completions, golds, questions)
    return [verdict.correct for verdict in verdicts]


def trl(completions, golds, questions):
    completions_of_trl = [[{"role": "assistant", "content": text}] for text in completions]
    boxed = [rf"\boxed{{{gold_answer(gold)}}}" for gold in golds]
    return accuracy_reward(completions_of_trl, boxed)


def math_verify(completions, golds, questions, seconds=None):
    """Plain math-verify, with the gold in a box so that it parses; without `seconds` it has no time
    limits, and a tower of powers keeps it busy."""
    boxed = [rf"\boxed{{{gold_answer(gold)}}}" for gold in golds]
    read = partial(parse, parsing_timeout=seconds)
    return [
        verify(read(g), read(text), timeout_seconds=seconds)
        for g, text in zip(boxed, completions, strict=True)
    ]


JUDGES: dict[str, Judge] = {
    "by the contract": ours,
    "math-verify": partial(math_verify, seconds=5),
    "trl, gold in a box": trl,
}


def on_the_table(table: list[Row]):
    cases = [row for row in table if row.expected != "none" and len(row.completion) < 5000]
    correct = sum(row.is_correct for row in cases)
    print(f"\n{len(cases)} cases, {correct} correct and {len(cases) - correct} incorrect answers\n")
    print("| judge | agrees | correct answers lost | incorrect answers paid | not judged |")
    print("| --- | ---: | ---: | ---: | ---: |")
    expected = [row.is_correct for row in cases]
    golds = [row.gold for row in cases]
    completions = [row.completion for row in cases]
    questions = [row.question for row in cases]
    for name, verdicts_of in JUDGES.items():
        pairs = list(zip(expected, verdicts_of(completions, golds, questions), strict=True))
        lost = sum(e and not v for e, v in pairs)
        paid = sum(bool(v) and not e for e, v in pairs)
        unjudged = sum(v is None for _, v in pairs)
        agrees = sum(v is not None and bool(v) is e for e, v in pairs)
        print(f"| {name} | {agrees / len(pairs):.1%} | {lost} | {paid} | {unjudged} |", flush=True)


def throughput(n: int, repeats: int):
    print(f"\nn long completions, half of them correct, all distinct; medians of {repeats} runs\n")
    print("| data | n | ours | math-verify | ratio | all ratios | ours correct | math-verify's |")
    print("| --- | ---: | ---: | ---: | ---: | --- | ---: | ---: |")
    POOL.start()
    assert all(worker.wait_until_ready() for worker in POOL.workers)
    for data in ("math", "gsm8k"):
        rows = load(data, "test", {})[0]
        n = min(n, len(rows) // (repeats + 1))
        rows = random.Random(0).sample(rows, n * (repeats + 1))
        runs = [_both(rows[start : start + n], start) for start in range(0, n * (repeats + 1), n)]
        took = [[run[side][0] / n for run in runs[1:]] for side in (0, 1)]  # the first run warms up
        correct = [sum(run[side][1] for run in runs[1:]) for side in (0, 1)]
        ratios = [theirs / ours for ours, theirs in zip(*took, strict=True)]
        shown = [f"{1e6 * statistics.median(each):,.0f} µs" for each in took]
        each = ", ".join(f"{ratio:.0f}" for ratio in sorted(ratios))
        print(
            f"| {data} | {n} | {' | '.join(shown)} | {statistics.median(ratios):.0f} | {each} | "
            f"{correct[0]} | {correct[1]} |",
            flush=True,
        )


def _both(rows: list[dict], seed: int) -> list[tuple[float, int]]:
    """Processor seconds and the count of correct answers: ours, and math-verify's."""
    golds, questions = ([row[key] for row in rows] for key in ("solution", "problem"))
    given = (completions(rows, seed), golds, questions)
    made = []
    for judged in (ours, math_verify):
        began = _processor_time()
        verdicts = judged(*given)
        made.append((_processor_time() - began, sum(map(bool, verdicts))))
    return made


def _processor_time() -> float:
    """Of this process and the verifier's workers, in seconds."""
    own = time.process_time()
    workers = [psutil.Process(worker.process.pid).cpu_times() for worker in POOL.workers]
    return own + sum(each.user + each.system for each in workers)


def completions(rows: list[dict], seed: int) -> list[str]:
    """A long thought each, from other rows' worked solutions, and the row's gold, spelled
    otherwise, or for half of them another's."""
    rng = random.Random(seed)
    made = []
    for i, row in enumerate(rows):
        others = rng.sample(rows, 4)
        thought = " ".join(other["reasoning"].replace("\\boxed", "") for other in others)
        gold = gold_answer(row["solution"] if i % 2 else others[0]["solution"])
        gold = re.sub(r"\\frac\{(\d+)\}\{(\d+)\}", r"\1/\2", gold)
        gold = gold.replace(r"\frac", r"\dfrac").replace(",", ", ")
        made.append(f"<think>Attempt {seed}.{i}: {thought}</think>\n<answer>${gold}$</answer>")
    return made


def hostile():
    completions = [f"<think>t</think><answer>{answer}</answer>" for answer in HOSTILE.values()]
    completions += [*HOSTILE.values(), *LONG]

    def slowest() -> float:
        times = []
        for completion in completions:
            began = time.perf_counter()
            judge(completion, SURD)
            times.append(time.perf_counter() - began)
        return max(times)

    in_main = slowest()
    other: list[float] = []
    thread = threading.Thread(target=lambda: other.append(slowest()))
    thread.start()
    thread.join()
    workers = [worker.process.pid for worker in POOL.workers]
    POOL.close()
    time.sleep(1)
    command = ["ps", "-o", "pid=,stat=", *map(str, workers)]
    left = subprocess.run(command, capture_output=True, text=True, check=False)
    alive = [line for line in left.stdout.splitlines() if "Z" not in line]
    print(
        f"\nhostile set: {len(completions)} completions; slowest {in_main:.2f} s in the main"
        f" thread, {other[0]:.2f} s in"
    )
    print(f"another; this process alive, {len(alive)} workers left behind")


def main(completions_: int, repeats: int, speed: bool):
    print(f"python {sys.version.split()[0]}, {os.cpu_count()} cores")
    if not speed:
        for table in ("models.tsv", "blind.tsv", "cases.tsv"):
            on_the_table(judged_rows(table))
    throughput(completions_, repeats)
    if not speed:
        hostile()


if __name__ == "__main__":
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    logging.getLogger("latex2sympy2_extended").setLevel(logging.CRITICAL)
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--completions", type=int, default=200, dest="completions_")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--speed", action="store_true", help="only 2")
    main(**vars(parser.parse_args()))
