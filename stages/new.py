"""Writes a recipe for somebody's own data: a few lines on top of another recipe, each of which can
be changed afterwards.

    make new RECIPE=physics DATA=physics.csv BASE=qwen3-0.6b-lora REWARD=mine.py

It says what it took and why, and how three golds are read.
"""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

from console.faults import RecipeError, nearest_or_all
from console.terminal import make_line, quiet_libraries, say
from data import SETS, imports
from data.files import FILE_TYPES, DataError
from data.guess import Guess, guess, rows_of, without_body
from data.own import at
from data.problems import HUB_ADDRESS, HUB_CONFIG, data_set
from schema.conditions import FORMAT, TRUTH
from schema.recipe import Recipe, load_recipe
from stages.recipes import header
from training.problem_sets import train_and_validation

RECIPES = Path("recipes")
EXAMPLE = "make new RECIPE=physics DATA=physics.csv BASE=qwen3-0.6b-lora"
NAME = r"\w[\w.-]{0,59}"
PLAIN = re.compile(r"(?:[^\W\d]|[.~]{0,2}/)[\w./-]*")  # as YAML reads a text without quotes
VALUES = ("null", "true", "false")  # which are none in YAML


def main(
    recipe: str | None = None,
    data: str | None = None,
    base: str = "qwen3-0.6b-lora",
    reward: str | None = None,
):
    """Write a recipe that trains a base recipe's model on somebody's own data.

    Args:
        recipe: its name; by default the data's.
        data: a file, a folder, a set of the Hub, which may be `name:config`, or a function.
        base: the name of the recipe that it builds on.
        reward: a Python file of this working tree, or a function in it, that pays too.
    """
    if not data:
        raise RecipeError([f"DATA is missing: name your file or data set, as {EXAMPLE}"])
    path = _new_path(recipe, data)
    base = _name_of(base)
    base_recipe = _base_recipe(base)
    rewards = _rewards(base_recipe, reward)
    name, config, guessed, decimals = _read(data)
    has_reasoning = not guessed.columns or "reasoning" in guessed.columns
    entry = _entry(name, config, without_body(guessed.columns))
    text = _text(path.stem, base_recipe, entry, has_reasoning, rewards, decimals)
    path.write_text(text, encoding="utf-8")
    try:
        written = load_recipe(path)
        train, _ = train_and_validation(written)
    except RecipeError as error:
        path.unlink()
        # Their places are in a file that is not there.
        raise RecipeError([fault.message for fault in error.faults]) from None
    _say_columns(name, guessed, base_recipe, rewards)
    _say_golds(train, written)
    say(f"\nwrote {path}:\n\n{text}")
    say(f"next: {make_line('check', RECIPE=path.stem)}")


def _name_of(recipe: str) -> str:
    """The name of a recipe that may be named by its file: `recipes/mine.yaml` is `mine`."""
    path = Path(recipe)
    if path.suffix == ".yaml" and path.parent in (Path(), RECIPES):
        return path.stem
    return recipe


def _new_path(recipe: str | None, data: str) -> Path:
    """The file to write. Raises RecipeError where it is there already, or has no name of a
    recipe."""
    stem = Path(data.rstrip("/").partition(":")[0]).name.partition(".")[0]
    name = _name_of(recipe or re.sub(r"[^\w-]+", "-", stem))
    if not re.fullmatch(NAME, name):
        message = f"RECIPE={recipe or name}: a name of letters, digits, - and _, as physics"
        raise RecipeError([message])
    path = RECIPES / f"{name}.yaml"
    if path.exists():
        free = next(n for n in range(2, 1000) if not (RECIPES / f"{name}-{n}.yaml").exists())
        message = f"{path} is there already: RECIPE={name}-{free} is free, or move the file away"
        raise RecipeError([message])
    return path


def _base_recipe(base: str) -> Recipe:
    """The recipe to build on. Raises RecipeError where there is none of that name."""
    path = RECIPES / f"{base}.yaml"
    if not path.is_file():
        names = sorted(file.stem for file in RECIPES.glob("*.yaml"))
        raise RecipeError([f"BASE={base}: there is no {path}{nearest_or_all(base, names)}"])
    return load_recipe(path)


def _rewards(base: Recipe, reward: str | None) -> dict[str, float | None]:
    """The weight of each reward of the new recipe: the base's for correct answers and their format,
    the user's own, and None for others of the base, which may judge its own problems alone."""
    weights: dict[str, float | None] = {"correct_answer": 1.0}
    for name, weight in base.weights.items():
        weights[name] = weight if name in (*TRUTH, *FORMAT) else None
    if reward:
        for name in _functions(reward):
            weights[name] = 1.0
    return weights


def _functions(reward: str) -> list[str]:
    """The dotted paths of the rewards in a Python file. Raises RecipeError where it has none."""
    file = imports.ROOT / reward
    only = None
    if file.suffix != ".py" and not file.exists():  # as in a recipe, mine.short_proofs
        module, _, only = reward.rpartition(".")
        file = imports.ROOT.joinpath(*module.split(".")).with_suffix(".py") if module else file
    if not file.is_file():
        message = f"REWARD={reward}: there is no file {file}: write a function as in"
        raise RecipeError([f"{message} docs/rewards.md, and name its file"])
    if not imports.in_working_tree(file):
        message = f"a recipe may run only Python files inside this working tree, {imports.ROOT}"
        raise RecipeError([f"REWARD={reward}: {message}: copy it there"])
    try:
        tree = ast.parse(file.read_bytes())
    except (SyntaxError, ValueError) as error:
        raise RecipeError([f"REWARD={reward}: {file} is no Python: {error}"]) from None
    module = ".".join(file.resolve().relative_to(imports.ROOT).with_suffix("").parts)
    names = []
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            parameters = [argument.arg for argument in node.args.args + node.args.kwonlyargs]
            if "completions" in parameters and only in (None, node.name):
                names.append(f"{module}.{node.name}")
    if not names:
        absent = f"no function {only}" if only else "no function"
        message = f"{file} has {absent} that takes `completions`: def close(completions, solution,"
        raise RecipeError([f"REWARD={reward}: {message} **columns) returns a score for each"])
    return names


