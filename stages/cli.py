"""What every stage's command line shares."""

import argparse
import contextlib
import logging
import signal
import sys
import warnings
from collections.abc import Callable, Iterator

from data.sources import DataError
from schema.faults import RecipeError, RunStopped
from schema.launch import recipe_arguments
from schema.recipe import load_recipe
from schema.terminal import clean, is_main_process


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
