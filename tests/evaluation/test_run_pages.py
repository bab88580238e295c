"""The report of a run and its card: made from the files of the run alone, whatever a stranger wrote
into them."""

import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pandas as pd
import pytest
from markdown_it import MarkdownIt
from ruamel.yaml import YAML

from console.faults import RecipeError
from evaluation import pictures, run_pages
from runs.folder import Run, weights_hash
from tests.console.test_terminal import kinds
from tests.evaluation.test_report import answers
from tests.support import ROOT, run_stage, write_lines
from tests.tables import cases
from tests.waits import start_command

RECIPE = """seed: 42
output_dir: /home/ann/runs/lora
model: {name_or_path: Qwen/Qwen2.5-Math-1.5B, dtype: bfloat16}
adapter: {r: 32}
data: {train: [gsm8k, math], validation: 500}
prompt: {system: Think first.}
rewards:
  correct_answer: {weight: 1.0}
  mine.short: {weight: 0.25, file: /home/ann/secret/words.txt}
sft: {max_steps: 200}
grpo: {max_steps: 40, num_generations: 2, learning_rate: 1.0e-5}
evaluate: {benchmarks: [gsm8k], max_new_tokens: 512}
"""
SUMMARY = {
    "steps": 30,
    "seconds": 100.0,
    "best_checkpoint": "/home/ann/runs/lora/grpo/checkpoint-20",
}
SUMMARY |= {
    "best_accuracy": 0.5,
    "resumed_from": "checkpoint-10",
    "stopped": "grpo: stopped at step 30: flat",
}
SUMMARY["time"] = {
    "sampling": {"seconds": 60.0, "share": 0.75},
    "update": {"seconds": 20.0, "share": 0.25},
}
VERSIONS = {
    "packages": {"trl": "1.16.0"},
    "commit": "abc",
    "hardware": ["a card"],
    "seed": 42,
    "local": [],
}
CARD_FIELDS = {"base_model", "base_model_relation", "datasets", "library_name", "pipeline_tag"}
CARD_FIELDS |= {"tags"}
# A text that would end a block of code, the front matter, a table or a line of code, and rewrite a
# terminal.
HOSTILE = (
    "x\n---\nlicense: mit\n```\n``````\n# owned\n\x1b]0;owned\x07|`|<img src=x>[owned](http://x)"
)


def groups(completion: str = "<answer>4</answer>") -> pd.DataFrame:
    """A file of completions: two groups of two."""
    system = {"role": "system", "content": "Think first."}
    asked = ["2 + 0?", "2 + 0?", "2 + 1?", "2 + 1?"]
    columns = {
        "step": 10,
        "prompt": [[system, {"role": "user", "content": each}] for each in asked],
    }
    columns["completion"] = [
        [{"role": "assistant", "content": f"{completion} {i}"}] for i in range(4)
    ]
    columns |= {"correct_answer": [0.0, 1.0] * 2, "short": [None] * 4, "gold": "4", "tokens": 5}
    return pd.DataFrame(
        columns | {"truncated": [False, True, False, False], "advantage": [-0.7, 0.7] * 2}
    )


@pytest.fixture
def run(tmp_path) -> Path:
    """The folder of a finished run, as the stages leave it."""
    folder = tmp_path / "lora/grpo"
    (folder / "completions").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(RECIPE)
    for name, value in (
        ("summary", SUMMARY),
        ("versions", VERSIONS),
        ("data", {"problems": 14000}),
    ):
        (folder / f"{name}.json").write_text(json.dumps(value))
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (folder / name).write_text("{}")
    lines = [
        {
            "step": 10 * i,
            "reward": i / 4,
            "rewards/correct_answer/mean": i / 5,
            "learning_rate": 1e-5 / i,
            "kl": 0.1,
        }
        for i in (1, 2, 3)
    ]
    lines += [{"step": 20, "eval_rewards/correct_answer/mean": 0.5, "eval_right": "0101"}]
    write_lines(folder / "metrics.jsonl", lines)
    for step in (10, 20, 30):
        groups().assign(step=step).to_parquet(folder / f"completions/completions_{step:05}.parquet")
    return folder


