"""A learned reward: tiny real reward models, of whole completions and of steps, asked as a run asks
them."""

import json
import math
import shutil
from pathlib import Path

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
)

from evaluation.findings import model_findings
from schema.faults import RecipeError
from schema.launch import launch
from schema.models import built_model
from schema.problem_sets import train_and_held_out
from schema.recipe import Recipe, load_recipe, read_recipe
from tests.support import read_lines, run_stage
from training import reward_model
from training.reward_model import bytes_of, load_reward_model, load_tokenizer_of
from training.scoring import StepRewards, guarded_rewards

TINY = "recipes/tiny-arithmetic.yaml"


def made(folder: Path, auto=AutoModelForSequenceClassification, labels: int = 1) -> Path:
    """The tiny model with another head, as trl's trainers save it. Its weights are random, and
    large enough that what it says depends on the whole text."""
    base = built_model("tiny-qwen3", 42)
    torch.manual_seed(0)
    model = auto.from_pretrained(base, num_labels=labels)
    for each in model.parameters():
        torch.nn.init.normal_(each, std=0.2)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(base).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def of_completions(tmp_path_factory) -> Path:
    return made(tmp_path_factory.mktemp("reward"))


@pytest.fixture(scope="module")
def of_steps(tmp_path_factory) -> Path:
    return made(tmp_path_factory.mktemp("process"), AutoModelForTokenClassification, 2)


def recipe(folder: Path, *options: str) -> Recipe:
    return load_recipe(
        TINY, [f"rewards.learned={{model: {folder}, weight: 0.5{''.join(options)}}}"], check=()
    )


def asked(texts: list[str], question: str = "1+2=?") -> dict:
    return {
        "prompts": [[{"role": "user", "content": question}]] * len(texts),
        "completions": [[{"role": "assistant", "content": text}] for text in texts],
    }


TEXTS = ["3", "<think>1+2=3</think>\n<answer>3</answer>", "3" * 200, "so it is 4, or 5", "3"]


def test_a_score_is_the_models_and_does_not_depend_on_its_batch(of_completions, monkeypatch):
    learned = guarded_rewards(recipe(of_completions))[-1]
    assert learned.__name__ == "learned"
    together = learned(**asked(TEXTS))
    alone = [learned(**asked([text]))[0] for text in TEXTS]
    assert together == pytest.approx(alone, abs=1e-5) and together[0] == together[-1]
    assert max(together) - min(together) > 0.1  # or the comparison shows nothing
    monkeypatch.setattr(reward_model, "TOKENS", 60)
    assert learned(**asked(TEXTS)) == pytest.approx(alone, abs=1e-5)
    # As transformers itself reads the model, from the text that its own template writes.
    tokenizer = AutoTokenizer.from_pretrained(of_completions)
    model = AutoModelForSequenceClassification.from_pretrained(of_completions).eval()
    each = asked(TEXTS[1:2])
    ids = tokenizer.apply_chat_template(
        each["prompts"][0] + each["completions"][0], return_tensors="pt"
    )["input_ids"]
    with torch.no_grad():
        assert model(input_ids=ids).logits.item() == pytest.approx(alone[1], abs=1e-5)


def test_a_loaded_reward_model_is_frozen_and_too_long_a_text_has_no_score(of_completions):
    loaded = load_reward_model(recipe(of_completions))
    assert not loaded.model.training and not any(
        each.requires_grad for each in loaded.model.parameters()
    )
    learned = guarded_rewards(recipe(of_completions))[-1]
    found = learned(**asked(["3", "3" * 600, "4"]))  # the window has 512 tokens
    assert found[1] is None and None not in (found[0], found[2])


