"""Checks once per process that the Hugging Face Hub answers, before anything is loaded from it.

Otherwise its client waits up to six minutes per file, even for a cached model, and a model may have
a dozen files.
"""

import contextlib
import functools
import logging
import os
import sys
from collections.abc import Iterator

from huggingface_hub import constants

# The commit of each data set that this process has read from the Hub.
revisions: dict[str, str] = {}
SECONDS = 10  # to wait for an answer, at each of three attempts


@functools.cache
def reach():
    """Check that the Hub answers; if it does not, this process and those it starts use only what
    was downloaded before. Any status but 429 and 5xx counts as an answer."""
    if constants.HF_HUB_OFFLINE:
        return
    import httpx  # a fifth of a second, which a first verdict would wait for
    from huggingface_hub.utils import http_backoff

    retries = logging.getLogger("huggingface_hub.utils._http")
    level = retries.level
    retries.setLevel(logging.ERROR)  # one line says it, below
    try:
        http_backoff("HEAD", constants.ENDPOINT, timeout=SECONDS, max_retries=2)
    except (httpx.HTTPError, OSError) as error:
        reason = str(error).splitlines()[0]
        print(
            f"the Hub, {constants.ENDPOINT}, does not answer ({reason}): using what was downloaded"
            " before",
            file=sys.stderr,
        )
        import datasets

        os.environ["HF_HUB_OFFLINE"] = "1"
        constants.HF_HUB_OFFLINE = True
        datasets.config.HF_HUB_OFFLINE = datasets.config.HF_DATASETS_OFFLINE = True
    finally:
        retries.setLevel(level)


def is_offline() -> bool:
    """Whether only cached files can be had, because `reach` got no answer or the environment says
    so."""
    return constants.HF_HUB_OFFLINE


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """Keep the block from asking the Hub for anything: the files of a local folder may name models
    there that the user never asked for."""
    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before