def evaluated(run: Path, right: list[bool], weights: str | None = None):
    """Answers to held-out problems by the base model, which has none right, and by the run."""
    folder = run.parent / "eval/held-out"
    folder.mkdir(parents=True, exist_ok=True)
    answers(folder, "base", [False] * len(right))
    answers(folder, "grpo", right)
    for label, told in (("base", None), ("grpo", weights or weights_hash(run))):
        head, *items = (folder / f"{label}.jsonl").read_text().splitlines()
        head = json.loads(head) | {"weights": told, "temperature": 0, "max_new_tokens": 512}
        write_lines(folder / f"{label}.jsonl", [head, *map(json.loads, items)])
    (folder / "summary.json").write_text("{}")


def written(run: Path) -> tuple[str, str]:
    """(report, card) of a run."""
    assert run_pages.write(run) == run / "report.md"
    return (run / "report.md").read_text(), (run / "README.md").read_text()


@pytest.fixture
def undrawn(monkeypatch):
    """The picture of the curves takes longer than all else."""
    monkeypatch.setattr(pictures, "curves", lambda file, metrics: False)


def front_matter(card: str) -> dict:
    opened, matter, _ = card.split("---\n", 2)
    assert opened == ""
    return YAML(typ="safe", pure=True).load(matter)


def headings(markdown: str) -> list[str]:
    tokens = MarkdownIt().enable("table").parse(markdown.partition("---\n\n")[2] or markdown)
    assert not any(each.type == "html_block" for each in tokens)
    inline = [child for each in tokens if each.type == "inline" for child in each.children]
    assert not any(each.type == "html_inline" for each in inline)
    assert not any("http://x" in str(each.attrs) for each in inline)
    return [after.content for each, after in pairwise(tokens) if each.type == "heading_open"]


def test_the_front_matter_is_the_hubs(run, undrawn):
    _, card = written(run)
    assert front_matter(card) == {
        "base_model": "Qwen/Qwen2.5-Math-1.5B",
        "base_model_relation": "adapter",
        "datasets": ["openai/gsm8k", "DigitalLearningGmbH/MATH-lighteval"],
        "library_name": "peft",
        "pipeline_tag": "text-generation",
        "tags": ["trl", "grpo", "lora"],
    }
    assert (
        "`gsm8k`: [openai/gsm8k](https://huggingface.co/datasets/openai/gsm8k), licence mit by its"
        " card" in card
    )
    assert "The licence of the base applies." in card


@cases(__file__, "what_nobody_knows_is_left_out")
def test_what_nobody_knows_is_left_out(recipe, versions, left_out, run, undrawn):
    section = recipe.partition(":")[0]
    lines = [line for line in RECIPE.splitlines() if not line.startswith(section)]
    (run / "recipe.yaml").write_text("\n".join([*lines, recipe]))
    read = {"local": versions, "revisions": {"someone/sums": "e53f048"}}
    (run / "versions.json").write_text(json.dumps(VERSIONS | read))
    report, card = written(run)
    assert front_matter(card).keys() == CARD_FIELDS - set(left_out)
    assert "/home/ann" not in card + report


