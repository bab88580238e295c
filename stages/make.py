"""What a target of make does: the stages that it runs one after the other, up to the first that
fails.

make hands its options on in the environment, because a run's folder may be called `$(shell …)` or
hold quotes: here they become the words of a command line, which no shell reads. The last word names
those that stand on make's own command line.

    RECIPE=tiny-arithmetic GPU=24 python -m stages make check "RECIPE GPU"
"""

import contextlib
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import psutil

from console.faults import (
    EXIT_CODES,
    TOO_FEW_CORRECT,
    RecipeError,
    ended_by_signal,
    on_signals,
)
from console.terminal import make_option
from schema.stages import CHAIN
from schema.stages import STAGES as TRAINED
from stages.table import STAGES, Option, Stage

MISTAKE = RecipeError.exit_code
DEFAULT_RECIPE = "tiny-arithmetic"
RATE_SEED = 101  # none of those of `make seeds`, which then judge the chosen rate afresh
# Names with commas between them. Other signs beside a comma are those of one odd name.
PLAIN_LIST = re.compile(r"[\w./-]+(,+[\w./-]*)+")


def main(words: list[str]):
    """Run a target of make, and exit with the code of the stage that ended it."""
    target, *options = words
    if not os.environ.get("ACCELERATE"):
        # Without a launcher, one GPU is used, however many there are.
        os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")
    # After SIGTERM, torch's launcher would kill its ranks in 30 s, less than a step of a large
    # model takes.
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "600")
    # Of the stages of a chain only the last names the next step.
    os.environ["MAKE_TARGET"] = CHAIN if target in ("seeds", "tune", "methods") else target
    running = Running()
    for command in commands(target, as_chosen(os.environ, " ".join(options).split())):
        code = running.code_of(command)
        if code in (MISTAKE, TOO_FEW_CORRECT):
            silence_make()
        if code:
            sys.exit(code)


# The options that the environment may set too; a job script does.
FROM_ENVIRONMENT = ("RECIPE", "ARGS", "ACCELERATE", "PROCESSES")


def as_chosen(environment: Mapping[str, str], options: list[str]) -> dict[str, str]:
    """The environment without the options of stages that make's command line does not set: a GPU or
    a FILE there may be another program's.

    Args:
        options: the names of those that it sets.
    """
    of_stages = set()
    for stage in STAGES.values():
        of_stages |= {option.variable for option in stage.options}
    unset = of_stages.difference(options, FROM_ENVIRONMENT)
    return {name: value for name, value in environment.items() if name not in unset}


def silence_make():
    """On a terminal, end make without a word: below the message of a mistake it would write `***
    [Makefile:35: grpo] Error 2`, which a newcomer reads for the mistake. It then exits with 141,
    and a script's make with 2 as ever. make 4.4 ignores the signal, and writes its line."""
    parent = psutil.Process(os.getppid())
    if sys.stderr.isatty() and parent.name() in ("make", "gmake"):
        parent.send_signal(signal.SIGPIPE)


class Running:
    """The stage that runs now. A signal is sent on to it, and then no other begins."""

    def __init__(self):
        self.process: subprocess.Popen | None = None
        self.caught: int | None = None
        on_signals(self._pass_on)

    def _pass_on(self, number: int, frame: object):
        self.caught = number
        # A terminal sends Ctrl-C to the stage itself.
        if self.process and number != signal.SIGINT:
            self.process.send_signal(number)

    def code_of(self, command: list[str]) -> int:
        """Run `python -m stages` with these words, and return its exit code, as a shell would."""
        self.process = subprocess.Popen([sys.executable, "-m", "stages", *command])
        if self.caught:  # while it was started
            self.process.send_signal(self.caught)
        code = self.process.wait()
        self.process = None
        if self.caught and not code:
            return EXIT_CODES[self.caught]
        if code < 0:
            print(ended_by_signal(command[0], -code), file=sys.stderr)
            return 128 - code
        return code


def commands(target: str, environment: Mapping[str, str]) -> Iterator[list[str]]:
    """The words after `python -m stages` of each stage that a target runs.

    Raises:
        RecipeError: an option holds what it cannot.
    """
    stage = STAGES[target]
    recipe = recipe_words(environment) if stage.takes_recipe else []
    if target == "seeds":
        yield from _seeds(recipe, environment)
    elif target == "tune":
        yield from _tune(recipe, environment)
    else:
        yield from _chain(stage, recipe, environment)


def recipe_words(environment: Mapping[str, str]) -> list[str]:
    """The recipe's file, and what ARGS holds."""
    recipe = environment.get("RECIPE", DEFAULT_RECIPE)
    if "/" not in recipe:
        recipe = f"recipes/{recipe}.yaml"
    return [recipe, *_split("ARGS", environment)]


def _split(variable: str, environment: Mapping[str, str]) -> list[str]:
    """The words of an option that may hold several, such as `a 'b c'`."""
    try:
        return shlex.split(environment.get(variable, ""))
    except ValueError as error:
        raise RecipeError([f"{variable}: a quote is not closed ({error})"]) from None


def _several(variable: str, words: list[str]) -> list[str]:
    """The values of an option that may hold several. Raises RecipeError where commas are between
    them, as in `RUNS=a,b`."""
    for word in words:
        if PLAIN_LIST.fullmatch(word) and not Path(word).exists():
            raise RecipeError(
                [
                    f"{variable}={word}: a space separates several: write "
                    + make_option(variable, re.split(",+", ",".join(words).strip(",")))
                ]
            )
    return words


