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
from runs.files import weights_hash
from runs.state import RunState, read_run
from tests.console.test_terminal import kinds
from tests.evaluation.test_report import answers
from tests.made_runs import chat, write_json
from tests.support import ROOT, run_stage, write_lines
from tests.tables import cases, lacking, yaml_text
from tests.waits import start_command

RECIPE = yaml_text(__file__, "recipe")
SUMMARY, VERSIONS = yaml_text(__file__, "summary"), yaml_text(__file__, "versions")
CARD_FIELDS = {*yaml_text(__file__, "front_matter")}
# A text that would end a block of code, the front matter, a table or a line of code, and rewrite a
# terminal.
HOSTILE = (
    "x\n---\nlicense: mit\n```\n``````\n# owned\n\x1b]0;owned\x07|`|<img src=x>[owned](http://x)"
)


def groups(completion: str = "<answer>4</answer>") -> pd.DataFrame:
    """A file of completions: two groups of two."""
    columns = {"step": 10, "prompt": [], "completion": []}
    for i, question in enumerate(["2 + 0?", "2 + 0?", "2 + 1?", "2 + 1?"]):
        columns["prompt"].append([chat("system", "Think first."), chat("user", question)])
        columns["completion"].append([chat("assistant", f"{completion} {i}")])
    columns |= {"correct_answer": [0.0, 1.0] * 2, "short": [None] * 4, "gold": "4", "tokens": 5}
    columns |= {"truncated": [False, True, False, False], "advantage": [-0.7, 0.7] * 2}
    return pd.DataFrame(columns)


@pytest.fixture
def run(tmp_path) -> Path:
    """The folder of a finished run, as the stages leave it."""
    folder = tmp_path / "lora/grpo"
    (folder / "completions").mkdir(parents=True)
    (folder / "recipe.yaml").write_text(RECIPE)
    files = {"summary": SUMMARY, "versions": VERSIONS, "data": {"problems": 14000}}
    for name in files:
        write_json(folder / f"{name}.json", files[name])
    for name in ("adapter_config.json", "adapter_model.safetensors"):
        (folder / name).write_text("{}")
    lines = []
    for i in (1, 2, 3):
        line = {"step": 10 * i, "reward": i / 4, "learning_rate": 1e-5 / i, "kl": 0.1}
        lines.append(line | {"rewards/correct_answer/mean": i / 5})
    lines += [{"step": 20, "eval_rewards/correct_answer/mean": 0.5, "eval_correct": "0101"}]
    write_lines(folder / "metrics.jsonl", lines)
    for step in (10, 20, 30):
        groups().assign(step=step).to_parquet(folder / f"completions/completions_{step:05}.parquet")
    return folder


def evaluated(run: Path, correct: list[bool], weights: str | None = None):
    """Answers to validation problems by the base model, which has none correct, and by the run."""
    folder = run.parent / "eval/validation"
    folder.mkdir(parents=True, exist_ok=True)
    answers(folder, "base", [False] * len(correct))
    answers(folder, "grpo", correct)
    for label, told in (("base", None), ("grpo", weights or weights_hash(run))):
        head, *items = (folder / f"{label}.jsonl").read_text().splitlines()
        head = json.loads(head) | {"weights": told, "temperature": 0, "max_new_tokens": 512}
        write_lines(folder / f"{label}.jsonl", [head, *map(json.loads, items)])
    (folder / "summary.json").write_text("{}")


def written(run: Path) -> tuple[str, str]:
    """(report, card) of a run."""
    assert run_pages.write(read_run(run)) == run / "report.md"
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
    assert front_matter(card) == yaml_text(__file__, "front_matter")
    link = "[openai/gsm8k](https://huggingface.co/datasets/openai/gsm8k)"
    assert f"`gsm8k`: {link}, licence mit by its card" in card
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
    assert headings(report)[:4] == [
        "lora/grpo",
        "How good is it?",
        "What happened?",
        "How did it learn?",
    ]
    assert headings(report)[4:] == [f"A group of step {step}" for step in (10, 20, 30)]
    assert "30 steps on `a GPU` in 80 s: sampling 75.0%, update 25.0%" in report
    assert "2 + 1?" not in report  # another group
    assert "It was not evaluated: nothing is known of its accuracy." in card
    sections = {part.partition("\n")[0]: part for part in report.split("\n## ")}
    for heading, facts in yaml_text(__file__, "report").items():
        assert lacking(facts, sections[heading]) == []
    assert (run / "curves.png").read_bytes().startswith(b"\x89PNG")


