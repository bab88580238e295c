"""DPO on what a run sampled, really run: trained, killed, resumed, evaluated and compared."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from transformers import AutoTokenizer

from tests.support import CHAIN, OF_DPO, copied, read_lines, run_stage, same_weights, weights
from training.rows import preference_pairs, tokenise_pairs

pytestmark = pytest.mark.train


def tiny(folder: Path, *overrides: str) -> list[str]:
    return ["recipes/tiny-dpo.yaml", f"output_dir={folder}", *CHAIN, *OF_DPO, *overrides]


def test_it_says_what_has_to_run_before(chain, tmp_path):
    for stage in ("sft", "grpo"):
        early = run_stage("dpo", *tiny(tmp_path), check=False)
        assert early.returncode == 2
        assert f"run `make {stage} " in early.stderr.replace("finished: make", "run `make")
        assert not (tmp_path / "dpo").exists()
        copied(chain, tmp_path, stage)


def test_it_says_what_it_learned_from_and_is_compared(chain):
    said, evaluation = ((chain / "said" / stage).read_text() for stage in ("dpo", "evaluate"))
    assert "of 32 groups, 256 completions, from " in said
    assert "next: make evaluate RECIPE=tiny-dpo" in said
    assert all(
        f"- {pair}: " in evaluation
        for pair in ("sft → grpo", "grpo → dpo", "sft → dpo", "base → dpo")
    )
    card = (chain / "dpo/README.md").read_text()
    assert "made by DPO on pairs from a GRPO run after an SFT warm start" in card
    assert "| dpo |" in card


def test_it_learns_the_pairs_of_its_own_run(chain):
    figures = json.loads((chain / "dpo/summary.json").read_text())["pairs"]
    files = [pd.read_parquet(each) for each in sorted((chain / "grpo/completions").iterdir())]
    rewards = [file["correct_answer"] + 0.25 * file["format_tags"] for file in files]
    spread = [
        each.groupby(each.index // 8).agg(lambda group: group.max() - group.min())
        for each in rewards
    ]
    mixed = int(sum((each > 0).sum() for each in spread))
    assert 0 < mixed < 32  # or this shows nothing
    assert figures == {"completions": 256, "groups": 32, "pairs": mixed, "used": mixed}
    lines = [line for line in read_lines(chain / "dpo/metrics.jsonl") if "loss" in line]
    # the policy is still its reference
    assert lines[0]["rewards/margins"] == pytest.approx(0, abs=1e-3)
    assert lines[-1]["rewards/margins"] > 0
    assert not same_weights(chain / "dpo", chain / "sft")
    assert not same_weights(chain / "dpo", chain / "grpo")
    held_out = {each["problem"] for each in read_lines(chain / "eval/held-out/dpo.jsonl")[1:]}
    asked = {each[-1]["content"] for file in files for each in file["prompt"]}
    assert len(held_out) == 16 and not held_out & asked


def test_it_compares_with_the_run_that_it_learned_from(chain):
    done = run_stage("compare", chain / "grpo", chain / "dpo")
    rows = {
        line.split(" | ")[0]: line.split(" | ")
        for line in done.stdout.splitlines()
        if line.startswith("| ")
    }
    grpo, dpo = (
        next(row for name, row in rows.items() if name.endswith(end))
        for end in (chain.name, "/dpo")
    )
    assert grpo[3] == dpo[3] == "256"  # completions: it sampled none of its own
    assert grpo[5].split(" → ")[0] == dpo[5].split(" → ")[0]  # the warm start


def test_what_it_cannot_learn_from_is_told(chain, tmp_path):
    copied(chain, tmp_path, "sft", "grpo")
    other = run_stage("dpo", *tiny(tmp_path, "grpo.beta=0.5"), check=False)
    assert other.returncode == 2 and "grpo.beta: 0.0 there, 0.5 here" in other.stderr
    short = run_stage("dpo", *tiny(tmp_path, "dpo.max_length=2"), check=False)
    assert short.returncode == 2 and "of the 32 groups in " in short.stderr
    shutil.rmtree(tmp_path / "grpo/completions")
    gone = run_stage("dpo", *tiny(tmp_path), check=False)
    assert gone.returncode == 2 and "of the 0 groups in " in gone.stderr
    for stage, options in (
        ("dpo", []),
        ("preflight", ["--stages", "sft", "grpo", "dpo"]),
    ):  # before hours of GRPO
        none = run_stage(stage, *tiny(tmp_path, "dpo=null"), *options, check=False)
        assert none.returncode == 2 and "it has no `dpo` section: write `dpo: {}`" in none.stderr
    assert not (tmp_path / "dpo").exists()


def test_pairs_that_are_too_long_are_told(chain, tmp_path):
    copied(chain, tmp_path, "sft", "grpo")
    rows = tokenise_pairs(
        preference_pairs(chain / "grpo", 8)[0], AutoTokenizer.from_pretrained(chain / "sft"), None
    )
    lengths = [
        len(each["prompt_ids"]) + max(len(each["chosen_ids"]), len(each["rejected_ids"]))
        for each in rows
    ]
    fits = max(lengths) - 1
    said = run_stage("dpo", *tiny(tmp_path, f"dpo.max_length={fits}", "dpo.max_steps=1")).stdout
    line = f" ({lengths.count(fits + 1)} more are longer than dpo.max_length, {fits} tokens), from "
    assert line in said


def test_an_adapter_learns_against_a_frozen_copy_of_its_warm_start(tmp_path):
    adapter = "adapter={r: 8, lora_alpha: 16, target_modules: all-linear}"
    varied = "tests.varied_reward.varied"
    given = [adapter, f"rewards={{{varied}: {{weight: 1.0}}}}"]  # so that every group has a pair
    given = tiny(tmp_path, *given, "sft.max_steps=20", "grpo.max_steps=4")
    for stage in ("sft", "grpo", "dpo"):
        run_stage(stage, *given)
    lines = [line for line in read_lines(tmp_path / "dpo/metrics.jsonl") if "loss" in line]
    assert lines[0]["rewards/margins"] == pytest.approx(0, abs=1e-3)
    warm, learned = weights(tmp_path / "sft"), weights(tmp_path / "dpo")
    assert warm.keys() == learned.keys() and not same_weights(tmp_path / "sft", tmp_path / "dpo")
    shutil.copytree(tmp_path / "dpo", tmp_path / "whole")
    (tmp_path / "dpo/summary.json").unlink()
    shutil.rmtree(tmp_path / "dpo/checkpoint-6")
    run_stage("dpo", *given)
    assert same_weights(tmp_path / "dpo", tmp_path / "whole")
