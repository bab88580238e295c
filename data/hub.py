"""The Hub is asked once whether it answers, before anything is asked of it in earnest.

Its client else waits up to six minutes for each file that a model may have, and asks for a dozen, some of them though
the model is in the cache.
"""

import contextlib
import functools
import os
import sys
from collections.abc import Iterator

import httpx
from huggingface_hub import constants
from huggingface_hub.utils import http_backoff

SECONDS = 10  # for an answer; it is asked three times


@functools.cache
def reach():
    """Where the Hub does not answer, use what was downloaded before and ask for nothing more, in this process and those
    it starts. An answer is anything but 429 and 5xx."""
    if constants.HF_HUB_OFFLINE:
        return
    try:
        http_backoff("HEAD", constants.ENDPOINT, timeout=SECONDS, max_retries=2)
    except (httpx.HTTPError, OSError) as error:
        reason = str(error).splitlines()[0]
        print(
            f"the Hub, {constants.ENDPOINT}, does not answer ({reason}): using what was downloaded before",
            file=sys.stderr,
        )
        _go_offline()


def is_offline() -> bool:
    """Whether what is not in the cache cannot be had, for `reach` has found so or the environment says so."""
    return constants.HF_HUB_OFFLINE


@contextlib.contextmanager
def unasked() -> Iterator[None]:
    """While the block runs the Hub is not asked for anything: what a folder's files name is nobody's wish."""
    before, constants.HF_HUB_OFFLINE = constants.HF_HUB_OFFLINE, True
    try:
        yield
    finally:
        constants.HF_HUB_OFFLINE = before


def _go_offline():
    import datasets

    os.environ["HF_HUB_OFFLINE"] = "1"
    constants.HF_HUB_OFFLINE = datasets.config.HF_HUB_OFFLINE = datasets.config.HF_DATASETS_OFFLINE = True
