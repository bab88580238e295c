"""A token's loss, as it is worked out for a reader, is the one that trl trains on."""

import copy
import json

import pandas as pd
import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

import stages.explain
from console.faults import RecipeError
from evaluation import explain
from schema.recipe import load_recipe
from tests.support import run_stage
from tests.tables import cases
from training.step_rewards import normalise, spread
from training.tiny_models import built_model

TEXTS = ["<think>1+1=2</think>\n<answer>2</answer>", "<answer>12</answer>", "7", "<think>9"]
ADVANTAGES = [1.2, -0.4, 0.0, -0.8]


@pytest.fixture(scope="module")
def models():
    """(tokenizer, new, old, reference): policies a few percent apart, so that some ratios leave the
    clip range."""
    folder = built_model("tiny-qwen3", 42)
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="left")
    new = AutoModelForCausalLM.from_pretrained(folder)
    others = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        other = copy.deepcopy(new)
        for each in other.parameters():
            each.data += 0.01 * torch.randn_like(each)
        others.append(other.eval())
    return tokenizer, new.eval(), *others


@torch.no_grad()
def logged(model, prompt: list[int], ids: list[int], temperature: float) -> torch.Tensor:
    logits = model(torch.tensor([prompt + ids])).logits[0, len(prompt) - 1 : -1] / temperature
    return torch.log_softmax(logits, -1).gather(1, torch.tensor(ids)[:, None])[:, 0]


@cases(__file__, "the_tokens_add_up_to_trls_loss")
def test_the_tokens_add_up_to_trls_loss(models, tmp_path, options):
    tokenizer, new, old, reference = models
    options = dict(options)
    of_steps = options.pop("of_steps", False)
    overrides = [f"grpo.{key}={json.dumps(value)}" for key, value in options.items()]
    settings = explain.settings_of(load_recipe("recipes/tiny-arithmetic.yaml", overrides, check=()))
    sizes = {"max_completion_length": 48, "per_device_train_batch_size": 4, "num_generations": 4}
    sizes |= {"steps_per_generation": 1, "gradient_accumulation_steps": 1}
    here = {"use_cpu": True, "bf16": False, "report_to": "none", "gradient_checkpointing": False}
    args = GRPOConfig(str(tmp_path), **sizes, **here, **options)
    data = Dataset.from_list([{"prompt": "1"}] * 4)
    trainer = GRPOTrainer(
        new, lambda prompts, **_: [0.0] * len(prompts), args, data, processing_class=tokenizer
    )
    trainer.model.train()  # tells trl that this is no evaluation; the model has no dropout
    trainer.current_gradient_accumulation_steps = 1
    prompt = tokenizer("What is 1 + 1?")["input_ids"]
    completions = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in TEXTS]
    temperature, longest = settings["temperature"], max(map(len, completions))
    columns, padded = [], []
    for model in (new, old, reference):
        rows = [logged(model, prompt, ids, temperature) for ids in completions]
        columns.append(rows)
        padded.append(torch.nn.utils.rnn.pad_sequence(rows, batch_first=True))
    tensors = [torch.tensor(ids) for ids in completions]
    ids = torch.nn.utils.rnn.pad_sequence(tensors, True, tokenizer.pad_token_id)
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones_like(row) for row in tensors], True)
    # what steps would add
    shares = torch.linspace(-1, 2, longest) if of_steps else torch.zeros(longest)
    advantages = torch.tensor(ADVANTAGES)
    inputs = {"prompt_ids": torch.tensor([prompt] * 4), "completion_ids": ids}
    inputs |= {"prompt_mask": torch.ones_like(inputs["prompt_ids"]), "completion_mask": mask}
    inputs |= {"advantages": advantages[:, None] + shares if of_steps else advantages}
    inputs |= {"num_items_in_batch": mask.sum(), "old_per_token_logps": padded[1]}
    if settings["beta"]:
        inputs["ref_per_token_logps"] = padded[2]
    theirs = trainer._compute_loss(trainer.model, inputs).item()
    batch = [len(each) for each in completions]
    ours, stopped = 0.0, 0
    for now, before, there, advantage in zip(*columns, ADVANTAGES, strict=True):
        terms = explain.terms(now, before, there, advantage + shares[: len(now)], settings)
        weight = explain.weight(len(now), batch, settings) or 1 / sum(batch)  # bnpo
        ours += terms.loss.sum().item() * weight
        stopped += int(terms.stopped.sum())
    assert ours == pytest.approx(theirs, abs=2e-6)
    assert abs(theirs) > 1e-3
    if options["loss_type"] != "cispo" and "importance_sampling_level" not in options:
        assert stopped > 0  # or the clip was not tried