def _read(data: str) -> tuple[str, str | None, Guess, bool]:
    """The name of a data set, its configuration on the Hub where the user named one, the columns
    that are taken, and whether a tenth of the answers are decimals.

    Raises:
        RecipeError: it cannot be used.
    """
    name, config = data, None
    match = HUB_ADDRESS.fullmatch(data) or HUB_CONFIG.fullmatch(data)
    if match and not Path(data).exists():
        name, config = match.groups()
    try:
        function = data_set(name)
        rows = rows_of(function, name, config)
        guessed = Guess({}, {}) if rows is None else guess(name, rows)
    except LookupError:
        raise RecipeError([f"DATA={data}: unknown{nearest_or_all(name, sorted(SETS))}"]) from None
    except (ImportError, DataError) as error:
        message = str(error)
        if name not in message:
            message = f"{name}: {message}"
        raise RecipeError([f"DATA={data}: {message}" if data != name else message]) from None
    golds = [str(at(row, guessed.columns.get("answer", ""))) for row in rows or []]
    decimals = sum(re.search(r"\d\.\d", gold) is not None for gold in golds)
    return name, config, guessed, decimals > len(golds) / 10


def _entry(name: str, config: str | None, columns: dict[str, str]) -> str:
    """The data set as `data.train` names it."""
    arguments: dict[str, str | dict] = {}
    if config:
        arguments["config"] = config
    if columns:
        arguments["columns"] = columns
    if not arguments:
        return _yaml(name)
    return f"{_yaml(name)}: {_yaml(arguments)}"


def _text(
    stem: str, base: Recipe, entry: str, has_reasoning: bool, rewards: dict, decimals: bool
) -> str:
    """The recipe as it is written."""
    base_text = (RECIPES / f"{base.name}.yaml").read_text("utf-8")
    needs = header(base_text)[1].get("needs", "see its base")
    lines = [
        f"# {stem} on {base.name}; `make new` wrote it. What it guessed can be changed here.",
        f"# Run      make check RECIPE={stem} && make grpo RECIPE={stem}",
        f"# Needs    {needs}",
        "# Reaches  not yet run",
        f"base: {base.name}.yaml",
        "data:",
        f"  train: [{entry}]",
    ]
    if base.data.validation is not None:
        lines.append("  validation: null   # a fifth is held out, at most 500")
    for key in ("worked", "pass_rate"):
        if getattr(base.data, key) is not None:
            lines.append(f"  {key}: null   # the base's is of its own problems")
    lines += ["rewards:", *_reward_lines(rewards, decimals)]
    if base.sft is not None and base.data.rejection_sampling is None and not has_reasoning:
        lines.append("sft: null   # no column has worked solutions to begin with")
    lines.append("evaluate:")
    lines.append("  benchmarks: []   # a file of a test that you have, or the base's")
    if base.evaluate.checkpoint_problems:  # 0 keeps the last checkpoint
        lines.append("  checkpoint_problems: null   # half of data.validation, at most 192")
    return "\n".join(lines) + "\n"


def _reward_lines(rewards: dict[str, float | None], decimals: bool) -> Iterator[str]:
    if decimals:
        yield "  # {weight: 1.0, tolerance: 0.01} also pays a number within a hundredth of its gold"
    for name, weight in rewards.items():
        if weight is None:
            yield f"  {_yaml(name)}: null   # the base's, for its own problems"
        else:
            yield f"  {_yaml(name)}: {{weight: {weight}}}"


def _yaml(value: str | dict) -> str:
    """A text, or a mapping of texts, in YAML on one line."""
    if isinstance(value, dict):
        pairs = [f"{_yaml(key)}: {_yaml(item)}" for key, item in value.items()]
        return f"{{{', '.join(pairs)}}}"
    if PLAIN.fullmatch(value) and value.lower() not in VALUES:
        return value
    return json.dumps(value, ensure_ascii=False)


def _say_columns(name: str, guessed: Guess, base: Recipe, rewards: dict[str, float | None]):
    """Say which columns were taken and why, and what pays."""
    for part, column in guessed.columns.items():
        say(f"{part} ← {column} ({guessed.reasons.get(part, 'beside the problem')})")
    if guessed.columns and Path(name).suffix in FILE_TYPES:
        say("if that is wrong, change `columns` in the recipe")
    paid = [f"{weight:g} for {reward}" for reward, weight in rewards.items() if weight]
    say(f"a completion is paid {', '.join(paid)}")
    if base.evaluate.benchmarks:
        say("no benchmark: the base's ask other problems. data.validation is held out of yours")


def _say_golds(train: list[dict], recipe: Recipe):
    """Say how three golds are read, and which cannot be judged."""
    quiet_libraries()

    from evaluation.golds import gold_faults, say_examples, some_golds

    gradable, ungraded = some_golds(train, recipe)
    say_examples(gradable, recipe)
    for fault in gold_faults(gradable, ungraded, recipe):
        say(fault.with_level())
