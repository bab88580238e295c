"""The command line that all stages share: it reads the recipe, and reports a user's mistake as a
message."""

import argparse
import contextlib
import io
import json
import logging
import os
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

from console.faults import (
    NO_MEMORY,
    OUT_OF_MEMORY,
    RecipeError,
    RunStopped,
    end,
    is_out_of_memory,
    on_signals,
)
from console.terminal import clean, complain, is_main_process
from data.sources import DataError
from machine.launch import launch, launch_arguments, read_for, recipe_arguments
from schema.recipe import Recipe
from training.machines import FAILED, LINGER, is_lost, leave, leave_group
from training.writing import unwritten


def run(
    stage: str,
    main: Callable[..., None],
    options: dict[str, dict] | None = None,
    *,
    of_recipe: bool = True,
    launched: bool = False,
):
    """Read the command line and run a stage; a user's mistake ends in a message, from one process
    only, and exit code 2.

    Args:
        options: argparse's settings of each of the stage's own arguments, by its name.
        of_recipe: whether it takes a recipe and overrides, `main` then the recipe that they make.
        launched: whether it also takes how that recipe will be launched.
    """
    parser = argparse.ArgumentParser(prog=f"python -m stages.{stage}", description=main.__doc__)
    if of_recipe:
        recipe_arguments(parser)
    for name, settings in (options or {}).items():
        parser.add_argument(name, **settings)
    if launched:
        launch_arguments(parser)
    with mistakes_reported():
        with (
            contextlib.nullcontext()
            if is_main_process()
            else contextlib.redirect_stderr(io.StringIO())
        ):
            given = vars(parser.parse_intermixed_args())
        recipe = [_read(given.pop("recipe"), given.pop("overrides"))] if of_recipe else []
        main(*recipe, **given)
    leave_group()


def _read(path: str, overrides: list[str]) -> Recipe:
    """The recipe as the processes will read it that `make` launches beside this stage's one.

    Raises:
        RecipeError: all its faults.
    """
    launched = {"num_processes": 1}
    if "WORLD_SIZE" not in os.environ:
        launched = launch(os.getenv("ACCELERATE") or None, os.getenv("PROCESSES") or None)
    recipe, faults = read_for(launched, path, overrides, check=())
    if faults:
        raise RecipeError(faults)
    return recipe


@contextlib.contextmanager
def mistakes_reported() -> Iterator[None]:
    """End the program on a user's mistake in the block, with a message from one process only and
    exit code 2."""
    on_signals(end, (signal.SIGTERM, signal.SIGHUP))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    write_lines()
    try:
        yield
    except (RecipeError, DataError) as error:
        _say_once(str(error))
        leave(2)
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
        if stopped := unwritten(error):
            _say_once(f"\n{stopped}")
            leave(stopped.exit_code)
        if not isinstance(error, RuntimeError) or not is_lost(error):
            raise
        # Whichever ended first has said why, and the launcher will end this one; if not, nobody
        # has.
        on_signals(end, (signal.SIGTERM,))
        time.sleep(LINGER)
        said = (
            str(error).partition("] ")[2].partition(". ")[0] or " ".join(str(error).split())[:300]
        )
        _say_once(f"\nother processes of this run are gone ({said}); the same command resumes")
        leave(FAILED)


def write_lines():
    """Write each line at once; spell out a letter that the terminal's encoding lacks."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # not where a test reads it
            stream.reconfigure(errors="backslashreplace", line_buffering=True)


def _say_once(text: str):
    """The first process prints what is wrong, and any other leaves it to the launcher, which prints
    it if the first had nothing to say."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if is_main_process() or not file:
        # of a launcher that saw another process end before this one
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        with contextlib.suppress(OSError):  # nobody reads it
            complain(text)
    if file:
        Path(file).write_text(
            json.dumps({"message": clean(text).strip(), "timestamp": int(time.time())}), "utf-8"
        )


def quiet_libraries():
    """Keep the libraries' notes off the screen; their errors, and on the first process their
    warnings, stay."""
    import transformers

    # Of two tied weights only one is saved, and the other is reported missing when a run is
    # resumed.
    logging.getLogger("transformers.trainer").addFilter(
        lambda record: (
            "There were missing keys in the checkpoint model loaded" not in record.getMessage()
        )
    )
    # A batch that is divided among other processes is the same; a run whose batch is another one is
    # refused.
    logging.getLogger("transformers.trainer_utils").addFilter(
        lambda record: (
            "do not match the ones in the `trainer_state.json`" not in record.getMessage()
        )
    )
    # DeepSpeed calls torch's collectives by former names, at each step.
    warnings.filterwarnings("ignore", "`torch.distributed", FutureWarning)
    # Here no vocabulary is changed, and peft is kept from asking the Hub whether it was
    # (training/train.py).
    warnings.filterwarnings("ignore", "Unable to fetch remote file|Could not find a config file in")
    transformers.utils.logging.disable_progress_bar()
    if not is_main_process():
        transformers.utils.logging.set_verbosity_error()
        warnings.simplefilter("ignore")
