"""A run that is sick is told so once, with the key that treats it; a healthy one is told
nothing."""

import re
import sys
from pathlib import Path

import pytest
from transformers import TrainerState

from runs.state import RunState, filled
from schema import sections
from schema.configs import EVAL_CORRECT, fields
from schema.configs import ZERO_VARIANCE as FLAT
from schema.recipe import load_recipe
from tests.support import CHAIN, ROOT, copied, read_lines, run_stage
from tests.tables import cases, lacking
from tests.waits import run_command
from training import watch
from training.callbacks import ShowAdvice
from training.watch import CORRECT, NAMES, WINDOW, advice_on

RECIPE = filled({"grpo": {"max_completion_length": 256, "learning_rate": 1e-5}})
RECORDED = Path(__file__).parent / "recorded"
TROUBLE = (ROOT / "docs/trouble.md").read_text(encoding="utf-8")
FORMAT, CUT = "rewards/format_tags/mean", "completions/clipped_ratio"
MISMATCH = "sampling/sampling_logp_difference/mean"
WELL = {"reward": 0.75, CORRECT: 0.5, FORMAT: 1.0, FLAT: 0.4, CUT: 0.1, "entropy": 0.4}
WELL[MISMATCH] = 0.03


def logged(*phases: tuple[int, dict]) -> list[dict]:
    """The lines of phases, each so many lines long, and healthy but for some values; `...` is not
    logged. A line is five steps."""
    history = []
    for lines, changes in phases:
        values = WELL | changes
        logged_values = {key: value for key, value in values.items() if value is not ...}
        for _ in range(lines):
            history.append({"step": 5 * (len(history) + 1)} | logged_values)
    return history


def told(history: list[dict], recipe: dict = RECIPE) -> list[tuple[int, str]]:
    return [(each.step, each.rule) for each in advice_on(history, recipe)]


def values_of(row: dict) -> dict:
    """The values of a row of a table: `correct` and `flat` stand for their metrics, `judged` for so
    many correct answers of so many, `missing` for a value that is not logged."""
    values = {}
    for name, value in row.items():
        if name == "judged":
            value = "1" * value[0] + "0" * (value[1] - value[0])
        key = {"correct": CORRECT, "flat": FLAT, "cut": CUT, "judged": EVAL_CORRECT}.get(name, name)
        values[key] = ... if value == "missing" else value
    return values


def made(phases: list) -> list[dict]:
    return logged(*[(lines, values_of(row)) for lines, row in phases])


@cases(__file__, "sick")
def test_a_sickness_is_told_once_where_it_is_clear(rule, values, step, names):
    """Where the mean of eight lines is clear: with three of them far off, with five that are not so
    far, or with all eight where none may be healthy."""
    history = made([(20, {}), (20, values), (30, {}), (20, values)])
    assert told(history) == [(step, rule)]
    (advice,) = advice_on(history, RECIPE)
    assert "\n" not in advice.message
    assert lacking(names, advice.message) == []


@cases(__file__, "starts")
def test_at_its_start_a_run_tells_its_policy_from_its_problems(phases, advice):
    assert [list(each) for each in told(made(phases))] == advice


@pytest.mark.parametrize("key", [key for key in WELL if key != "reward"])
@pytest.mark.parametrize("value", [-1e6, 0.0, 1e6, float("nan"), float("inf"), None])
def test_a_single_line_says_nothing(key, value):
    assert told(logged((20, {}), (1, {key: value}), (20, {}))) == []


@pytest.mark.parametrize(
    "values", [{}, {CORRECT: 0.01, FORMAT: 0.3}, {FLAT: 0.55}, {CUT: 0.25}, {CORRECT: 0.95}]
)
def test_a_healthy_run_is_told_nothing(values):
    assert told(logged((40, values))) == []


