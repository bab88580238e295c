"""Every command that the documentation shows is one a reader can give; the README's own are run,
shortened."""

import json
import os
import re
import shlex
import shutil
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

from schema.text import value_of
from schema.value_types import type_fault
from schema.values import REJECTION_SAMPLING, TYPES
from stages.make import commands
from stages.table import STAGES
from tests import keys
from tests.stages.test_makefile import mark
from tests.support import (
    ACCELERATE,
    ROOMS,
    ROOT,
    SHIPPED,
    read_lines,
    read_recipe,
    run_program,
)
from tests.tables import cases, rows
from tests.waits import capture, run_command

README, OF_DATA, OF_RUNS = (
    (ROOT / f"{name}.md").read_text(encoding="utf-8")
    for name in ("README", "docs/your-data", "docs/run")
)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
PAGES += sorted((ROOT / "docs/study").glob("*.md"))
SCRIPTS = sorted((ROOT / "docs/study").glob("*.sh"))  # the commands of a section of results.md
BIN = r"(?:\.venv/bin/)?"
PROGRAM = rf"(?:[A-Z_]+=\S+ )*(?:make|cp|{BIN}accelerate launch|pytest|{BIN}python -m)[ \n]"
# goes on behind \ and inside quotes
IN_A_BLOCK = re.compile(rf'^{PROGRAM}(?:[^"\n\\]|\\\n|"[^"]*")*', re.M)
IN_PROSE = re.compile(rf"`({PROGRAM}[^`]+)`")
MADE = "outputs/tiny-arithmetic"
# That stand for a reader's own.
WORDS = {row["shown"]: row["word"].replace("{made}", MADE) for row in rows(__file__, "words")}


def blocks(text: str, language: str = "") -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.M | re.S)
    return [block for name, block in fenced if name == language]


def shown() -> Iterator[tuple[str, str]]:
    """What looks like a command, and the file that shows it."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for block in blocks(text):
            yield from ((command, page.name) for command in IN_A_BLOCK.findall(block))
        yield from ((code, page.name) for code in IN_PROSE.findall(text.replace("```", "")))
    for path in SHIPPED:
        head = (ROOT / path).read_text(encoding="utf-8")
        for option in re.findall(r'^# .*(ARGS=".*")', head, re.M):
            yield f"make grpo RECIPE={Path(path).stem} {option}", path
        yield from ((command, path) for command in re.findall(r"^# Run +(.*)", head, re.M))


def collected() -> dict[str, str]:
    """Every command, and the file that shows it first."""
    commands = {}
    for text, place in shown():
        for command in " ".join(re.sub(r"\s#\s.*|\\\n", " ", text).split()).split(" && "):
            several = re.match(r"make (\S+(?: \| \S+)+)", command)  # make sft | grpo
            if not several:
                commands.setdefault(command, place)
                continue
            for target in several[1].split(" | "):
                commands.setdefault(f"make {target}{command[several.end() :]}", place)
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


def lines_of(command: str, clone: Path, *overrides: str) -> list[list[str]]:
    """The lines of Python that a `make` command would run, but those that install."""
    target, *words = shlex.split(command)[1:]
    done = capture(["make", target, *words, f"PYTHON={sys.executable}", "-n"], cwd=clone)
    assert done.returncode == 0, done.stderr
    options = dict(word.split("=", 1) for word in words if "=" in word)
    lines = []
    for goal in (target, *(word for word in words if "=" not in word)):
        if goal not in STAGES:
            runs = r"^(?:\S*python -m (?:tests|pytest)).*"
            lines += map(shlex.split, re.findall(runs, done.stdout, re.M))
            continue
        if STAGES[goal].takes_recipe:
            args = f"{options.get('ARGS', '')} {shlex.join(overrides)}"
            options |= {"ARGS": args}
        lines += [["python", "-m", "stages", *line] for line in commands(goal, options)]
    return lines


def run_make(clone: Path, command: str, *overrides: str) -> str:
    target, printed = command.split()[1], ""
    for line in lines_of(command, clone, *overrides):
        printed += run_program(*line[2:], cwd=clone, MAKE_TARGET=target).stdout
    return printed


@cache
def helped(clone: Path, *module: str) -> str:
    return run_program(*module, "--help", cwd=clone).stdout


def require_well_formed(words: list[str], clone: Path):
    """Asserts that a command's module, options, files and overrides are there."""
    if words[0].endswith("accelerate") or (words[2:4] == ["stages", "launch"] and words[4:]):
        from accelerate.commands.launch import launch_command_parser

        first = 2 if words[1] == "launch" else 4
        launch = launch_command_parser().parse_args(words[first:])
        assert launch.module and (ROOT / launch.config_file).is_file()
        words = ["python", "-m", launch.training_script, *launch.training_script_args]
    module, *arguments = words if words[0] == "pytest" else words[2:]
    assert find_spec(module), module
    if module == "pytest":
        assert all((ROOT / each).is_file() for each in arguments if each.endswith(".py"))
        return
    options = {each.partition("=")[0] for each in arguments if each.startswith("--")}
    named = (module, arguments[0]) if module == "stages" else (module,)
    if options or module.startswith("tests."):  # which no test imports
        assert options <= set(re.findall(r"--[\w-]+", helped(clone, *named)))
    overrides = [word for word in arguments if re.match(r"[a-z]\w*(\.\w+)*=", word)]
    for recipe in arguments:
        if recipe.endswith(".yaml") and not recipe.startswith(MADE):
            assert read_recipe(recipe, overrides)[1] == []