def test_the_report_says_what_happened(run):
    report, card = written(run)
    assert headings(report) == [
        "lora/grpo",
        "How good is it?",
        "What happened?",
        "How did it learn?",
        *(f"A group of step {step}" for step in (10, 20, 30)),
    ]
    assert (
        "- recipe: LoRA (r `32`), SFT warm start of `200` steps, GRPO (max_steps `40`,"
        " num_generations `2`" in report
    )
    assert "30 steps on `a card` in 80 s: sampling 75.0%, update 25.0%" in report
    assert "It ended at step 30 of 40." in report and "`grpo: stopped at step 30: flat`" in report
    assert "It was interrupted, and resumed from `checkpoint-10`." in report
    assert (
        "It kept `checkpoint-20`, whose held-out accuracy is 50.0%; at the last evaluation it was"
        " 50.0%." in report
    )
    assert (
        "```\n2 + 0?\n```\n\ngold `4`\n\n1. `correct_answer` 0, `short` none, 5 tokens, advantage"
        " -0.7\n\n```\n<answer>4</answer> 0" in report
    )
    assert "\n2. `correct_answer` 1, `short` none, 5 tokens, truncated, advantage +0.7\n" in report
    assert "2 + 1?" not in report  # another group
    assert "It was not evaluated." in report
    assert "It was not evaluated: nothing is known of its accuracy." in card
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_what_the_metrics_show_to_be_wrong_is_in_the_report(run):
    assert "look at" not in written(run)[0]
    write_lines(
        run / "metrics.jsonl",
        [{"step": i, "reward": 1.0, "groups_without_signal": 0.9} for i in range(1, 30)],
    )
    report, _ = written(run)
    assert "## What is there to look at?\n\n- `step 8: " in report and "90%" in report
    # A setting is quoted as text.
    (run / "recipe.yaml").write_text(
        json.dumps({"grpo": {"max_completion_length": "5 ![x](http://x) <b>\x1b"}})
    )
    write_lines(
        run / "metrics.jsonl", [{"step": i, "completions/clipped_ratio": 0.9} for i in range(1, 30)]
    )
    report, _ = written(run)
    assert "grpo.max_completion_length (now 5 ![x](http://x) <b>\\x1b)" in report
    found = kinds(report)
    assert found["image"] == 1 and not found.keys() & {"html_inline", "html_block"}  # the curves


def test_both_show_the_result_of_these_weights_alone(run, undrawn):
    evaluated(run, [True] * 30 + [False] * 10)
    for text in written(run):
        assert "| grpo | 75.0% | 59.8% to 85.8% |" in text
        assert "- base → grpo: +75.0 ± 13.9 points (n = 40, 30 won, 0 lost, p = 1.9e-09)" in text
        assert "Greedy, at most `512` tokens an answer." in text and "not evaluated" not in text
    (run.parent / "eval/held-out/summary.json").unlink()  # the evaluation is not finished
    assert all("not evaluated" in text for text in written(run))
    evaluated(run, [True] * 40, weights="those of another run")
    for text in written(run):
        assert "| grpo |" not in text and "base → grpo" not in text
        assert "The answers in `eval/held-out` belong to other weights" in text


def test_it_is_written_again_from_the_files_alone(run):
    evaluated(run, [True] * 40)
    assert run_stage("report", run.parent).stdout == f"report: {run}/report.md\n"
    texts = [(run / name).read_text() for name in ("report.md", "README.md")]
    for name in ("report.md", "README.md", "curves.png"):
        (run / name).unlink()
    assert list(written(run)) == texts and (run / "curves.png").is_file()