@pytest.mark.parametrize("missing", list(WELL))
def test_a_run_that_does_not_log_a_metric_is_not_judged_by_it(missing):
    """Without vLLM there is no difference; a reward may be absent or of the user's own."""
    sick = {"entropy": 0.004, CORRECT: 0.01, "reward": 0.26, FORMAT: None, FLAT: 1.0, CUT: 0.6}
    sick |= {"rewards/f/mean": 0.0, "rewards/f/std": 0.0, MISMATCH: 0.09}
    history = logged((40, sick | {missing: ...}))
    assert told(history) == told([line | {missing: None} for line in history]) != []


@cases(__file__, "healthy")
def test_where_the_same_values_are_healthy(rule, values, recipe):
    history = made([(20, {}), (20, values)])
    assert rule not in [name for _, name in told(history, {"grpo": RECIPE["grpo"] | recipe})]


def test_lines_of_single_passes_are_judged_too():
    """Of two passes over a batch, each logged: only the first has what was sampled."""
    history = logged((30, {}))
    for first, second in zip(history[::2], history[1::2], strict=True):
        first[CUT] = 0.6
        for key in ("reward", CORRECT, FORMAT, FLAT, CUT, MISMATCH):
            del second[key]
    assert told(history) == [(75, "truncated")]


def test_a_fall_of_the_entropy_is_told_though_it_is_steep():
    """The fall is no noise about a level."""
    history = logged((20, {}), (20, {}))
    for i, line in enumerate(history[20:]):
        line["entropy"] = 0.4 / 2**i
    assert told(history) == [(150, "entropy collapse")]


@cases(__file__, "truncated_sampling")
def test_truncated_sampling_is_named_where_it_explains_the_difference(recipe, words):
    (found,) = advice_on(logged((20, {MISMATCH: 0.09})), filled({"grpo": recipe}))
    assert words in found.message


@pytest.mark.parametrize("name", ["tiny-arithmetic", "with-a-reference"])
def test_recorded_healthy_runs_are_told_nothing(name):
    """240 steps of recipes/tiny-arithmetic.yaml, seed 1; and of it with `beta` and `temperature:
    0.8`, seed 3."""
    history = read_lines(RECORDED / f"{name}.jsonl")
    assert len(history) == 48 and told(history) == []


def test_a_recorded_run_that_has_learned_its_problems_is_told_so():
    """Seed 5 of the same, which ends with 95 % correct: nothing is left to learn from most
    groups."""
    (found,) = advice_on(read_lines(RECORDED / "too-easy.jsonl"), RECIPE)
    assert (found.step, found.rule) == (180, "zero variance") and "too easy" in found.message


@cases(__file__, "ends")
def test_a_dead_or_falling_run_speaks_at_its_end_however_short_it_was(phases, rule, words):
    history = made(phases)
    for recipe in (RECIPE, filled({"grpo": {"warmup_steps": 1000}})):
        assert advice_on(history, recipe) == []
        (advice,) = advice_on(history, recipe, ended=True)
        assert advice.rule == rule and words in advice.message


@cases(__file__, "silent_ends")
def test_a_short_healthy_run_ends_in_silence(phases):
    assert advice_on(made(phases), RECIPE, ended=True) == []


@pytest.mark.parametrize("name", ["tiny-arithmetic", "with-a-reference", "too-easy"])
def test_what_recorded_runs_were_told_is_not_more_at_their_end(name):
    history = read_lines(RECORDED / f"{name}.jsonl")
    assert advice_on(history, RECIPE, ended=True) == advice_on(history, RECIPE)


def said_by(history: list[dict], known: int, capsys) -> list[str]:
    """What a run says that starts with the history of a checkpoint after so many lines."""
    advise = ShowAdvice(load_recipe("recipes/tiny-arithmetic.yaml"))
    state = TrainerState(log_history=history[:known])
    for line in history[known:]:
        state.log_history.append(line)
        advise.on_log(None, state, None)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("killed", range(20, 40))
