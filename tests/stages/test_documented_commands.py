"""Every command that the documentation shows is one a reader can give; the README's own are run,
shortened."""

import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from dataclasses import fields
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from string import Template

import pytest

from data import prompt
from schema import configs
from schema.sections import OWN_SECTIONS
from schema.text import value_of
from schema.values import OWN_SOLUTIONS, RULES
from stages import split_options
from tests import keys, stage_process
from tests.stages.test_makefile import mark
from tests.support import ACCELERATE, ROOMS, ROOT, SHIPPED, read_recipe, write_lines
from tests.tables import cases
from tests.waits import capture, run_command
from training.tiny_models import built_model

README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PROGRAM = (
    r"(?:[A-Z_]+=\S+ )*(?:make|cp|(?:\.venv/bin/)?accelerate launch|pytest|(?:\.venv/bin/)?python"
    r" -m)[ \n]"
)
# goes on behind \ and inside quotes
IN_A_BLOCK = re.compile(rf'^{PROGRAM}(?:[^"\n\\]|\\\n|"[^"]*")*', re.M)
IN_PROSE = re.compile(rf"`({PROGRAM}[^`]+)`")
MADE = "outputs/tiny-arithmetic"
WORDS = {  # that stand for a reader's own
    "RECIPE=name": "RECIPE=tiny-arithmetic",
    "RECIPE=x": "RECIPE=tiny-arithmetic",
    "RECIPE=mine": "RECIPE=qwen-math-lora",  # of which it is a copy
    "RECIPE=outputs/x/grpo/recipe.yaml": f"RECIPE={MADE}/grpo/recipe.yaml",
    "recipes/x.yaml": "recipes/tiny-arithmetic.yaml",
    "MODEL=path": f"MODEL={MADE}/sft",
    "FILE=outputs/x/eval/gsm8k": f"FILE={MADE}/eval/arithmetic-digits-2",
    "FILE=outputs/x/grpo": f"FILE={MADE}/grpo",
    "EXTRAS=…": "EXTRAS=vllm",
}


def blocks(text: str, language: str = "") -> list[str]:
    return [
        block
        for name, block in re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
        if name == language
    ]


def collected() -> dict[str, str]:
    """Every command, and the file that shows it first."""
    shown, commands = [], {}
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        found = [each for block in blocks(text) for each in IN_A_BLOCK.findall(block)]
        shown += [(each, page.name) for each in found + IN_PROSE.findall(text.replace("```", ""))]
    for path in SHIPPED:
        head = (ROOT / path).read_text(encoding="utf-8")
        found = [
            f"make grpo RECIPE={Path(path).stem} {given}"
            for given in re.findall(r'^# .*(ARGS=".*")', head, re.M)
        ]
        shown += [(each, path) for each in found + re.findall(r"^# Run +(.*)", head, re.M)]
    for text, place in shown:
        for command in " ".join(re.sub(r"\s#\s.*|\\\n", " ", text).split()).split(" && "):
            several = re.match(r"make (\S+(?: \| \S+)+)", command)  # make sft | grpo
            targets = several[1].split(" | ") if several else []
            for each in [f"make {target}{command[several.end() :]}" for target in targets] or [
                command
            ]:
                commands.setdefault(each, place)
    return commands


COMMANDS = collected()


def placed(command: str) -> str:
    return " ".join(WORDS.get(word, word) for word in command.split(" "))


