"""DPO on what a run sampled, really run: trained, killed, resumed, evaluated and compared."""

import json
import shutil
from pathlib import Path

import pandas as pd
import pytest
from transformers import AutoTokenizer

from tests.support import (
    CHAIN,
    LORA,
    OF_DPO,
    copied,
    read_lines,
    refused,
    run_stage,
    same_weights,
    weights,
)
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
    for pair in ("sft → grpo", "grpo → dpo", "sft → dpo", "base → dpo"):
        assert f"- {pair}: " in evaluation
    card = (chain / "dpo/README.md").read_text()
    assert "made by DPO on pairs from a GRPO run after an SFT warm start" in card
    assert "| dpo |" in card


def test_it_learns_the_pairs_of_its_own_run(chain):
    figures = json.loads((chain / "dpo/summary.json").read_text())["pairs"]
    completions = pd.read_parquet(chain / "grpo/completions")
    rewards = completions["correct_answer"] + 0.25 * completions["format_tags"]
    groups = rewards.to_numpy().reshape(32, 8)
    mixed = int((groups.max(1) > groups.min(1)).sum())
    assert 0 < mixed < 32  # or this shows nothing
    assert figures == {"completions": 256, "groups": 32, "pairs": mixed, "used": mixed}
    lines = [line for line in read_lines(chain / "dpo/metrics.jsonl") if "loss" in line]
    # the policy is still its reference
    assert lines[0]["rewards/margins"] == pytest.approx(0, abs=1e-3)
    assert lines[-1]["rewards/margins"] > 0
    assert not same_weights(chain / "dpo", chain / "grpo")
    held_out = {line["problem"] for line in read_lines(chain / "eval/held-out/dpo.jsonl")[1:]}
    trained = {prompt[-1]["content"] for prompt in completions["prompt"]}
    assert len(held_out) == 16 and not held_out & trained


def test_it_compares_with_the_run_that_it_learned_from(chain):
    done = run_stage("compare", chain / "grpo", chain / "dpo")
    rows = [line.split(" | ") for line in done.stdout.splitlines() if line.startswith("| ")]
    [grpo] = [row for row in rows if row[0].endswith(chain.name)]
    [dpo] = [row for row in rows if row[0].endswith("/dpo")]
    assert grpo[3] == dpo[3] == "256"  # completions: it sampled none of its own
    assert grpo[5].split(" → ")[0] == dpo[5].split(" → ")[0]  # the warm start


def test_what_it_cannot_learn_from_is_told(chain, tmp_path):
    copied(chain, tmp_path, "sft", "grpo")
    other = refused("dpo", *tiny(tmp_path, "grpo.beta=0.5"))
    assert "grpo.beta: 0.0 there, 0.5 here" in other
    assert "of the 32 groups in " in refused("dpo", *tiny(tmp_path, "dpo.max_length=2"))
    shutil.rmtree(tmp_path / "grpo/completions")
    assert "of the 0 groups in " in refused("dpo", *tiny(tmp_path))
    before_grpo = ("preflight", ["--stages", "sft", "grpo", "dpo"])
    for stage, options in (("dpo", []), before_grpo):
        message = refused(stage, *tiny(tmp_path, "dpo=null"), *options)
        assert "it has no `dpo` section: write `dpo: {}`" in message
    assert not (tmp_path / "dpo").exists()


def test_pairs_that_are_too_long_are_told(chain, tmp_path):
    copied(chain, tmp_path, "sft", "grpo")
    tokenizer = AutoTokenizer.from_pretrained(chain / "sft")
    lengths = []
    for row in tokenise_pairs(preference_pairs(chain / "grpo", 8)[0], tokenizer, None):
        longer = max(len(row["chosen_ids"]), len(row["rejected_ids"]))
        lengths.append(len(row["prompt_ids"]) + longer)
    fits = max(lengths) - 1
    said = run_stage("dpo", *tiny(tmp_path, f"dpo.max_length={fits}", "dpo.max_steps=1")).stdout
    line = f" ({lengths.count(fits + 1)} more are longer than dpo.max_length, {fits} tokens), from "
    assert line in said


def test_an_adapter_learns_against_a_frozen_copy_of_its_warm_start(tmp_path):
    varied = "rewards={tests.varied_reward.varied: {weight: 1.0}}"  # every group has a pair
    given = tiny(tmp_path, LORA, varied, "sft.max_steps=20", "grpo.max_steps=4")
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
