"""What every stage's command line shares."""

import argparse
import contextlib
import logging
import os
import re
import signal
import sys
import warnings
from collections.abc import Callable, Iterator

from data.sources import DataError
from schema.faults import RecipeError
from schema.recipe import Recipe, load_recipe, recipe_arguments


class RunStopped(Exception):
    """A run ended before its end, with its last good checkpoint on disk; the message says why and what to do."""

    def __init__(self, message: str, exit_code: int = 3):
        super().__init__(message)
        self.exit_code = exit_code


def run(stage: str, main: Callable[..., None], add_arguments: Callable[[argparse.ArgumentParser], None] | None = None):
    """Read the recipe and run a stage; a user's mistake ends in its message and exit code 2, on one process only."""
    parser = argparse.ArgumentParser(prog=f"python -m stages.{stage}", description=main.__doc__)
    recipe_arguments(parser)
    if add_arguments:
        add_arguments(parser)
    options = vars(parser.parse_intermixed_args())
    path, overrides = options.pop("recipe"), options.pop("overrides")
    with mistakes_reported():
        main(load_recipe(path, overrides, check=()), **options)


@contextlib.contextmanager
def mistakes_reported() -> Iterator[None]:
    """A user's mistake in the block ends the program with its message and exit code 2, printed by one process only."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except (RecipeError, DataError) as error:
        if is_main_process():
            print(clean(str(error)), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on where it can", file=sys.stderr)
        sys.exit(130)
    except RunStopped as stopped:
        print(f"\n{clean(str(stopped))}", file=sys.stderr)  # by whichever process it is: the others do not know
        sys.exit(stopped.exit_code)


def is_main_process() -> bool:
    return int(os.environ.get("RANK", 0)) == 0


def say(text: str = ""):
    """Print once, whatever the number of processes."""
    if is_main_process():
        print(clean(text), flush=True)


def clean(text: str) -> str:
    """With the names of control characters in their place: a text of another's could rewrite the terminal with them."""
    return _CONTROL.sub(lambda match: repr(match[0])[1:-1], text)


_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def quiet_libraries():
    """Keep the libraries' notes off the screen; their errors, and on the first process their warnings, stay."""
    import datasets
    import transformers

    # A weight that is tied to another is saved once, and the other found missing when a run goes on.
    logging.getLogger("transformers.trainer").addFilter(
        lambda record: "There were missing keys in the checkpoint model loaded" not in record.getMessage()
    )
    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    if not is_main_process():
        transformers.utils.logging.set_verbosity_error()
        warnings.simplefilter("ignore")


def say_markdown(text: str):
    """Print a text with tables: drawn where a person looks on, as it is in a file or a pipe."""
    if sys.stdout.isatty() and is_main_process():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(text))
    else:
        say(text)


def of_chain() -> bool:
    """Whether `make grpo` runs this stage as one of several, and goes on with the next by itself."""
    return os.environ.get("MAKE_TARGET") == "grpo"


def make_command(target: str, recipe: Recipe) -> str:
    """The `make` line for a recipe and the overrides it was asked for with, as the next step a stage prints."""
    return f"make {target}{recipe.asked_for}"
