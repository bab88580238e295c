"""The lenient reading: the last number of a completion that has no answer by the contract.

It is what the filter `flexible-extract` of lm-evaluation-harness takes, so that the lenient column
compares with published numbers. No reward reads so.
"""

import re

_NUMBER = re.compile(r"-?[$0-9.,]*[0-9][$0-9.,]*")


def last_number(visible: str) -> str | None:
    """Return the last number of a text, without its dollar sign and commas; None without one."""
    numbers = _NUMBER.findall(visible)
    if not numbers:
        return None
    return re.sub("[$,]", "", numbers[-1]).rstrip(".") or None
