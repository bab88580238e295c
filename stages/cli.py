"""The command line that all stages share: it reads the recipe, and reports a user's mistake as a
message."""

import argparse
import contextlib
import importlib
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from console.faults import (
    EXIT_CODES,
    NO_MEMORY,
    OUT_OF_MEMORY,
    TEMPLATE,
    RecipeError,
    RunStopped,
    end,
    is_exhausted,
    is_out_of_memory,
    nearest_or_all,
    on_signals,
    raised_by,
)
from console.terminal import clean, complain, is_main_process, quiet_libraries, say
from data.files import DataError
from evaluation.check import require_machine
from machine import hardware
from machine.launch import device_line, launched_here, on_this_machine, read_for
from runs.refusals import unwritten
from schema.recipe import Recipe
from stages.table import STAGES, Stage, now_called
from training.process_group import FAILED, LINGER, is_lost, leave, leave_group


def run_named():
    """Run the stage that the command line names first."""
    name = sys.argv[1] if len(sys.argv) > 1 else "--help"
    del sys.argv[1:2]
    with mistakes_reported():
        if name in ("-h", "--help"):
            say("python -m stages NAME --help says how each of these is called:\n")
            say("\n".join(f"  {stage.name:<20}{stage.help}" for stage in STAGES.values()))
            return
        if name not in STAGES:
            hint = now_called([name]) or nearest_or_all(name, STAGES)
            raise RecipeError([f"there is no stage {name}{hint}"])
        if find_spec(STAGES[name].module) is None:
            raise RecipeError([f"{name} is a target of make, which runs other stages: make {name}"])
    run(name)


def run(name: str, main: Callable | None = None, stage: Stage | None = None) -> Any:
    """Read the command line, run a stage, and return what it did, but where several processes ran
    it, which end here; a user's mistake ends in a message, from one process only, and exit code 2.

    Args:
        main: the stage's function; by default that of its file, which is imported once the command
            line and the recipe are read.
        stage: its row, if it is not in the table. Without one it takes a recipe and no option.
    """
    stage = stage or STAGES.get(name) or Stage(name)
    with mistakes_reported():
        with contextlib.redirect_stderr(sys.stderr if is_main_process() else io.StringIO()):
            arguments = vars(parser_of(stage).parse_intermixed_args())
        if stage.takes_recipe:
            overrides = arguments.pop("overrides")
            arguments["recipe"] = read_for(launched_here(), arguments["recipe"], overrides)
        main = main or _main_of(name)
        result = main(**arguments)
    if leave_group():
        leave(0, has_left_group=True)
    return result


def _main_of(name: str) -> Callable:
    """The function of a stage's file. Ctrl-C while it is imported ends the process at once."""
    signal.signal(signal.SIGINT, end)
    module = importlib.import_module(STAGES[name].module)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return module.main


def parser_of(stage: Stage) -> argparse.ArgumentParser:
    """The parser of a stage's command line, by its row of the table."""
    # One that is not in the table is a user's own file.
    module = f"stages {stage.name}" if stage.name in STAGES else stage.name
    parser = _Parser(prog=f"python -m {module}", description=stage.help)
    if stage.takes_recipe:
        recipe_arguments(parser)
    for option in stage.options:
        settings = {"help": option.help, "default": option.default}
        if option.kind == "flag":
            settings = {"help": option.help, "action": "store_true"}
        elif option.kind == "texts":
            settings |= {"nargs": "*", "choices": option.choices}
        elif option.kind == "repeated":
            settings["action"] = "append"
        else:
            settings["type"] = TYPES[option.kind]
            if not option.name.startswith("-"):
                settings["nargs"] = "?"
        parser.add_argument(option.name, **settings)
    return parser


def _count(text: str) -> int:
    """A number from 1 up, as argparse reads it."""
    if text.isdecimal() and 1 <= int(text) <= ALL:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text} is no whole number from 1 up")


def _count_or_all(text: str) -> int:
    return ALL if text == "all" else _count(text)