OTHERS = ["loss_type=sapo", "loss_type=vespo", "top_entropy_quantile=0.5", "delta=2.0"]
OTHERS += ["entropy_coef=0.1", "use_adaptive_entropy=true", "mask_truncated_completions=true"]


@pytest.mark.parametrize("override", OTHERS)
def test_a_loss_that_is_not_worked_out_is_refused(override):
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", [f"grpo.{override}"], check=())
    with pytest.raises(RecipeError, match=r"is not worked out token by token"):
        explain.settings_of(recipe)


@pytest.mark.train
def test_what_steps_add_is_in_the_advantages_of_a_real_runs_tokens(tmp_path):
    given = ["sft=null", "grpo.max_steps=2", "grpo.save_steps=2", "grpo.logging_steps=1"]
    given += [f"output_dir={tmp_path}"]
    steps = "tests.varied_reward.of_length: {weight: 0.5, steps: '1'}"
    rewards = f"rewards={{tests.varied_reward.varied: {{weight: 1.0}}, {steps}}}"
    run_stage("grpo", "recipes/tiny-arithmetic.yaml", *given, rewards)
    table = pd.read_parquet(tmp_path / "grpo/completions/completions_00001.parquet")[:8]
    pairs = [json.loads(each) for each in table["steps"]]
    normal = normalise([[reward for _, reward in each] for each in pairs], 8, "group")
    row = max(range(8), key=lambda i: len(pairs[i]))
    assert len(pairs[row]) > 1
    run_stage("explain", tmp_path, "--step", 1, "--row", row)
    found = json.loads((tmp_path / f"grpo/explain/1-{row}.json").read_text())
    of_steps = spread([normal[row]], [[end for end, _ in pairs[row]]], len(found["tokens"]))[0]
    expected = table["advantage"][row] + 0.5 * of_steps.numpy()
    assert found["advantages"] == pytest.approx(expected, abs=1e-4)


def test_the_tokens_that_moved_furthest_are_printed_in_their_order(capsys):
    moves = [0.3, 0.1, -0.8, 0.7, 0.0, 0.6, -0.5, 0.4, 0.9, 0.2]
    count = len(moves)
    terms = {"policies": {"old": "A", "new": "B", "reference": "C"}, "notes": ["a note"]}
    terms |= {"old": [0.0] * count, "new": moves, "tokens": [f"t{i}" for i in range(count)]}
    for base, name in enumerate(("advantages", "ratio", "kl", "entropy", "loss"), 1):
        terms[name] = [base + i / 100 for i in range(count)]
    terms |= {"advantage": 1.5, "stopped": [i == 3 for i in range(count)]}
    stages.explain._say_terms(terms)
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "sampled by A or one after it, compared with B; the reference is C"
    assert lines[1] == "note: a note" and lines[2].startswith("advantage 1.500; ")
    head = lines[3].split()
    assert head == ["token", "advantage", "ratio", "kl", "entropy", "loss"]
    cells = [line.split() for line in lines[4:]]
    assert [row[0] for row in cells] == [f"'t{i}'" for i in (0, 2, 3, 5, 6, 7, 8, 9)]
    assert cells[1][1:] == ["1.0200", "2.0200", "3.0200", "4.0200", "5.0200"]
    assert [row[0] for row in cells if row[-1] == "clipped"] == ["'t3'"]