def test_each_step_is_judged_with_those_before_it_in_one_pass(of_steps, monkeypatch):
    learned = guarded_rewards(recipe(of_steps, ', steps: ", "'))[-1]
    tokenizer = load_tokenizer_of(recipe(of_steps, ', steps: ", "'))
    model, passes = learned.function.keywords["model"].model, []
    forward = type(model).forward

    def counted(self, input_ids, **inputs):
        passes.append(len(input_ids))
        return forward(self, input_ids=input_ids, **inputs)

    monkeypatch.setattr(type(model), "forward", counted)
    texts = ["1+2=3, 3+4=7, 7", "1+2=4, 3+4=7, 7", "9"]
    steps = StepRewards(tokenizer, ", ", 1.0)
    means = steps.score(
        learned,
        completion_ids=[tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts],
        log_extra=lambda *extra: None,
        **asked(texts),
    )
    assert passes == [3] and [len(each) for each in steps.rewards] == [3, 3, 1]
    assert means[2] == steps.rewards[2][0] and all(
        0 < each < 1 for found in steps.rewards for each in found
    )
    # The same words after another first step are judged otherwise.
    assert steps.rewards[0][1] != pytest.approx(steps.rewards[1][1], abs=1e-4)
    # trl's text, by hand: the question, and each step with a separator.
    model = AutoModelForTokenClassification.from_pretrained(of_steps).eval()
    for found, text in zip(steps.rewards, texts, strict=True):
        ids, ends = tokenizer("1+2=?")["input_ids"], []
        for step in text.split(", "):
            ids = ids + tokenizer(step)["input_ids"] + tokenizer("\n")["input_ids"]
            ends.append(len(ids) - 1)
        with torch.no_grad():
            wrong, right = model(input_ids=torch.tensor([ids])).logits[0, ends].T.tolist()
        by_hand = [1 / (1 + math.exp(w - r)) for w, r in zip(wrong, right, strict=True)]
        assert found == pytest.approx(by_hand, abs=1e-5)


def test_without_steps_before_it_a_text_is_one_step(of_steps):
    """So the audit asks."""
    learned = guarded_rewards(recipe(of_steps, ', steps: ", "'))[-1]
    assert learned(**asked(["1, 2", "3"])) == pytest.approx(
        [learned(**asked([each]))[0] for each in ("1, 2", "3")]
    )


def changed(folder: Path, **config: object):
    file = folder / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | config))


def without(name: str):
    return lambda folder: (folder / name).unlink()


def without_head(folder: Path):
    weights = load_file(folder / "model.safetensors")
    del weights["score.weight"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


WRONG = [
    # what is done to the folder, what is said, and whether the strict recipe says it, which loads
    # nothing
    (lambda folder: shutil.rmtree(folder), "there is no folder", True),
    (without("config.json"), "holds no config.json", True),
    (without("model.safetensors"), "holds no model.safetensors", True),
    (lambda folder: (folder / "adapter_config.json").write_text("{}"), "holds an adapter", True),
    (lambda folder: (folder / "config.json").write_text("["), "is not a JSON object", True),
    (
        lambda folder: changed(folder, id2label={"0": "a", "1": "b", "2": "c"}),
        "it has 3 labels, not 1",
        True,
    ),
    (
        lambda folder: changed(folder, architectures=["Qwen3ForCausalLM"]),
        "'Qwen3ForCausalLM'; a learned reward",
        True,
    ),
    (
        lambda folder: changed(
            folder, architectures=["MyRewardModel"], auto_map={"AutoModel": "mine.MyRewardModel"}
        ),
        "'MyRewardModel', whose own code is never run here",
        True,
    ),
    (
        lambda folder: changed(folder, model_type="mine"),
        "'mine' cannot be built as a model for sequence classification",
        False,
    ),
    (without_head, "its weights do not match its config.json; score.weight is missing", False),
    (without("chat_template.jinja"), "no chat template", False),
]


@pytest.mark.parametrize(("change", "said", "at_once"), WRONG)
def test_a_wrong_reward_model_is_one_message_with_its_place(
    change, said, at_once, of_completions, tmp_path
):
    folder = tmp_path / "model"
    shutil.copytree(of_completions, folder)
    change(folder)
    if at_once:
        with pytest.raises(RecipeError) as refused:
            recipe(folder)
    else:
        read = recipe(folder)
        with pytest.raises(RecipeError) as refused:
            load_reward_model(read)
    assert len(refused.value.faults) == 1 and said in str(refused.value)
    assert str(refused.value).startswith("override rewards.learned")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("{weight: 0.5}", "it needs a `model`"),
        ("{model: 5}", "rewards.learned.model: expected a Hub id or a folder, got 5"),
        ("{model: a/b/c}", "there is no folder a/b/c"),
        (
            "{model: a/b, separator: ''}",
            "rewards.learned.separator: expected the text after each step",
        ),
        ("{model: a/b, sepaartor: x}", "unknown argument 'sepaartor'; did you mean separator?"),
        ("{model: a/b, revision: 'a b'}", "rewards.learned.revision: expected a branch"),
    ],
)
def test_wrong_options_are_refused_by_the_strict_recipe(given, said):
    _, faults = read_recipe(TINY, [f"rewards.learned={given}"], check=())
    assert [said in str(each) for each in faults] == [True]


