"""The table of what a recipe's keys may be: complete, correct about the libraries, and true: what
it lets pass trains."""

import copy
import dataclasses
import inspect
import io
import re
import shlex
from typing import get_type_hints

import pytest
import trl.trainer.grpo_trainer as upstream
from accelerate.state import AcceleratorState
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from transformers import SchedulerType
from transformers.trainer_callback import DefaultFlowCallback
from transformers.training_args import OptimizerNames

from console.faults import RecipeError, RunStopped
from data.files import DataError
from schema import configs, refused_keys, values
from schema.configs import SECTIONS
from schema.recipe import load_recipe
from schema.refused_keys import reserved
from schema.sections import OWN_SECTIONS
from schema.value_types import type_fault, words_of
from schema.values import TYPES
from stages import grpo, sft
from tests import library_fields
from tests.support import COUNTED
from tests.tables import rows, yaml_text

SOURCE = inspect.getsource(upstream)


@pytest.mark.parametrize("section", SECTIONS)
def test_every_field_of_a_library_is_known(section):
    """One that a library adds is a number, a switch, or refused; for one that it drops a line of
    ours goes."""
    ruled, fields = set(TYPES[section]), configs.fields(section)
    refused = set(refused_keys.ONLY_ELSEWHERE.get(section, ()))
    assert (ruled | refused) - fields.keys() == set(), "gone from the library"
    assert ruled & reserved(section).keys() == set()


def test_every_refused_field_is_a_librarys():
    fields = [configs.fields(section) for section in SECTIONS]
    refused = {*refused_keys.REASONS, *refused_keys.NOT_OFFERED.split()}
    assert refused - set().union(*fields) == set(), "gone from the library"


def test_a_field_that_may_name_a_file_or_code_is_refused_without_a_line_of_its_own():
    assert configs.type_of("grpo", "new", "dict | str | None") is None
    assert configs.type_of("grpo", "new", "list[int] | None") is None
    assert type_fault(configs.type_of("grpo", "new", "int | None"), -1)
    assert type_fault(configs.type_of("grpo", "new", "float"), float("nan"))
    assert "dataset_text_field" in reserved("sft")


def test_the_file_of_fields_is_what_the_classes_have():
    text = configs.LIBRARY_FIELDS.read_text()
    assert text == library_fields.text(), "python -m tests.library_fields"


@pytest.mark.parametrize("section", OWN_SECTIONS)
def test_every_key_of_our_own_is_known(section):
    assert get_type_hints(OWN_SECTIONS[section]).keys() == TYPES[section].keys()


# What such a name or such a help text may mean: that it uploads, downloads code, opens a port,
# takes a token, imports what it names, starts processes, or reads and writes where it likes.
SUSPECT = re.compile(
    r"hub|token(?!s|ized|izer)|url|host|(?<!im)port(?!ion)|push|upload|space|bucket|repo(?!r)|path|dir\b|_dir|file|kernel|"
    r"remote|import(?!ance)|module|callback|plugin|backend|worker|num_proc|tracker|report|server|template|compile|project",
    re.IGNORECASE,
)
# Fields of such a name that a recipe may set, and why that is safe.
HARMLESS = {row["key"] for row in rows(__file__, "harmless")}


@pytest.mark.parametrize("section", SECTIONS)
def test_a_field_that_looks_as_if_it_reached_out_is_reserved(section):
    reaching = {key for key in configs.fields(section) if SUSPECT.search(key)}
    assert reaching - reserved(section).keys() - HARMLESS == set()


def test_the_names_are_the_libraries():
    compared = re.findall(r"loss_type (?:==|!=|in|not in) (\[[^\]]*\]|\"\w+\")", SOURCE)
    losses = set(re.findall(r"\"(\w+)\"", " ".join(compared)))
    assert losses == set(words_of(TYPES["grpo"]["loss_type"]).split(", "))
    assert set(configs.FREE_KEYS) <= configs.fields("grpo").keys()
    assert set(values.OPTIMIZERS) <= {each.value for each in OptimizerNames}
    expected = {"reduce_lr_on_plateau", "greedy"}
    assert {each.value for each in SchedulerType} - set(values.SCHEDULES.split()) == expected


@pytest.mark.parametrize("name", refused_keys.GONE)
def test_a_name_that_is_gone_is_gone(name):
    assert not any(name in configs.fields(section) for section in ("sft", "grpo", "adapter"))