def test_a_run_that_is_not_finished_or_in_use_is_left_alone(run):
    before = sorted(run.rglob("*"))
    (run / "summary.json").rename(run / "kept")
    with pytest.raises(RecipeError, match="holds no finished run"):
        run_pages.write(run)
    (run / "kept").rename(run / "summary.json")
    holder = (
        "import sys; from pathlib import Path; from training.writing import lock;"
        " lock(Path(sys.argv[1]))\n"
    )
    holder += "print('locked', flush=True); sys.stdin.read()"
    command = [sys.executable, "-c", holder, str(run)]
    with start_command(
        command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "locked\n"
        with pytest.raises(RecipeError, match=f"in use by process {other.pid}"):
            run_pages.write(run)
        other.stdin.close()
    assert sorted(each for each in run.rglob("*") if each.name != ".lock") == before


def test_a_text_cannot_break_out(run):
    """Of its block of code, of the front matter, of a table or of its line, wherever a stranger can
    put one."""
    recipe = {
        "model": {"name_or_path": HOSTILE, "dtype": HOSTILE, "revision": HOSTILE},
        "data": {"train": [HOSTILE, {HOSTILE: {HOSTILE: HOSTILE}}]},
        "prompt": {"system": HOSTILE},
        "rewards": {HOSTILE: {"weight": HOSTILE, "steps": HOSTILE}},
        "grpo": {"learning_rate": HOSTILE, "max_steps": HOSTILE},
        "sft": {"max_steps": HOSTILE},
        "adapter": {"r": HOSTILE},
    }
    (run / "recipe.yaml").write_text(json.dumps(recipe))  # which is YAML
    (run / "versions.json").write_text(json.dumps({"hardware": [HOSTILE], HOSTILE: HOSTILE}))
    summary = SUMMARY | dict.fromkeys(
        ("best_checkpoint", "resumed_from", "stopped"), HOSTILE + "\ud800"
    )
    (run / "summary.json").write_text(json.dumps(summary))
    frame = groups(HOSTILE).rename(columns={"correct_answer": HOSTILE})
    frame["prompt"] = [[{"role": "user", "content": HOSTILE}]] * 4
    frame.to_parquet(run / "completions/completions_00010.parquet")
    write_lines(
        run / "metrics.jsonl",
        [{"step": 1, f"rewards/{HOSTILE}\ud800$\\frac$/mean": 1.0, "reward": 1.0}],
    )
    report, card = written(run)
    assert "# owned" in report and "# owned" in card  # there, as text
    assert not any("owned" in each for each in headings(report) + headings(card))
    assert front_matter(card).keys() == {"library_name", "pipeline_tag", "tags"}
    assert "\x1b" not in report + card and "\x07" not in report + card
    (code,) = [block.content for block in MarkdownIt().parse(card) if block.info == "python"]
    assert len(code.splitlines()) == 3
    compile(code, "card", "exec")


@cases(
    __file__,
    "files_that_no_run_wrote_are_a_message_or_are_left_out",
    ("recipe.yaml", f"seed: 0x{'f' * 5000}"),
    ("versions.json", "{" * 100_000),
)
def test_files_that_no_run_wrote_are_a_message_or_are_left_out(name, content, run, request):
    if name != "metrics.jsonl":
        request.getfixturevalue("undrawn")
    (run / name).write_text(content)
    try:
        report, card = written(run)
    except RecipeError as error:
        assert str(error).startswith(f"{run / name} is not what a run wrote")
    else:
        assert headings(report)[:3] == ["lora/grpo", "How good is it?", "What happened?"]
        assert front_matter(card)["library_name"] == "peft"


def test_the_report_names_no_folder_of_the_users(run, undrawn):
    file = run / "summary.json"
    summary = json.loads(file.read_text()) | {"resumed_from": f"{run}/checkpoint-10"}
    summary["stopped"] = f"{Path.home()}/secret/runs/x/y: flat"
    file.write_text(json.dumps(summary))
    report, _ = written(run)
    assert "resumed from `lora/grpo/checkpoint-10`" in report and "`x/y: flat`" in report
    assert str(run.parent) not in report and "secret" not in report


def test_long_texts_are_cut(run, undrawn):
    for number in (10, 20, 30):
        groups("word " * 10_000 + "line\n" * 1000).to_parquet(
            run / f"completions/completions_{number:05}.parquet"
        )
    report, _ = written(run)
    assert len(report) < 12_000 and report.count("\n") < 300 and " … " in report


def test_a_link_in_the_folder_is_refused(run, tmp_path):
    (run / "report.md").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RecipeError, match="is a link"):
        run_pages.write(run)
    assert not (tmp_path / "elsewhere").exists()


def test_a_warm_start_of_the_models_own_solutions_is_a_fact(tmp_path):
    given = {"train": ["arithmetic"], "own_solutions": {"samples": 4}}
    recipe = {"data": given, "sft": {"max_steps": 5}}
    lines = run_pages.facts(Run(tmp_path, recipe, {}, {}, None))
    assert lines[1:] == ["for the warm start the base model's own right solutions"]
    for other in ({"data": given}, {"data": given | {"own_solutions": None}, "sft": {}}):
        assert run_pages.facts(Run(tmp_path, other, {}, {}, None)) == lines[:1]