ALL = 10**9
TYPES = {
    "text": str,
    "int": int,
    "path": Path,
    "gpu": hardware.gpu_named,
    "count": _count,
    "count or all": _count_or_all,
}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line, and then how the stage is called."""

    def error(self, message: str):
        usage = " ".join(self.format_usage().split())
        raise RecipeError([f"{self.prog}: {message}{now_called(message.split())}; {usage}"])


def recipe_arguments(parser: argparse.ArgumentParser):
    """The two arguments of every stage that reads a recipe."""
    parser.add_argument("recipe", help="recipes/x.yaml")
    words = "override a key of the recipe"
    parser.add_argument("overrides", nargs="*", default=[], metavar="section.key=value", help=words)


def begin(name: str, recipe: Recipe, stages: tuple[str, ...]) -> Recipe:
    """The recipe as this machine runs it. Names the device, and keeps the libraries quiet.

    Args:
        stages: those whose packages, and whose finished runs, must be there.

    Raises:
        RecipeError: something is missing.
    """
    fitted = on_this_machine(recipe)
    require_machine(fitted, stages)
    say(f"{name}: {device_line(fitted, recipe.model.dtype)}")
    quiet_libraries()
    return fitted


@contextlib.contextmanager
def mistakes_reported() -> Iterator[None]:
    """End the program on a user's mistake in the block, with a message from one process only and
    the mistake's exit code."""
    on_signals(end, (signal.SIGTERM, signal.SIGHUP))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    write_lines()
    try:
        yield
    except (RecipeError, DataError) as error:
        _say_once(str(error))
        leave(getattr(error, "exit_code", RecipeError.exit_code))
    except KeyboardInterrupt:
        if is_main_process():
            print("\nstopped; the same command resumes where it can", file=sys.stderr)
        sys.exit(130)
    except RunStopped as stopped:
        _say_once(f"\n{stopped}")
        leave(stopped.exit_code)
    except BrokenPipeError:  # `make recipes | head`
        leave(128 + signal.SIGPIPE)
    except Exception as error:
        if is_out_of_memory(error):
            _say_once(f"\n{NO_MEMORY}")
            leave(OUT_OF_MEMORY)
        stopped = unwritten(error)
        if type(error) is ConnectionError or is_exhausted(error):
            message = f"{error}: this machine has no room for it now; the same command goes on"
            stopped = RunStopped(message, EXIT_CODES[signal.SIGTERM])
        if raised_by(error) == TEMPLATE:
            reason = f"fails: {type(error).__name__}: {' '.join(str(error).split()):.300}"
            message = f"{TEMPLATE} {reason}: mend it, or set model.chat_template"
            stopped = RunStopped(message, 2)
        if stopped:
            _say_once(f"\n{stopped}")
            leave(stopped.exit_code)
        if not isinstance(error, RuntimeError) or not is_lost(error):
            raise
        # The process that ended first has said why, and the launcher will end this one. If it does
        # not, nobody has said why.
        on_signals(end, (signal.SIGTERM,))
        time.sleep(LINGER)
        # torch writes `[file:line] reason. advice`.
        reason = str(error).partition("] ")[2].partition(". ")[0]
        reason = reason or " ".join(str(error).split())[:300]
        _say_once(f"\nother processes of this run are gone ({reason}); the same command resumes")
        leave(FAILED)


def write_lines():
    """Write each line at once; spell out a letter that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a test reads another kind of stream
            stream.reconfigure(errors="backslashreplace", line_buffering=True)


def _say_once(text: str):
    """Print a message from the first process. Any other process writes it to the launcher's file,
    and the launcher prints it if the first process had nothing to say."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if is_main_process() or not file:
        # A launcher that saw another process end sends it, and would cut the message short.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with contextlib.suppress(OSError):  # the stream is closed, so nobody reads it
            complain(text)
    if file:
        record = {"message": clean(text).strip(), "timestamp": int(time.time())}
        Path(file).write_text(json.dumps(record), "utf-8")