def test_what_the_metrics_show_to_be_incorrect_is_in_the_report(run, undrawn):
    def logged(**values: float) -> str:
        write_lines(run / "metrics.jsonl", [{"step": i} | values for i in range(1, 30)])
        return written(run)[0]

    assert "look at" not in written(run)[0]
    report = logged(reward=1.0, zero_variance_groups=0.9)
    assert "## What is there to look at?\n\n- `step 8: " in report and "90%" in report
    # A setting is quoted as text.
    settings = {"grpo": {"max_completion_length": "5 ![x](http://x) <b>\x1b"}}
    write_json(run / "recipe.yaml", settings)
    report = logged(**{"completions/clipped_ratio": 0.9})
    assert "grpo.max_completion_length (now 5 ![x](http://x) <b>\\x1b)" in report
    assert not kinds(report).keys() & {"image", "html_inline", "html_block"}


def test_both_show_the_result_of_these_weights_alone(run, undrawn):
    evaluated(run, [True] * 30 + [False] * 10)
    for text in written(run):
        assert "| grpo | 75.0% | 59.8% to 85.8% |" in text
        assert "- base → grpo: +75.0 ± 13.9 points (n = 40, 30 won, 0 lost, p = 1.9e-09)" in text
        assert "Greedy, at most `512` tokens an answer." in text and "not evaluated" not in text
    (run.parent / "eval/validation/summary.json").unlink()  # the evaluation is not finished
    assert all("not evaluated" in text for text in written(run))
    evaluated(run, [True] * 40, weights="those of another run")
    for text in written(run):
        assert "| grpo |" not in text and "base → grpo" not in text
        assert "The answers in `eval/validation` belong to other weights" in text


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
        run_pages.write(read_run(run))
    (run / "kept").rename(run / "summary.json")
    program = "import sys; from pathlib import Path; from runs.files import lock\n"
    program += "lock(Path(sys.argv[1])); print('locked', flush=True); sys.stdin.read()"
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "cwd": ROOT}
    with start_command([sys.executable, "-c", program, str(run)], **pipes) as holder:
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(RecipeError, match=f"in use by process {holder.pid}"):
            run_pages.write(read_run(run))
        holder.stdin.close()
    assert sorted({*run.rglob("*")} - {run / ".lock"}) == before


def test_a_text_cannot_break_out(run):
    """Of its block of code, of the front matter, of a table or of its line, wherever a stranger can
    put one."""
    recipe = {
        "model": {"name_or_path": HOSTILE, "dtype": HOSTILE, "revision": HOSTILE},
        "data": {"train": [HOSTILE, {HOSTILE: {HOSTILE: HOSTILE}}]},
        "prompt": {"system": HOSTILE},
        "rewards": {HOSTILE: {"weight": HOSTILE, "steps": HOSTILE}},
        "grpo": {"learning_rate": HOSTILE},
        "sft": {"max_steps": HOSTILE},
        "adapter": {"r": HOSTILE},
    }
    write_json(run / "recipe.yaml", recipe)  # which is YAML
    write_json(run / "versions.json", {"hardware": [HOSTILE], HOSTILE: HOSTILE})
    names = ("best_checkpoint", "resumed_from", "stopped")
    write_json(run / "summary.json", SUMMARY | dict.fromkeys(names, HOSTILE + "\ud800"))
    frame = groups(HOSTILE).rename(columns={"correct_answer": HOSTILE})
    frame["prompt"] = [[{"role": "user", "content": HOSTILE}]] * 4
    frame.to_parquet(run / "completions/completions_00010.parquet")
    reward = f"rewards/{HOSTILE}\ud800$\\frac$/mean"
    write_lines(run / "metrics.jsonl", [{"step": 1, reward: 1.0, "reward": 1.0}])
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
    for file in (run / "completions").iterdir():
        groups("word " * 10_000 + "line\n" * 1000).to_parquet(file)
    report, _ = written(run)
    assert len(report) < 12_000 and report.count("\n") < 300 and " … " in report


def test_a_warm_start_of_the_models_own_solutions_is_a_fact(tmp_path):
    given = {"train": ["arithmetic"], "rejection_sampling": {"samples": 4}}
    recipe = {"data": given, "sft": {"max_steps": 5}}
    assert run_pages.facts(RunState(tmp_path, recipe=recipe))["has_rejection_sampling"]
    for other in ({"data": given}, {"data": given | {"rejection_sampling": None}, "sft": {}}):
        assert not run_pages.facts(RunState(tmp_path, recipe=other))["has_rejection_sampling"]