@pytest.fixture(scope="module")
def clone(tmp_path_factory) -> Path:
    """What a reader has cloned, with the marks of an environment that has `dev`."""
    folder = tmp_path_factory.mktemp("clone")
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    for name in (*ROOMS, "accelerate_configs", "recipes", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    mark(folder, "dev")
    return folder


@cache
def targets_of_recipes() -> set[str]:
    """The targets that read ARGS, by the Makefile's own table."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^RUNS_RECIPE := (.*)", makefile, re.M)[1].split()
    return {*targets, *re.findall(r"^READS_(\S+) := \$\(OF_RECIPE\)", makefile, re.M)}


def lines_of(command: str, clone: Path, *overrides: str) -> list[list[str]]:
    """The lines of Python that a `make` command would run, but those that install."""
    if not targets_of_recipes() & {*command.split()}:
        overrides = ()
    words = [word for word in shlex.split(command) if not word.startswith("ARGS=")]
    given = [
        word.removeprefix("ARGS=") for word in shlex.split(command) if word.startswith("ARGS=")
    ]
    words += [f"ARGS={' '.join([*given, shlex.join(overrides)])}"] if given or overrides else []
    words.append(f"PYTHON={sys.executable}")
    done = capture([*words, "-n"], cwd=clone)
    assert done.returncode == 0, done.stderr
    words[1:2] = ["-s", "--eval=handed-on: ; @env -0", "handed-on"]
    environment = capture(words, cwd=clone, check=True).stdout
    values = dict(each.split("=", 1) for each in environment.split("\0") if each)
    lines, handed_on = [], values
    for line in re.findall(
        r"^(?:\S*python -m (?:stages|tests|pytest)|seeds: ).*", done.stdout, re.M
    ):
        if line.startswith(
            "seeds: "
        ):  # whose chain has a make of its own, with more ARGS: see test_makefile.py
            seed, name = line.split()[1], Path(values["RECIPE_FILE"]).stem
            handed_on = values | {
                "ARGS": f"{values['ARGS']} seed={seed} output_dir=outputs/{name}/seed-{seed}"
            }
            continue
        if "stages.seeds" in line:
            handed_on = values
        lines.append(
            split_options([Template(word).safe_substitute(handed_on) for word in shlex.split(line)])
        )
    return lines


def run(clone: Path, module: str, *arguments: str, **environment: str) -> str:
    """What `python -m module` prints in the clone."""
    done = stage_process.run(module, arguments, clone, os.environ | environment)
    actual = done.returncode
    assert actual == 0, f"{module} {arguments}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout


def run_make(clone: Path, command: str, *overrides: str) -> str:
    target = command.split()[1]
    return "".join(
        run(clone, *line[2:], MAKE_TARGET=target) for line in lines_of(command, clone, *overrides)
    )


@cache
def helped(clone: Path, module: str) -> str:
    return run(clone, module, "--help")


def require_well_formed(words: list[str], clone: Path):
    """Asserts that a command's module, options, files and overrides are there."""
    if words[0].endswith("accelerate") or (words[2:3] == ["stages.launch"] and words[3:]):
        from accelerate.commands.launch import launch_command_parser

        launch = launch_command_parser().parse_args(
            words[2:] if words[1] == "launch" else words[3:]
        )
        assert launch.module and (ROOT / launch.config_file).is_file()
        words = ["python", "-m", launch.training_script, *launch.training_script_args]
    module, *arguments = words if words[0] == "pytest" else words[2:]
    assert find_spec(module), module
    if module == "pytest":
        assert all((ROOT / each).is_file() for each in arguments if each.endswith(".py"))
        return
    options = {each.partition("=")[0] for each in arguments if each.startswith("--")}
    if module == "stages.preflight":  # which leaves the options of the stage to the stage
        options -= {"--problems", "--samples"}
    if options or module.startswith("tests."):  # which no test imports
        assert options <= set(re.findall(r"--[\w-]+", helped(clone, module)))
    overrides = [each for each in arguments if re.match(r"[a-z]\w*(\.\w+)*=", each)]
    for recipe in (
        each for each in arguments if each.endswith(".yaml") and not each.startswith(MADE)
    ):
        assert read_recipe(recipe, overrides, check=())[1] == []


def headings(page: Path) -> set[str]:
    """As GitHub names them in links."""
    found = re.findall(r"^#+ (.*)", page.read_text(encoding="utf-8"), re.M)
    return {re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-") for each in found}


@pytest.mark.parametrize(
    "page", [*PAGES, *(ROOT / each for each in SHIPPED)], ids=lambda page: page.name
)
def test_every_link_leads_to_a_heading(page):
    """Of the pages; and of the recipes, which name pages in their first lines."""
    text = page.read_text(encoding="utf-8")
    links = [(page.parent, each) for each in re.findall(r"\]\((?!https?:)([^)\s]+)\)", text)]
    links += [
        (ROOT, each) for each in re.findall(r"\((docs/[\w.#-]+)\)", text) if page.suffix == ".yaml"
    ]
    for folder, link in links:
        file, _, heading = link.partition("#")
        target = folder / file if file else page
        assert target.exists() and (not heading or heading in headings(target)), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_line_is_wider_than_a_screen(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [each for each in lines if len(each) > 120 and not each.startswith("|")] == []


def test_the_page_of_all_keys_is_what_the_schema_makes():
    """Its examples are values that the rules take."""
    page = "\n".join(keys.reference()) + "\n"
    assert (ROOT / "docs/recipe.md").read_text() == page, "python -m tests.keys > docs/recipe.md"
    sections = re.findall(r"^## `([\w.]+)`\n(.*?)(?=^## )", page, re.M | re.S)
    examples = [
        (section, *example)
        for section, text in sections
        for example in re.findall(r"^\| `(\w+)` \|[^|]*\| such as `([^|]+)` \|", text, re.M)
    ]
    assert len(examples) > 10
    for section, key, example in examples:
        rules = OWN_SOLUTIONS if section == "data.own_solutions" else RULES[section]
        assert key not in rules or rules[key].refusal(value_of(example)) is None, (section, key)


def test_a_key_that_a_config_moves_to_is_one_of_a_recipe():
    keys = re.findall(r"^\| `(\w+)\.(\w+)", (ROOT / "docs/migrate.md").read_text(), re.M)
    known = {
        section: {each.name for each in fields(kind)} for section, kind in OWN_SECTIONS.items()
    }
    assert len(keys) > 10
    assert [
        f"{section}.{key}"
        for section, key in keys
        if key not in (known.get(section) or configs.fields(section))
    ] == []


def test_what_stands_at_the_top_of_another_config_is_led_to_our_section():
    rows = re.findall(
        r"^\| `(\w+)[.:].*?\|.*?\|(.*)\|$", (ROOT / "docs/migrate.md").read_text(), re.M
    )
    theirs = {
        name: section
        for section, cells in rows
        for name in re.findall(r"[`(]([a-z]\w+)(?=[`:=])", cells)
    }
    for call in ("load_dataset", "map", "get_peft_model", "from_pretrained"):
        theirs.pop(call, None)
    theirs.pop("model")  # ms-swift's is the name of a section here, which says itself what it takes
    expected = {"model_name_or_path", "base_model", "reward_weights", "lora_target_linear"}
    assert expected <= theirs.keys()
    expected = {"optimizer", "val_set_size", "fast_inference", "lora_rank", "quant_bits"}
    assert expected <= theirs.keys()
    _, faults = read_recipe("recipes/tiny-arithmetic.yaml", [f"{name}=1" for name in theirs])
    said = dict(
        re.search(r"unknown section '(\w+)'(.*)", fault.message).groups() for fault in faults
    )
    assert [name for name, section in theirs.items() if section not in said[name]] == []


@pytest.mark.parametrize("section", ["", "grpo."])
def test_no_line_that_the_page_maps_is_unknown_without_an_answer(section):
    """Wherever it was copied to."""
    rows = re.findall(
        r"^\| (?!a recipe)[^|]*\|[^|]*\|(.*)\|$", (ROOT / "docs/migrate.md").read_text(), re.M
    )
    theirs = {
        name for cells in rows for name in re.findall(r"[`(.]([a-z]+_\w+)(?=[`:=])", cells)
    } - {"from_pretrained"}
    theirs |= {"rlhf_type", "train_type", "tuner_type", "optimizer", "columns", "system"}
    assert {"num_processes", "gpu_memory_utilization", "lora_rank", "load_dataset"} <= theirs
    theirs -= {"load_dataset", "get_peft_model"}  # calls
    keys = [f"{section}{name}" for name in sorted(theirs)]
    _, faults = read_recipe("recipes/tiny-arithmetic.yaml", [f"{key}=x" for key in keys])
    bare = [
        each.message for each in faults if re.fullmatch(r"unknown (section|key) \S+", each.message)
    ]
    assert bare == []


def test_the_commands_are_found():
    assert len(COMMANDS) > 50
    assert {"make grpo", "make lint", "make smollm2", "make check RECIPE=mine"} <= set(COMMANDS)
    assert {"README.md", "CONTRIBUTING.md", "gpu.md", "results.md"} <= set(COMMANDS.values())


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_documented_command_is_well_formed(command, clone):
    words = shlex.split(re.sub(r"^([A-Z_]+=\S+ )+", "", placed(command)))  # without its environment
    if words[0] == "cp":
        assert (ROOT / words[1]).is_file()
    elif words[0] == "make":
        makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
        given = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        assert given.keys() <= {*re.findall(r"(?:^|\$\()([A-Z_]+)(?: \?=|\))", makefile, re.M)}
        extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
            "optional-dependencies"
        ]
        assert {*filter(None, given.get("EXTRAS", "").split(","))} <= extras.keys()
        for line in lines_of(shlex.join(words), clone):
            require_well_formed(line, clone)
    else:
        require_well_formed(words, clone)


PIPED = {"capture_output": True, "text": True, "check": True}
SHORT = shlex.split("""
    data.train='[arithmetic: {digits: 2, rows: 400}]' data.validation=16 evaluate.limit=4
    sft.max_steps=2 sft.per_device_train_batch_size=8 grpo.max_steps=2
    grpo.per_device_train_batch_size=16 grpo.logging_steps=1
""")


@pytest.fixture(scope="module")
def trained(clone) -> Path:
    """The clone after the README's first command, and the one that it says is next."""
    said = run_make(clone, "make grpo", *SHORT)
    assert "| grpo |" in said and "next: make evaluate" in said
    assert "form or reasoning? base → grpo" in run_make(clone, "make evaluate", *SHORT)
    return clone


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_notebook_clones_where_it_is_alone(clone, tmp_path):
    cells = json.loads((ROOT / "docs/first-run.ipynb").read_text(encoding="utf-8"))["cells"]
    first = next("".join(each["source"]) for each in cells if each["cell_type"] == "code")
    alone = capture([sys.executable, "-c", first], cwd=tmp_path)
    assert alone.returncode == 1 and "ADDRESS" in alone.stderr and "Traceback" not in alone.stderr
    repository = tmp_path / "repository"
    shutil.copytree(clone / "recipes", repository / "recipes")
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]
    for words in (["init", "-q"], ["add", "."], commit):
        run_command(["git", "-C", repository, *words], check=True)
    with_address = first.replace('ADDRESS = "…"', f"ADDRESS = {str(repository)!r}")
    for _ in range(2):  # a cell that is run again finds what it cloned
        output = run_command([sys.executable, "-c", with_address], cwd=tmp_path, **PIPED).stdout
        assert Path(output.strip()) == tmp_path / "grpo-recipes"


@cases(__file__, "a_command_on_the_default_recipe")
def test_a_command_on_the_default_recipe(command, says, trained):
    """After `make grpo` and `make evaluate`, it says this among other things."""
    short = [] if command.endswith("recipe.yaml") else SHORT  # which stands in that recipe
    assert says in run_make(trained, placed(command), *short)
    if (
        command == "make merge"
    ):  # whose template is the one that `make evaluate` applies (docs/evaluation.md)
        merged, base = (trained / f"{MADE}/merged", trained / "outputs/models/tiny-qwen3-seed42")
        actual = (merged / "chat_template.jinja").read_bytes()
        assert actual == (base / "chat_template.jinja").read_bytes()


def test_the_notebook_runs(trained):
    """Cell by cell: with a few steps, and commands of make as `run_make` runs them. On Colab it was
    not tried."""
    cells = json.loads((ROOT / "docs/first-run.ipynb").read_text(encoding="utf-8"))["cells"]
    # Its recipe has data of its own and no warm start.
    of_own_recipe = [
        override for override in SHORT if not override.startswith(("data.train", "sft."))
    ]
    said = ""
    for text in ["".join(each["source"]) + "\n" for each in cells if each["cell_type"] == "code"]:
        magic, _, body = text.partition("\n")
        if not magic.startswith(
            "%%"
        ):  # the first, which finds the clone from the folder of the notebook
            (trained / "docs").mkdir(exist_ok=True)
            output = run_command([sys.executable, "-c", text], cwd=trained / "docs", **PIPED).stdout
            assert Path(output.strip()) == trained
            continue
        if magic.startswith("%%writefile "):
            (trained / magic.split()[1]).write_text(body)
            continue
        assert magic == "%%bash"
        for made, shell in re.findall(r"^(make .*)\n|((?:(?!make ).*\n)+)", body, re.M):
            if shell:
                said += run_command(["bash", "-e"], cwd=trained, input=shell, **PIPED).stdout
            elif made.startswith("make trust"):
                run_make(trained, made)
            elif made != "make setup":
                said += run_make(trained, made, *(of_own_recipe if "=mine" in made else SHORT))
    assert "question → problem" in said and "grpo: done, in outputs/mine/grpo" in said
    assert "form or reasoning? base → grpo" in said
    assert (trained / "page.html").stat().st_size > 100_000


def test_completions_are_shown(trained):
    command = blocks((ROOT / "docs/run.md").read_text(encoding="utf-8"))[-1]
    done = capture([sys.executable, *shlex.split(command)[1:]], cwd=trained)
    assert "correct_answer" in done.stdout and "completion" in done.stdout


def test_a_recipe_on_a_base(clone):
    text = next(each for each in blocks(README, "yaml") if each.startswith("base:"))
    (clone / "recipes/on-a-base.yaml").write_text(text)
    recipe, faults = read_recipe(clone / "recipes/on-a-base.yaml", check=())
    assert faults == []
    assert (list(recipe.rewards), recipe.grpo["num_generations"]) == (["correct_answer"], 16)


@pytest.mark.slow
def test_a_recipe_a_reward_and_data_of_ones_own(clone, tiny_qwen2, math_data, monkeypatch):
    """Those of the pages, word for word, with a tiny model in place of Qwen's; beside their one
    problem, some that are like GSM8K's."""
    shutil.rmtree(clone / "outputs/mine", ignore_errors=True)  # the notebook may have made one
    of_data = (ROOT / "docs/your-data.md").read_text(encoding="utf-8")
    run_command(
        shlex.split(next(each for each in COMMANDS if each.startswith("cp "))),
        cwd=clone,
        check=True,
    )
    (clone / "mine.py").write_text("".join(blocks(README, "python") + blocks(of_data, "python")))
    of_trl = re.search(r"`(trl\.rewards\.\w+: \{.*?\})`", README)[1]
    of_readme = next(each for each in blocks(README, "yaml") if each.startswith("rewards:"))
    rewards = f"{of_readme}  {of_trl}\n"
    recipe = clone / "recipes/mine.yaml"
    recipe.write_text(re.sub(r"^rewards:\n(?:  .*\n)+", rewards, recipe.read_text(), flags=re.M))
    file, function = re.findall(r"^    - (problems.csv|mine.puzzles) ", of_data, re.M)
    (clone / file).write_text("question,ground_truth\nWhat is 3 + 3?,6\n")
    short = [f"data.train=[{file}, {function}, gsm8k]", f"data.dir={math_data}"]
    short += [f"model.name_or_path={tiny_qwen2}"]
    short += shlex.split("""
        data.validation=8 evaluate.engine=transformers evaluate.benchmarks=[gsm8k]
        grpo.use_vllm=false grpo.vllm_enable_sleep_mode=false grpo.max_completion_length=24
        sft.max_steps=1 grpo.max_steps=1 grpo.logging_steps=1 grpo.gradient_accumulation_steps=1
        grpo.eval_steps=1 evaluate.checkpoint_problems=4
    """)
    trusts = [
        sys.executable,
        *lines_of("make trust FILE=mine.py", clone)[0][1:],
    ]  # in the clone, not a fork of here
    line = "run mine.py"
    assert line in capture(trusts, cwd=clone, check=True).stdout
    monkeypatch.setenv("TRUST_FILES", str(clone / "mine.py"))
    for command in (each for each in COMMANDS if each.endswith("RECIPE=mine")):
        said = run_make(clone, command, *short)
        assert f"{function} train: 1 problems" in said and f"{file} train: 1 problems" in said
    metrics = (clone / "outputs/mine/grpo/metrics.jsonl").read_text().splitlines()[0]
    actual = len(
        re.findall(
            "rewards/(correct_answer|short_proofs|soft_overlong_punishment_reward)/mean", metrics
        )
    )
    assert actual == 3


@pytest.mark.slow  # a launcher and two processes, each of which imports the libraries
def test_accelerate_launches_a_stage(trained):
    command = next(each for each in COMMANDS if "accelerate launch" in each)
    two = "processes 2 --main_process_port 0"  # any port
    for shown, tried in (
        ("/ddp", "/cpu2"),
        ("processes 4", two),
        ("qwen-math-lora", "tiny-arithmetic"),
    ):
        assert shown in command
        command = command.replace(shown, tried)
    shutil.copytree(trained / MADE / "sft", trained / "outputs/two/sft")
    words = [ACCELERATE, *shlex.split(command)[1:], *SHORT]
    words += ["output_dir=outputs/two"]
    done = capture(words, cwd=trained, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert "grpo: done, in outputs/two/grpo" in done.stdout, done.stderr[-6000:]


SUMS = """\
task: sums
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{problem}}}}"
doc_to_target: "{{{{answer}}}}"
generation_kwargs: {{until: ["</answer>"], max_gen_toks: 8}}
filter_list: [{{name: all, filter: [{{function: take_first}}]}}]
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""


@pytest.mark.slow
def test_lm_eval_asks_a_model_as_we_do(tmp_path):
    """On sums in a file, since its own tasks are downloaded."""
    from transformers import AutoTokenizer

    [shown] = [
        each for each in blocks((ROOT / "docs/evaluation.md").read_text()) if "lm-eval run" in each
    ]
    environment = os.environ | {"HF_DATASETS_CACHE": str(tmp_path / "cache")}
    folder = built_model("tiny-qwen3", 42)
    installed = re.search(r"\S*uvx (?:--(?:from|with) \S+ )+lm-eval", shown)[0]
    made = capture(f"{installed} --help", shell=True, env=environment)
    if made.returncode:
        pytest.skip(f"no environment for lm-eval here: {made.stderr.strip()[-200:]}")
    sums = [{"problem": f"What is {n} + 7?", "answer": str(n + 7)} for n in range(20)]
    write_lines(tmp_path / "sums.jsonl", sums)
    (tmp_path / "sums.yaml").write_text(SUMS.format(file=tmp_path / "sums.jsonl"))
    command = shown
    for written, ours in (
        (r"for model in [^;]+;", f"for model in {folder};"),
        (r"--tasks \S+", f"--tasks sums --include_path {tmp_path} --log_samples"),
        (r"--output_path \S+", f"--output_path {tmp_path}/out"),
    ):
        command, times = re.subn(written, ours, command)
        assert times == 1, written
    done = capture(command, shell=True, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    [file] = (tmp_path / "out").glob("*/samples_sums_*.jsonl")
    samples = [json.loads(line) for line in file.read_text().splitlines()]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    asked = [prompt.prompt_ids(tokenizer, prompt.messages(each["problem"], None)) for each in sums]
    actual = {each["arguments"]["gen_args_0"]["arg_0"] for each in samples}
    assert actual == set(tokenizer.batch_decode(asked))