def _chain(stage: Stage, recipe: list[str], environment: Mapping[str, str]) -> Iterator[list[str]]:
    """The check, and then the stages of a target. Raises RecipeError where none takes a word of
    ARGS: the check takes only overrides, and would let it pass."""
    _refuse_unread(stage, recipe[1:])
    if stage.checks is not None:
        overrides = [word for word in recipe if "=" in word and not word.startswith("-")]
        yield ["check", recipe[0], *overrides, "--fast", "--stages", *stage.checks]
    words = [*recipe, *_option_words(stage, environment)]
    for step in stage.chain or (stage.name,):
        name, *flags = step.split()
        yield [*launcher(name, environment), name, *words, *flags]


def _refuse_unread(stage: Stage, words: list[str]):
    options = {}
    for step in stage.chain or (stage.name,):
        for option in STAGES[step.split()[0]].options:
            options[option.name] = option
    remaining = iter(words)
    for word in remaining:
        name, equals, value = word.partition("=")
        matching = [
            option for option in options if name.startswith("--") and option.startswith(name)
        ]
        if matching:
            if not equals and options[matching[0]].kind != "flag":
                next(remaining, None)  # its value
        elif re.fullmatch(r"--[a-z][\w.-]*", name) or (
            not equals and re.fullmatch(r"[a-z_]+(\.\w+)+", word)
        ):
            key = name.lstrip("-").replace("-", "_")
            if "." not in key:
                key = f"{stage.name if stage.name in TRAINED else CHAIN}.{key}"
            line = make_option("ARGS", [f"{key}={value or next(remaining, '…')}"])
            raise RecipeError([f"ARGS: {word} is no override of a recipe's key: write {line}"])


def _option_words(stage: Stage, environment: Mapping[str, str]) -> list[str]:
    """The stage's own options that the user gave to make."""
    words = []
    for option in stage.options:
        if environment.get(option.variable):
            words += _words_of(option, environment)
    return words


def _words_of(option: Option, environment: Mapping[str, str]) -> list[str]:
    if option.kind == "flag":
        return [option.name]
    if not option.name.startswith("-"):
        return _several(option.variable, _split(option.variable, environment))
    values = [environment[option.variable]]
    if option.kind == "repeated":
        values = _several(option.variable, _split(option.variable, environment))
    # A model's name may begin with a dash.
    return [f"{option.name}={value}" for value in values]


def launcher(name: str, environment: Mapping[str, str]) -> list[str]:
    """What starts a stage that trains, where the user named a file of accelerate_configs/."""
    accelerate = environment.get("ACCELERATE")
    if not accelerate or name not in TRAINED:
        return []
    words = ["launch", f"--config_file=accelerate_configs/{accelerate}.yaml"]
    if environment.get("PROCESSES"):
        words.append(f"--num_processes={environment['PROCESSES']}")
    return [*words, "-m", "stages"]


def _seeds(recipe: list[str], environment: Mapping[str, str]) -> Iterator[list[str]]:
    """The chain with each seed, in a folder of its own, between the check and the report."""
    seeds = _value("seeds", "SEEDS", environment)
    yield ["seeds", *recipe, "--check", f"--seeds={seeds}"]
    for seed in seeds.split():
        _announce(f"seeds: {seed} of {seeds}")
        folder = f"outputs/{Path(recipe[0]).stem}/seed-{seed}"
        words = [*recipe, f"seed={seed}", f"output_dir={folder}"]
        yield from _chain(STAGES[CHAIN], words, environment)
    yield ["seeds", *recipe, f"--seeds={seeds}"]


def _tune(recipe: list[str], environment: Mapping[str, str]) -> Iterator[list[str]]:
    """The chain at each learning rate, in a folder of its own, then their comparison."""
    rates = _value("tune", "RATES", environment)
    yield ["seeds", *recipe, "--check", f"--seeds={RATE_SEED}"]
    if not re.fullmatch("[0-9.e -]+", rates):
        raise RecipeError(['RATES: expected learning rates, as RATES="2e-5 1e-4"'])
    folders = []
    for rate in rates.split():
        _announce(f"tune: {rate} of {rates}")
        folders.append(f"outputs/{Path(recipe[0]).stem}/rate-{rate}")
        words = [f"seed={RATE_SEED}", f"grpo.learning_rate={rate}", f"output_dir={folders[-1]}"]
        yield from _chain(STAGES[CHAIN], [*recipe, *words], environment)
    yield ["compare", *folders]
    name = environment.get("RECIPE", DEFAULT_RECIPE)
    _announce(f"next: make seeds RECIPE={name} ARGS=grpo.learning_rate=… (the best of them)")


def _value(name: str, variable: str, environment: Mapping[str, str]) -> str:
    """The value of an option of make that holds several, or the stage's own default."""
    [option] = [option for option in STAGES[name].options if option.variable == variable]
    value = environment.get(variable, " ".join(option.default))
    _several(variable, value.split())
    return value


def _announce(text: str):
    """Print a line, unless nobody reads any more: that must not end the training."""
    with contextlib.suppress(OSError):
        print(text, flush=True)
