"""The command line that all stages share: it reads the recipe, and reports a user's mistake as a message."""

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
    """Read the recipe and run a stage; a user's mistake ends in a message, from one process only, and exit code 2."""
    parser = argparse.ArgumentParser(prog=f"python -m stages.{stage}", description=main.__doc__)
    recipe_arguments(parser)
    if add_arguments:
        add_arguments(parser)
    options = vars(parser.parse_intermixed_args())
    path, overrides = options.pop("recipe"), options.pop("overrides")
    with mistakes_reported():
        main(load_recipe(path, overrides, check=()), **options)
    # gloo's threads abort a process that ends with its group still alive, and the launcher calls a finished run failed.
    distributed = sys.modules.get("torch.distributed")  # a stage that never loaded torch has no group
    if distributed and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()


@contextlib.contextmanager
def mistakes_reported() -> Iterator[None]:
    """End the program on a user's mistake in the block, with a message from one process only and exit code 2."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    except (RecipeError, DataError) as error:
        if is_main_process():
            print(clean(str(error)), file=sys.stderr)
        sys.exit(2)
    except KeyboardInterrupt:
        print("\nstopped; the same command resumes where it can", file=sys.stderr)
        sys.exit(130)
    except RunStopped as stopped:
        print(f"\n{clean(str(stopped))}", file=sys.stderr)  # by whichever process it happens to: the others do not know
        sys.exit(stopped.exit_code)


def quiet_libraries():
    """Keep the libraries' notes off the screen; their errors, and on the first process their warnings, stay."""
    import datasets
    import transformers

    # Of two tied weights only one is saved, and the other is reported missing when a run is resumed.
    logging.getLogger("transformers.trainer").addFilter(
        lambda record: "There were missing keys in the checkpoint model loaded" not in record.getMessage()
    )
    transformers.utils.logging.disable_progress_bar()
    datasets.disable_progress_bars()
    if not is_main_process():
        transformers.utils.logging.set_verbosity_error()
        warnings.simplefilter("ignore")
