"""A user's mistake in a recipe gets one clear message with its place, and exit code 2, before any
weight is loaded."""

import dataclasses
import itertools
import re
import time
from dataclasses import fields
from operator import itemgetter
from pathlib import Path

import pytest

from console.faults import RecipeError
from console.terminal import make_command
from schema import configs, rules
from schema.configs import generation
from schema.recipe import load_recipe
from schema.rules import warnings_of
from schema.settings import Machine, require_values, section_class, size_of_run
from schema.text import value_of
from tests.support import SHIPPED, read_recipe
from tests.tables import cases, lacking, rows, yaml_text
from training.problem_sets import share_validation

RECIPES = [Path(path) for path in SHIPPED]
assert len(RECIPES) >= 6

GOOD = yaml_text(__file__, "good")

LONG_RECIPES = {  # the recipe, its place, a part of the message
    "deep": (GOOD + "  lr_scheduler_kwargs: " + "[" * 5000 + "\n", ":9:", "levels deep"),
    "digits": (GOOD + f"  beta: 0x{'f' * 5000}\n", "", "Exceeds the limit (4300 digits)"),
    "dots": (GOOD.replace("[arithmetic]", f"[{'a.' * 3000}b]"), ":3:", "trl.rewards alone"),
    "file": (GOOD.replace("arithmetic", f"{'a/' * 3000}b.jsonl"), ":3:", "there is no such file"),
}


def message_of(path: Path, text: str) -> str:
    path.write_text(text)
    with pytest.raises(RecipeError) as error:
        recipe = load_recipe(path, machine=Machine(has_gpu=False, has_bfloat16=False))
        require_values(recipe, "grpo", is_launched=False)
    [line] = str(error.value).splitlines()
    return line


@pytest.mark.parametrize("row", rows(__file__, "incorrect_recipe"), ids=itemgetter("case"))
def test_a_wrong_recipe_gets_one_message_with_its_place(row, tmp_path):
    text = row.get("recipe", GOOD)
    if "old" in row:
        text = text.replace(row["old"], row["new"])
    path = tmp_path / "mine.yaml"
    message = message_of(path, row.get("start", "") + text + row.get("end", ""))
    place = f"{path}:{row['line']}: " if row["line"] else f"{path}: "
    assert message.startswith(place)
    assert lacking(row["names"], message.removeprefix(place)) == []


@pytest.mark.parametrize("name", LONG_RECIPES)
def test_a_long_incorrect_recipe_gets_one_message_with_its_place(name, tmp_path):
    text, place, message_part = LONG_RECIPES[name]
    message = message_of(tmp_path / "mine.yaml", text)
    assert f"mine.yaml{place}" in message
    assert message_part in message


def test_a_name_with_its_ending_is_told_both_ways():
    with pytest.raises(RecipeError, match=r"RECIPE=m, or a path, as RECIPE=\./m\.yaml"):
        load_recipe("recipes/m.yaml.yaml")


def test_a_file_that_is_no_text_or_no_page_is_told_at_once(tmp_path):
    path = tmp_path / "mine.yaml"
    contents = {b"model: \xe4\n": ":1: not UTF-8", b"a: 1\n" * 10**6: "has 5,000,000 bytes"}
    for content, message in contents.items():
        path.write_bytes(content)
        with pytest.raises(RecipeError, match=message):
            load_recipe(path)
    with pytest.raises(RecipeError, match="is not a file"):
        load_recipe(tmp_path)
    aliases = [f"{c}: &{c} [*{b}, *{b}]\n" for b, c in itertools.pairwise("abcdefghijklm")]
    path.write_text("a: &a [x]\n" + "".join(aliases))
    began = time.process_time()
    with pytest.raises(RecipeError, match="write the value out"):
        load_recipe(path)
    assert time.process_time() - began < 1  # eight levels of these once took 39.6 s


def test_a_huge_batch_is_judged_at_once(tmp_path):
    path = tmp_path / "mine.yaml"
    text = GOOD.replace("num_generations: 8", "num_generations: 7")
    path.write_text(text + "  gradient_accumulation_steps: 65536\n")
    began = time.process_time()
    with pytest.raises(RecipeError, match="take 2, 4, 8, 16, 32, 64, 128, 256, or change"):
        load_recipe(path, ["grpo.per_device_train_batch_size=65536"])
    assert time.process_time() - began < 5  # to count all divisors of 4 billion took minutes


def test_what_is_neither_a_data_set_nor_a_mapping_leaves_no_trace(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD.replace("[arithmetic]", "[arithmetik, 1, [2], {}]"))
    _, faults = read_recipe(path)
    assert [fault.place.line for fault in faults] == [3] * 4
    assert "data.train: [2] is neither a name nor" in faults[2].message