def headings(page: Path) -> set[str]:
    """As GitHub names them in links; of a page of HTML, its ids."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".html":
        return set(re.findall(r'\bid="([\w-]+)"', text))
    titles = re.findall(r"^#+ (.*)", text, re.M)
    return {re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize(
    "page", [*PAGES, *(ROOT / each for each in SHIPPED)], ids=lambda page: page.name
)
def test_every_link_leads_to_a_heading(page):
    """Of the pages; and of the recipes, which name pages in their first lines."""
    text = page.read_text(encoding="utf-8")
    folder, links = page.parent, re.findall(r"\]\((?!https?:)([^)\s]+)\)", text)
    if page.suffix == ".yaml":
        folder, links = ROOT, re.findall(r"\((docs/[\w.#-]+)\)", text)
    for link in links:
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
    checked = 0
    for section, text in sections:
        if section == "rewards":
            continue
        rules = REJECTION_SAMPLING if section == "data.rejection_sampling" else TYPES[section]
        examples = re.findall(r"^- `(\w+): ([^`]+)`: ", text, re.M)
        checked += len(examples)
        for key, example in examples:
            assert key not in rules or type_fault(rules[key], value_of(example)) is None, key
    assert checked > 10


def test_the_commands_are_found():
    assert len(COMMANDS) > 50
    assert {"make grpo", "make lint", "make smollm2", "make check RECIPE=mine"} <= set(COMMANDS)
    assert {"README.md", "CONTRIBUTING.md", "gpu.md", "results.md"} <= set(COMMANDS.values())


@pytest.mark.parametrize("command", list(COMMANDS))
def test_a_documented_command_is_well_formed(command, clone):
    words = shlex.split(re.sub(r"^([A-Z_]+=\S+ )+", "", placed(command)))  # without its environment
    if words[0] == "cp":
        assert (ROOT / words[1]).is_file()
    if words[0] not in ("cp", "make"):
        require_well_formed(words, clone)
    if words[0] != "make":
        return
    options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = options.get("EXTRAS", "").split(",")
    assert {*filter(None, extras)} <= project["optional-dependencies"].keys()
    for line in lines_of(shlex.join(words), clone):
        require_well_formed(line, clone)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_a_script_of_the_results_names_what_is_there(script):
    """Its first lines name a heading of a page, and how it is run; bash can read it."""
    text = script.read_text(encoding="utf-8")
    run_command(["bash", "-n", script], check=True)
    page, heading = re.match(r"# (docs/\w+\.md)(?:#([\w-]+))?: ", text).groups()
    assert heading is None or heading in headings(ROOT / page)
    assert f"# bash {script.relative_to(ROOT)}\n" in text
    assert f"]({script.relative_to(ROOT / 'docs')})" in (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"^\s*make (\S+)", text, re.M):
        assert target in STAGES or target in ("seeds", "tune", "compare"), target
    for name in re.findall(r"RECIPE=([\w.-]+)(?=\s|$)", text):
        is_made = f"> recipes/{name}.yaml" in text
        assert is_made or name.endswith("-") or (ROOT / f"recipes/{name}.yaml").is_file(), name


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
    assert "format or reasoning? base → grpo" in run_make(clone, "make evaluate", *SHORT)
    return clone


NOTEBOOK = json.loads((ROOT / "docs/first-run.ipynb").read_text(encoding="utf-8"))
CELLS = ["".join(cell["source"]) for cell in NOTEBOOK["cells"] if cell["cell_type"] == "code"]


def folder_said(cell: str, folder: Path) -> Path:
    """Where a cell of Python that is run in a folder finds the clone."""
    return Path(capture([sys.executable, "-c", cell], cwd=folder, check=True).stdout.strip())


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
def test_the_notebook_clones_where_it_is_alone(clone, tmp_path):
    alone = capture([sys.executable, "-c", CELLS[0]], cwd=tmp_path)
    assert alone.returncode == 1 and "ADDRESS" in alone.stderr and "Traceback" not in alone.stderr
    repository = tmp_path / "repository"
    shutil.copytree(clone / "recipes", repository / "recipes")
    commit = ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "a"]
    for words in (["init", "-q"], ["add", "."], commit):
        run_command(["git", "-C", repository, *words], check=True)
    address = re.search('ADDRESS = (".*")', CELLS[0])[1]
    badge = "".join(NOTEBOOK["cells"][0]["source"])
    repository_name = address[1:-1].removeprefix("https://github.com/")
    assert f"/github/{repository_name}/blob/main/docs/first-run.ipynb" in badge
    with_address = CELLS[0].replace(address, repr(str(repository)))
    for _ in range(2):  # a cell that is run again finds what it cloned
        assert folder_said(with_address, tmp_path) == tmp_path / "grpo-recipes"


@cases(__file__, "a_command_on_the_default_recipe")
def test_a_command_on_the_default_recipe(command, says, trained):
    """After `make grpo` and `make evaluate`, it says this among other things."""
    short = [] if command.endswith("recipe.yaml") else SHORT  # which stands in that recipe
    assert says in run_make(trained, placed(command), *short)
    if command == "make merge":  # with the template that `make evaluate` applies
        folders = (f"{MADE}/merged", "outputs/models/tiny-qwen3-seed42")
        merged, base = ((trained / name / "chat_template.jinja").read_bytes() for name in folders)
        assert merged == base


def test_the_notebook_runs(trained):
    """Cell by cell: with a few steps, and commands of make as `run_make` runs them. On Colab it was
    not tried."""
    # Its recipe has data of its own and no warm start.
    of_own_recipe = [word for word in SHORT if not word.startswith(("data.train", "sft."))]
    (trained / "docs").mkdir(exist_ok=True)
    said = ""
    for cell in CELLS:
        magic, _, body = f"{cell}\n".partition("\n")
        if not magic.startswith("%%"):  # the first, from the notebook's folder
            assert folder_said(cell, trained / "docs") == trained
            continue
        if magic.startswith("%%writefile "):
            (trained / magic.split()[1]).write_text(body)
            continue
        assert magic == "%%bash"
        for command, shell in re.findall(r"^(make .*)\n|((?:(?!make ).*\n)+)", body, re.M):
            if shell:
                said += capture(["bash", "-e"], cwd=trained, input=shell, check=True).stdout
            elif command != "make setup":
                short = of_own_recipe if "=mine" in command else SHORT
                said += run_make(trained, command, *short)
    assert "question → problem" in said and "grpo: done, in outputs/mine/grpo" in said
    assert "format or reasoning? base → grpo" in said
    assert (trained / "page.html").stat().st_size > 100_000


def test_completions_are_shown(trained):
    done = capture([sys.executable, *shlex.split(blocks(OF_RUNS)[-1])[1:]], cwd=trained)
    assert "correct_answer" in done.stdout and "completion" in done.stdout


def test_a_recipe_on_a_base(clone):
    text = next(block for block in blocks(README, "yaml") if block.startswith("base:"))
    (clone / "recipes/on-a-base.yaml").write_text(text)
    recipe, faults = read_recipe(clone / "recipes/on-a-base.yaml")
    assert faults == []
    assert (list(recipe.rewards), recipe.grpo["num_generations"]) == (["correct_answer"], 16)


@pytest.mark.slow
def test_a_recipe_a_reward_and_data_of_ones_own(clone, tiny_qwen2, math_data):
    """Those of the pages, word for word, with a tiny model in place of Qwen's; beside their one
    problem, some that are like GSM8K's."""
    shutil.rmtree(clone / "outputs/mine", ignore_errors=True)  # the notebook may have made one
    copies = next(command for command in COMMANDS if command.startswith("cp "))
    run_command(shlex.split(copies), cwd=clone, check=True)
    (clone / "mine.py").write_text("".join(blocks(README, "python") + blocks(OF_DATA, "python")))
    of_trl = re.search(r"`(trl\.rewards\.\w+: \{.*?\})`", README)[1]
    of_readme = next(block for block in blocks(README, "yaml") if block.startswith("rewards:"))
    recipe, rewards = clone / "recipes/mine.yaml", f"{of_readme}  {of_trl}\n"
    recipe.write_text(re.sub(r"^rewards:\n(?:  .*\n)+", rewards, recipe.read_text(), flags=re.M))
    file, function = re.findall(r"^    - (problems.csv|mine.puzzles) ", OF_DATA, re.M)
    (clone / file).write_text("question,ground_truth\nWhat is 3 + 3?,6\n")
    short = [f"data.train=[{file}, {function}, gsm8k]", f"data.dir={math_data}"]
    short += [f"model.name_or_path={tiny_qwen2}"]
    short += shlex.split("""
        data.validation=8 evaluate.engine=transformers evaluate.benchmarks=[gsm8k]
        grpo.use_vllm=false grpo.vllm_enable_sleep_mode=false grpo.max_completion_length=24
        sft.max_steps=1 grpo.max_steps=1 grpo.logging_steps=1 grpo.gradient_accumulation_steps=1
        grpo.eval_steps=1 evaluate.checkpoint_problems=4
    """)
    for command in (command for command in COMMANDS if command.endswith("RECIPE=mine")):
        said = run_make(clone, command, *short)
        assert f"{function} train: 1 problems" in said and f"{file} train: 1 problems" in said
    first = read_lines(clone / "outputs/mine/grpo/metrics.jsonl")[0]
    for reward in ("correct_answer", "short_proofs", "soft_overlong_punishment_reward"):
        assert f"rewards/{reward}/mean" in first


@pytest.mark.slow  # a launcher and two processes, each of which imports the libraries
def test_accelerate_launches_a_stage(trained):
    command = next(command for command in COMMANDS if "accelerate launch" in command)
    short = {"processes 4": "processes 2 --main_process_port 0"}  # any port
    short |= {"/ddp": "/cpu2", "qwen-math-lora": "tiny-arithmetic"}
    for shown_part, part in short.items():
        assert shown_part in command
        command = command.replace(shown_part, part)
    shutil.copytree(trained / MADE / "sft", trained / "outputs/two/sft")
    words = [*shlex.split(command)[1:], *SHORT, "output_dir=outputs/two"]
    done = capture([ACCELERATE, *words], cwd=trained, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert "grpo: done, in outputs/two/grpo" in done.stdout, done.stderr[-6000:]
