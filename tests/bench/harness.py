"""GSM8K by lm-evaluation-harness beside ours: the same model, the same problems; its prompt and graders against ours.

    pip install 'lm-eval==0.4.13'
    python -m tests.bench.harness outputs/models/smollm2-135m-instruct --limit 64

The harness shows five worked problems and judges by regular expressions: `strict-match` wants `#### 18`, and
`flexible-extract` takes the last number of the text. Every answer it got is also judged by ours, and every answer of
ours (`--answers`, a file `make evaluate` wrote) by its two, so that the graders are compared on the same texts; each
disagreement is printed under its class. Without the Hub, `MATH_DATA_DIR` names a folder with GSM8K's parquet files.
"""

import argparse
import json
import os
from collections import Counter, defaultdict
from importlib.resources import files
from pathlib import Path

from ruamel.yaml import YAML

from data.problems import load
from rewards.verifier import judge

SHOWN = 3


def task() -> dict:
    """The harness's own gsm8k task, its data read from parquet files where there is no Hub."""
    config = YAML(typ="safe", pure=True).load((files("lm_eval") / "tasks/gsm8k/gsm8k.yaml").read_text(encoding="utf-8"))
    if folder := os.environ.get("MATH_DATA_DIR"):
        splits = {split: str(Path(folder) / f"gsm8k-{split}.parquet") for split in ("train", "test")}
        config |= {"dataset_path": "parquet", "dataset_name": None, "dataset_kwargs": {"data_files": splits}}
    return config


def harness_answers(model: str, limit: int, batch_size: int) -> list[dict]:
    """The harness's run: of each problem its response and both verdicts."""
    import lm_eval
    import torch

    results = lm_eval.simple_evaluate(
        model="hf",
        model_args={"pretrained": model, "dtype": "bfloat16", "trust_remote_code": False},
        tasks=[task()],
        limit=limit,
        device="cuda" if torch.cuda.is_available() else "cpu",
        batch_size=batch_size,
        log_samples=True,
        bootstrap_iters=0,
    )
    by_problem = defaultdict(dict)
    for sample in results["samples"]["gsm8k"]:
        each = by_problem[sample["doc_id"]]
        each |= {"problem": sample["doc"]["question"], "response": sample["resps"][0][0]}
        each[sample["filter"]] = bool(sample["exact_match"])
    return [by_problem[i] for i in sorted(by_problem)]


def harness_verdicts(responses: list[str], golds: list[str]) -> list[dict]:
    """Both verdicts of the harness's own filters and metric on given texts."""
    from lm_eval.api.metrics import exact_match_fn
    from lm_eval.filters.extraction import RegexFilter

    config = task()
    metric = {key: config["metric_list"][0][key] for key in ("regexes_to_ignore", "ignore_case", "ignore_punctuation")}
    verdicts = [{} for _ in responses]
    for steps in config["filter_list"]:
        options = {key: value for key, value in steps["filter"][0].items() if key != "function"}
        extracted = RegexFilter(**options).apply([[response] for response in responses], [{}] * len(responses))
        for verdict, answer, gold in zip(verdicts, extracted, golds, strict=True):
            match = exact_match_fn(references=[gold], predictions=[answer[0]], **metric)["exact_match"]
            verdict[steps["name"]] = bool(match)
    return verdicts


def compare(title: str, rows: list[dict], problems: list[dict]):
    """Print how often each grader says right, and every class of disagreement with ours."""
    classes = defaultdict(list)
    counts = Counter()
    for row, problem in zip(rows, problems, strict=True):
        verdict = judge(row["response"], problem["solution"], question=problem["problem"])
        counts["ours"] += verdict.right is True
        for name in ("strict-match", "flexible-extract"):
            counts[name] += row[name]
            if row[name] != (verdict.right is True):
                says = f"{name} says {'right' if row[name] else 'wrong'}, ours {'right' if verdict.right else 'wrong'}"
                classes[f"{says}: {verdict.reason}"].append((row["response"], problem["solution"]))
    print(f"\n{title} (n = {len(rows)})")
    for name in ("ours", "strict-match", "flexible-extract"):
        print(f"  {name:<18} {counts[name]:>5} right, {counts[name] / len(rows):.1%}")
    for name, found in sorted(classes.items(), key=lambda each: -len(each[1])):
        print(f"\n  {len(found)} × {name}")
        for response, gold in found[:SHOWN]:
            print(f"      gold {gold}: …{' '.join(response.split())[-150:]!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", nargs="?", help="a folder or Hub id; left out, only --answers are judged")
    parser.add_argument("--limit", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--answers", type=Path, help="answers `make evaluate` wrote for gsm8k")
    options = parser.parse_args()
    problems, _ = load("gsm8k", "test", {})
    if options.model:
        rows = harness_answers(options.model, options.limit, options.batch_size)
        compare("the harness's prompt and answers", rows, problems[: len(rows)])
    if options.answers:
        items = [json.loads(line) for line in options.answers.read_text(encoding="utf-8").split("\n")[1:-1]]
        judged = harness_verdicts([item["response"] for item in items], [item["gold"] for item in items])
        rows = [item | verdict for item, verdict in zip(items, judged, strict=True)]
        compare(f"{options.answers}", rows, [{"problem": item["problem"], "solution": item["gold"]} for item in items])


if __name__ == "__main__":
    main()