@cases(__file__, "advice")
def test_what_a_recipe_is_advised(overrides, about, told):
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", overrides)
    assert any(about in warning.message for warning in warnings_of(recipe)) is told


@cases(__file__, "numbers_that_hardly_teach_are_warned_of")
def test_numbers_that_hardly_teach_are_warned_of(change, key, names):
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", [change])
    warnings = [fault.message for fault in warnings_of(recipe)]
    if key is None:
        assert warnings == []
        return
    [message] = warnings
    assert lacking([key, *names], message) == []


@cases(__file__, "the_line_to_write_is_in_the_message")
def test_the_line_to_write_is_in_the_message(words, names):
    _, faults = read_recipe("recipes/tiny-arithmetic.yaml", words)
    [message] = [fault.message for fault in faults]
    assert lacking(names, message) == []


def test_a_recipe_by_another_name_says_how_it_is_named(tmp_path):
    (tmp_path / "own.yaml").write_text("base: own.yaml\n")
    (tmp_path / "w.yml").write_text("seed: 1\n")
    (tmp_path / "short.yaml").write_text("base: own\n")
    messages = {
        tmp_path / "own.yaml": "own.yaml names itself",
        tmp_path / "w.yaml": "rename it to w.yaml",
        tmp_path / "short.yaml": "write own.yaml, the file of this folder",
        "recipes/train.py.yaml": "a Python script is no recipe: docs/migrate.md",
        "recipes/Tiny-Dapo.yaml": "did you mean tiny-dapo?",
    }
    for path, message in messages.items():
        with pytest.raises(RecipeError, match=re.escape(message)):
            load_recipe(path)


def test_epochs_beside_steps_are_refused():
    """trl would take the steps and not say so."""
    words = ["grpo.num_train_epochs=3"]
    with pytest.raises(RecipeError, match="max_steps = 240: leave it out, or write max_steps: -1"):
        load_recipe("recipes/tiny-arithmetic.yaml", words)
    load_recipe("recipes/tiny-arithmetic.yaml", [*words, "grpo.max_steps=-1"])


def test_numbers_are_read_as_yaml_1_2_reads_them(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD + "  learning_rate: 1e-5\n")
    grpo = load_recipe(path, ["grpo.beta=4e-2"]).grpo
    assert grpo["learning_rate"] == 1e-5
    assert grpo["beta"] == 0.04