def test_killed_and_resumed_a_run_says_nothing_twice(killed, capsys):
    history = logged((20, {}), (20, {CUT: 0.6, "entropy": 0.004}))
    whole = said_by(history, 0, capsys)
    assert [line.split(": ")[1] for line in whole] == ["step 125", "step 140"]
    assert "(now 48)" in whole[0]
    assert said_by(history[:killed], 0, capsys) + said_by(history, killed, capsys) == whole


def test_a_recipe_and_its_file_say_the_same():
    recipe = load_recipe("recipes/qwen-math-lora.yaml")
    history = logged((40, {CUT: 0.6, MISMATCH: 0.09}))
    assert advice_on(history, recipe) == advice_on(history, recipe.resolved()) != []


def test_every_key_that_advice_names_is_one_of_a_recipe():
    keys = {(section, key) for section in ("grpo", "sft") for key in fields(section)}
    own = {"data": sections.Data, "evaluate": sections.Evaluate, "model": sections.Model}
    keys |= {(name, key) for name, section in own.items() for key in section.__dataclass_fields__}
    text = Path(watch.__file__).read_text(encoding="utf-8") + TROUBLE
    key = r"\b(grpo|sft|data|evaluate|model)\.([a-z]\w+)"
    named = set(re.findall(key, re.sub(r"\]\(\S+\)", "", text)))
    assert len(named) > 12 and named - keys == set()


def test_a_page_can_ask_without_waiting_for_torch():
    code = "import sys, training.watch; "
    code += "sys.exit(bool({'torch', 'transformers', 'trl'} & set(sys.modules)))"
    run_command([sys.executable, "-c", code], cwd=ROOT, check=True)


THRESHOLDS = {  # as docs/trouble.md writes them
    "alike": f"below {watch.LOW_ENTROPY:g}, above {watch.MOST_GROUPS:.0%}, {watch.BOTH:.0%} of each"
    f" kind; or below {2 * watch.LOW_ENTROPY:g} and growing, above {watch.ALIKE:.0%}",
    "zero variance": f"above {watch.MOST_GROUPS:.0%}",
    "truncated": f"above {watch.TRUNCATED:.0%}",
    "entropy collapse": f"below {watch.ENTROPY:.0%} of the first {watch.START} lines' mean, and"
    f" below {watch.SOLVED:.0%} correct",
    "format only": f"above {watch.FORMAT_LEARNED:.0%}, below {watch.NOT_LEARNED:.0%}",
    "sampler mismatch": f"above {watch.MISMATCH:g}",
}


def test_the_table_has_every_rule_with_its_threshold():
    table = {}
    for row in re.findall(r"^\|.*\|$", TROUBLE, re.M):
        cells = [cell.strip() for cell in row.strip("|").split(" | ")]
        if cells[0] in NAMES:
            table[cells[0]] = cells[2]
    assert tuple(table) == NAMES == tuple(THRESHOLDS)
    assert {rule: table[rule] for rule in NAMES if THRESHOLDS[rule] not in table[rule]} == {}
    assert f"last {WINDOW} logged lines" in TROUBLE


def test_a_real_run_is_told(chain, tmp_path):
    """Four tokens are no room for an answer."""
    copied(chain, tmp_path, "sft")
    overrides = [f"output_dir={tmp_path}", *CHAIN, "grpo.max_steps=10"]
    overrides += ["grpo.max_completion_length=4"]
    said = run_stage("grpo", "recipes/tiny-arithmetic.yaml", *overrides).stdout
    history = read_lines(tmp_path / "grpo/metrics.jsonl")
    found = advice_on(history, RunState.read(tmp_path / "grpo").recipe)
    assert told(history) == [(8, "zero variance"), (8, "truncated")]
    suffix = "; a run with other settings needs another output_dir\n"
    assert [said.count(f"{advice}{suffix}") for advice in found] == [1, 1]
