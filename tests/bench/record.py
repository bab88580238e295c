"""What must stay the same where code is made simpler: verdicts, weights, reports, pages, checks and
messages, as text files in a folder. Make one before a change and one after it, and compare them:

    python -m tests.bench.record ../before
    python -m tests.bench.record ../after --runs ../before/runs
    diff -r --exclude=runs ../before ../after

The second shows the reports and pages of the runs that the first trained, which carry times. It
trains them anew too, for their weights.
"""

import argparse
import hashlib
import os
import re
import shutil
from pathlib import Path

from rewards.verifier import judge_all
from tests.rewards.verifier.judged_rows import TABLES, judged_rows
from tests.stages import test_wrong_inputs
from tests.stages.test_wrong_inputs import Row, environment_of, words_of, write_inputs
from tests.support import CHAIN, LORA, NF4, ROOT, SHIPPED, kill_when, run_stage
from tests.tables import rows
from tests.waits import all_ended

TINY, SECOND = "recipes/tiny-arithmetic.yaml", "recipes/tiny-second-round.yaml"
RUNS = {  # name: stages, overrides beside CHAIN
    "default": (["sft", "grpo"], []),
    "lora": (["sft", "grpo"], [LORA]),
    "qlora": (["grpo"], [LORA, NF4, "sft=null"]),
}
RESUMED_AFTER = "checkpoint-4/manifest.json"


def verdicts() -> str:
    """One line for each answer of the tables: its table, line, verdict and reason."""
    lines = []
    for table in TABLES:
        _, golds, completions, questions, _ = zip(*judged_rows(table), strict=True)
        verdicts_of_table = judge_all(completions, golds, questions, timeout=5)
        for number, verdict in enumerate(verdicts_of_table, start=1):
            lines.append(f"{table}:{number}\t{verdict.correct}\t{verdict.reason}")
    return "\n".join(lines) + "\n"


def hash_of_weights(folder: Path) -> str:
    """Of the safetensors files that a stage saved."""
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        digest.update(file.name.encode() + file.read_bytes())
    return digest.hexdigest()


def trained(runs: Path) -> str:
    """Train each run, and the default one again with a kill and a resume; a line for each stage."""
    lines = []
    for name, (stages, overrides) in RUNS.items():
        arguments = [TINY, *CHAIN, *overrides, f"output_dir={runs / name}"]
        for stage in stages:
            run_stage(stage, *arguments)
            lines.append(f"{name}/{stage} {hash_of_weights(runs / name / stage)}")
        run_stage("evaluate", *arguments, "evaluate.limit=16", "--validation")
    shutil.copytree(runs / "default/sft", runs / "resumed/sft")
    arguments = [TINY, *CHAIN, f"output_dir={runs / 'resumed'}"]
    kill_when((runs / "resumed/grpo" / RESUMED_AFTER).is_file, "grpo", *arguments)
    run_stage("grpo", *arguments)
    lines.append(f"resumed/grpo {hash_of_weights(runs / 'resumed/grpo')}")
    first = [f"model.name_or_path={runs / 'default/grpo'}", f"output_dir={runs / 'second'}"]
    settings = [setting for setting in CHAIN if not setting.startswith("sft.")]
    run_stage("grpo", SECOND, *first, *settings)
    lines.append(f"second/grpo {hash_of_weights(runs / 'second/grpo')}")
    return "\n".join(lines) + "\n"


def output(folder: Path, stage: str, *arguments: object, **environment: str) -> str:
    """What a stage prints, with its exit code, without the paths of this record."""
    done = run_stage(stage, *arguments, check=False, **environment)
    text = f"exit code {done.returncode}\n{done.stdout}{done.stderr}"
    return text.replace(f"{folder}/", "").replace(str(ROOT), ".")


def write_reports(folder: Path, runs: Path):
    for name in RUNS:
        report = output(folder, "report", runs / name / "grpo")
        (folder / f"report-{name}.txt").write_text(report.replace(f"{runs}/", ""))
        page = folder / f"page-{name}.html"
        run_stage("view", runs / name, f"--html={page}")
        page.write_text(page.read_text().replace(str(runs), "runs"))
    pair = output(folder, "compare", runs / "default", runs / "lora")
    (folder / "compare.txt").write_text(pair.replace(f"{runs}/", ""))


def write_checks(folder: Path):
    for recipe in SHIPPED:
        text = output(folder, "check", recipe, "--show")
        # The free memory of the machine moves between two calls.
        text = re.sub(r"of this machine's \d+", "of this machine's memory", text)
        (folder / f"check-{Path(recipe).stem}.txt").write_text(text)


def write_messages(folder: Path, inputs: Path):
    """What the wrong inputs of tests/stages/test_wrong_inputs.py are answered with."""
    inputs.mkdir()
    write_inputs(inputs)
    lines = []
    for columns in rows(test_wrong_inputs.__file__, "wrong_inputs"):
        row = Row(**columns)
        text = output(inputs, row.stage, *words_of(row, inputs), **environment_of(row, inputs))
        text = text.replace(str(inputs), "inputs")
        lines.append(f"{row.case}: {text}")
    (folder / "messages.txt").write_text("\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument(
        "--runs", type=Path, help="whose reports and pages to show; default: the new ones"
    )
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    folder = options.folder.resolve()
    folder.mkdir(parents=True)
    (folder / "verdicts.tsv").write_text(verdicts())
    print("verdicts: written", flush=True)
    with all_ended():
        (folder / "weights.txt").write_text(trained(folder / "runs"))
        print("weights: written", flush=True)
        write_reports(folder, (options.runs or folder / "runs").resolve())
        print("reports and pages: written", flush=True)
        write_checks(folder)
        write_messages(folder, folder / "inputs")
    shutil.rmtree(folder / "inputs")
    print(f"done, in {folder}")


if __name__ == "__main__":
    main()