@pytest.mark.parametrize("quantization", ["null", "{load_in_4bit: true}"])
def test_the_advice_on_faster_sampling_leads_out(quantization):
    """Each is what the last one's message says to do, and the last is accepted."""
    ways = [("use_transformers_continuous_batching", "leave it out or, without quantization, set")]
    if quantization != "null":
        ways.append(("use_vllm", "set it to false, or remove the section `quantization`"))
    keys = ["model.dtype=bfloat16", "adapter={r: 4}", f"quantization={quantization}"]
    for key, advice in ways:
        with pytest.raises(RecipeError, match=re.escape(advice)):
            load_recipe("recipes/tiny-arithmetic.yaml", [*keys, f"grpo.{key}=true"])
    accepted = f"grpo.use_vllm={str(quantization == 'null').lower()}"
    load_recipe("recipes/tiny-arithmetic.yaml", [*keys, accepted])


# Hostile values -----------------------------------------------------------------------------------

RECIPE = yaml_text(__file__, "recipe")
TREE = YAML(typ="safe", pure=True).load(RECIPE)
HOSTILE = st.one_of(
    *map(st.sampled_from, rows(__file__, "hostile")),
    st.integers(-(10**6), 10**6),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=8),
)
# Of these a large value is no mistake, only more than this machine has.
SIZES = shlex.split("""
    per_device_train_batch_size gradient_accumulation_steps steps_per_generation num_generations r
    generation_batch_size num_iterations per_device_eval_batch_size logging_steps
""")


def keys() -> list[tuple[str, str]]:
    own = [(section, key) for section, kind in OWN_SECTIONS.items() for key in get_type_hints(kind)]
    theirs = [(section, key) for section in SECTIONS for key in configs.fields(section)]
    return [*own, *theirs, ("recipe", "seed"), ("recipe", "output_dir")]


def outcome(folder, section: str, key: str, value: object, run: bool) -> str:
    """`refused`: in a line or more, each with its place. `ran`: a step of what the value is about;
    `sound` where it is not run. All else fails."""
    path = folder / "hostile.yaml"
    name = key if section == "recipe" else f"{section}.{key}"
    out = f"output_dir={folder / 'run'}"
    try:
        recipe = with_value(path, out, section, key, value)
    except RecipeError as error:
        return told(error, name)
    if not run:
        return "sound"
    stage = sft if section == "sft" else grpo
    if stage is grpo:
        recipe = dataclasses.replace(recipe, sft=None)
    try:
        stage.main(recipe)
    except (RecipeError, DataError, RunStopped) as error:
        return told(error, name)
    assert (recipe.stage_dir(stage.__name__.rpartition(".")[2]) / "summary.json").is_file()
    return "ran"


def with_value(path, out: str, section: str, key: str, value: object):
    """The recipe with a value in one place, read from text as a user's is."""
    tree = copy.deepcopy(TREE)
    (tree if section == "recipe" else tree.setdefault(section, {}))[key] = value
    if section == "quantization":
        tree["quantization"].setdefault("load_in_4bit", True)
    if section == "model" and key == "name_or_path":
        tree["model"].pop("build", None)
    text = io.StringIO()
    YAML().dump(tree, text)
    path.write_text(text.getvalue())
    overrides = ["rewards.tests.varied_reward.varied={weight: 0.5}"]
    if key != "output_dir":
        overrides.append(out)
    return load_recipe(path, overrides)


def told(error: Exception, name: str) -> str:
    lines = str(error).splitlines()
    assert lines and all(len(line) < 700 for line in lines), lines
    assert "Traceback" not in str(error)
    assert any(name.rpartition(".")[2] in line or ".yaml" in line for line in lines), lines
    return "refused"


@pytest.fixture
def one_step(monkeypatch):
    """However many steps a recipe asks for, one is taken."""
    after_step = DefaultFlowCallback.on_step_end

    def stop(self, args, state, control, **kwargs):
        control = after_step(self, args, state, control, **kwargs)
        control.should_training_stop = True
        return control

    monkeypatch.setattr(DefaultFlowCallback, "on_step_end", stop)


def try_values(section: str, key: str, tmp_path, examples: int, run: bool):
    seen = set()

    options = {"derandomize": True, "database": None, "deadline": None}

    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), **options)
    @given(HOSTILE)
    def drawn(value):
        if repr(value) in seen or (key in SIZES and isinstance(value, int | float) and value > 8):
            return
        seen.add(repr(value))
        AcceleratorState._reset_state(True)
        folder = tmp_path / str(len(seen))
        folder.mkdir()
        COUNTED[outcome(folder, section, key, value, run)] += 1

    drawn()


@pytest.mark.parametrize(("section", "key"), keys())
def test_a_hostile_value_is_refused_in_a_line_or_sound(section, key, tmp_path):
    try_values(section, key, tmp_path, examples=1 if key in reserved(section) else 4, run=False)


@pytest.mark.slow
@pytest.mark.parametrize(("section", "key"), [each for each in keys() if each[1] in TYPES[each[0]]])
def test_a_hostile_value_is_refused_or_takes_a_step(section, key, one_step, tmp_path):
    try_values(section, key, tmp_path, examples=30, run=True)