def test_a_reward_model_of_the_other_kind_is_refused(of_completions, of_steps):
    with pytest.raises(
        RecipeError, match="'Qwen3ForTokenClassification'; a learned reward is a model"
    ):
        recipe(of_steps)
    with pytest.raises(
        RecipeError, match="'Qwen3ForSequenceClassification'; a learned reward of steps is a model"
    ):
        recipe(of_completions, ', steps: "\n"')


def test_code_beside_it_is_never_run(of_completions, tmp_path):
    folder, canary = tmp_path / "model", tmp_path / "canary"
    shutil.copytree(of_completions, folder)
    (folder / "mine.py").write_text(f"open({str(canary)!r}, 'w')\n")
    own = {"AutoConfig": "mine.Config", "AutoModelForSequenceClassification": "mine.Model"}
    changed(folder, auto_map=own)
    tokenizer = folder / "tokenizer_config.json"
    tokenizer.write_text(
        json.dumps(
            json.loads(tokenizer.read_text()) | {"auto_map": {"AutoTokenizer": ["mine.T", None]}}
        )
    )
    guarded_rewards(recipe(folder))[-1](**asked(TEXTS))
    assert not canary.exists()


def test_a_check_looks_at_it_without_loading_it(of_completions, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(AutoModelForSequenceClassification, "from_pretrained", None)
    mute = tmp_path / "mute"
    shutil.copytree(of_completions, mute)
    (mute / "chat_template.jinja").unlink()
    told = {}
    for each in (of_completions, mute, "some/model"):
        asked = recipe(each)
        found = model_findings(asked, train_and_held_out(asked)[0], launch(None, None), None)
        told[each] = [
            (finding.level, finding.message) for finding in found if "learned" in str(finding)
        ]
    assert told[of_completions] == [] and "audit: left out here" in capsys.readouterr().out
    assert [level for level, _ in told[mute]] == ["error"] and "has no chat template" in told[mute][
        0
    ][1]
    assert [level for level, _ in told["some/model"]] == ["note"]
    assert told["some/model"][0][1].startswith("not seen: reward model some/model: ")


def test_its_weights_are_counted(of_completions):
    counted = bytes_of(recipe(of_completions))
    weights = load_reward_model(recipe(of_completions)).model.parameters()
    assert counted == sum(each.numel() * each.element_size() for each in weights) > 0
    assert bytes_of(load_recipe(TINY, check=())) == 0


def test_a_run_trains_with_it_and_writes_what_it_said(of_completions, tmp_path):
    """A few steps of the real trainer, both rewards mixed; the column of the files is what the
    model says."""
    given = [
        f"output_dir={tmp_path}",
        "sft=null",
        "grpo.max_steps=2",
        "grpo.per_device_train_batch_size=8",
    ]
    given += [
        "grpo.num_generations=4",
        "grpo.logging_steps=1",
        "grpo.num_iterations=1",
        "data.validation=8",
    ]
    given += [
        "grpo.max_completion_length=12",
        f"rewards.learned={{model: {of_completions}, weight: 0.5}}",
    ]
    run_stage("grpo", TINY, *given)
    files = sorted((tmp_path / "grpo/completions").glob("*.parquet"))
    assert len(files) == 2 and (tmp_path / "grpo/model.safetensors").is_file()
    frame = pd.read_parquet(files[0])
    learned = guarded_rewards(recipe(of_completions))[-1]
    prompts, completions = (frame[name].map(list).tolist() for name in ("prompt", "completion"))
    assert frame["learned"].tolist() == pytest.approx(
        learned(prompts=prompts, completions=completions), abs=1e-5
    )
    assert frame["learned"].nunique() > 1
    metrics = read_lines(tmp_path / "grpo/metrics.jsonl")
    assert metrics[0]["rewards/learned/mean"] == pytest.approx(frame["learned"].mean(), abs=1e-4)