def test_an_override_of_a_dotted_reward_and_of_a_new_section(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    limits = "{max_completion_len: 64, soft_punish_cache: 16}"
    overrides = [f"rewards.trl.rewards.get_soft_overlong_punishment={limits}"]
    overrides += ["rewards.trl.rewards.think_format_reward={}", "sft.max_steps=3"]
    recipe = load_recipe(path, [*overrides, "evaluate.limit=5"])
    assert recipe.rewards["trl.rewards.get_soft_overlong_punishment"]["max_completion_len"] == 64
    assert recipe.sft == {"max_steps": 3}
    assert recipe.evaluate.limit == 5


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_shipped_recipe_is_thin_and_correct(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 45
    top = re.match(r"(?:#.*\n)*", text)[0].splitlines()
    recipe = load_recipe(path)
    needs_gpu = "one GPU" in text or "a GPU" in text or "GPUs" in text
    expected = ["Run", "Needs", "Hours", "Reaches"] if needs_gpu else ["Run", "Needs", "Reaches"]
    # A line each: make recipes.
    assert [line[:10].split()[1] for line in top[-len(expected) :]] == expected
    assert recipe.name == path.stem


@cases(__file__, "the_size_of_a_run")
def test_the_size_of_a_run(grpo, size, tmp_path):
    """Against trl's own rule: a batch is sampled every `steps_per_generation × num_iterations`
    micro-steps."""
    path = tmp_path / "mine.yaml"
    text = GOOD.replace("  max_steps: 2\n  num_generations: 8\n", "")
    path.write_text(text.replace("grpo:", f"grpo: {{{grpo}}}"))
    assert size_of_run(load_recipe(path)) == (size and tuple(size))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_no_shipped_recipe_restates_a_default_of_the_library(path):
    completes = {"num_generations", "per_device_train_batch_size", "gradient_accumulation_steps"}
    own = value_of(path.read_text())
    base = load_recipe(path.with_name(own["base"])).resolved() if "base" in own else {}
    for section in ("sft", "grpo", "adapter"):
        values, below = own.get(section) or {}, base.get(section) or {}
        defaults = {field.name: field.default for field in fields(section_class(section))}
        for key in values:
            if key in below:  # whose value it may undo
                assert values[key] != below[key], f"{section}.{key} is as in its base"
            elif key not in completes:
                assert values[key] != defaults[key], f"{section}.{key} is the library's default"


def test_the_next_command_names_the_recipe_its_overrides_and_the_launcher(tmp_path, monkeypatch):
    overrides = ["grpo.max_steps=3", "data.train=[gsm8k, math]"]
    recipe = load_recipe("recipes/qwen-math-lora.yaml", overrides)
    args = "ARGS=\"grpo.max_steps=3 'data.train=[gsm8k, math]'\""
    assert make_command("evaluate", recipe) == f"make evaluate RECIPE=qwen-math-lora {args}"
    tiny = load_recipe("recipes/tiny-arithmetic.yaml")
    assert make_command("grpo", tiny) == "make grpo"
    monkeypatch.setenv("ACCELERATE", "ddp")
    monkeypatch.setenv("PROCESSES", "4")
    assert make_command("grpo", tiny) == "make grpo ACCELERATE=ddp PROCESSES=4"
    monkeypatch.undo()
    (tmp_path / "mine.yaml").write_text(GOOD)
    reference = f"make grpo RECIPE={tmp_path}/mine.yaml"
    assert make_command("grpo", load_recipe(tmp_path / "mine.yaml")) == reference


def test_the_default_of_save_steps_is_never_inside_a_cycle(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    cycles = {"num_iterations=1": 50, "num_iterations=4": 52, "steps_per_generation=6": 54}
    for override, steps in cycles.items():
        overrides = [f"grpo.{override}", "grpo.per_device_train_batch_size=8"]
        recipe = load_recipe(path, overrides)
        assert recipe.settings["grpo"]["save_steps"] == steps


@pytest.mark.parametrize(
    ("overrides", "processes", "number"),
    [
        (["data.validation=600"], 1, 96),
        (["data.validation=50"], 4, 48),
        (["data.validation=3"], 4, 0),
        (["data.validation=600", "rewards={format_tags: {weight: 1}}"], 1, 0),
    ],
)
def test_an_evaluation_that_chooses_no_checkpoint_takes_no_problem_away(
    overrides, processes, number
):
    """Nor does it decide when a checkpoint is saved, or which weights a run ends with."""
    overrides = [*overrides, "grpo.num_iterations=3"]
    recipe = load_recipe("recipes/tiny-arithmetic.yaml", overrides, processes=processes)
    rows = [{"problem": str(i)} for i in range(recipe.data.validation)]
    assert share_validation(recipe, rows) == (rows[:number], rows)
    grpo = recipe.settings["grpo"]
    assert (grpo["eval_strategy"] == "steps") == (number > 0)
    assert not grpo["load_best_model_at_end"] and grpo["save_steps"] == 51
    if number:
        assert number % (grpo["per_device_eval_batch_size"] * processes) == 0


@cases(__file__, "processes_share_a_step")
def test_processes_share_a_step(section, processes, values, shared):
    """As many rows as one process has, or the numbers that fit."""
    messages = [text for _, text in rules.broken({section: values}, processes=processes)]
    refusals = [text for text in messages if "cannot share a step" in text]
    split = configs.shared(section, values, processes)
    if isinstance(shared, str):
        assert shared in refusals[0] and split is None
        return
    assert (split, refusals) == (shared, [])
    recipe = load_recipe("recipes/tiny-arithmetic.yaml")
    recipe = dataclasses.replace(recipe, processes=processes, **{section: values})
    assert recipe.settings.arguments(section).items() >= shared.items()


def test_after_whole_updates_a_cycle_has_ended_in_every_epoch():
    """Against the updates as transformers makes them, the last of an epoch being shorter. All else
    is refused."""
    for accumulated, steps, iterations in itertools.product(range(1, 7), range(1, 7), range(1, 4)):
        section = {"gradient_accumulation_steps": accumulated, "steps_per_generation": steps}
        section |= {"num_iterations": iterations, "per_device_train_batch_size": 8}
        cycle, whole = generation(section, 1)[2:]
        inside = False
        for batches in range(3, 8):
            epoch = batches * cycle
            updates = [*range(accumulated, epoch, accumulated), epoch]
            ends = [n * epoch + each for n in range(3) for each in updates]
            inside |= any(end % cycle for end in ends[whole - 1 :: whole])
        refused = [keys for keys, _ in rules.broken({"grpo": section})]
        assert (("grpo", "gradient_accumulation_steps") in refused) == inside, section
