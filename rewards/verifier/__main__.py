"""Judge lines of JSON from stdin to stdout, in order: `grpo-verifier < answers.jsonl`, or
`python -m rewards.verifier` where it is not installed.

A line has an `answer`, which is the whole completion, its `gold`, and perhaps its `question`. The
output has a line for it, with the verdict and the other keys of the input. A line that cannot be
judged leads to a line with its number and its error, and the exit code is then 1. Lines are judged
as they come, and only one of them is in memory.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import BinaryIO

from . import CONTRACT, judge
from .extract import READINGS

_LONGEST = 4 << 20  # bytes of a line; more of a longer one are not kept in memory
_KEYS = ("answer", "gold", "question")


def main() -> int:
    """Judge stdin and return the exit code: 1 if a line could not be judged."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    where = "where the answer may stand"
    parser.add_argument("--reading", choices=READINGS, default=CONTRACT, help=where)
    options = parser.parse_args()
    code = 0
    try:
        for number, line in enumerate(_lines(sys.stdin.buffer), 1):
            try:
                reply = _judged(line, options.reading)
            except ValueError as error:
                reply = {"line": number, "error": str(error)}
                code = 1
            print(json.dumps(reply), flush=True)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # `| head` has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return code


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    """Yield every line as it arrives, of one that is too long its beginning."""
    is_new = True
    for line in iter(lambda: stream.readline(_LONGEST + 1), b""):
        if is_new:
            yield line
        is_new = line.endswith(b"\n")


def _judged(line: bytes, reading: str) -> dict:
    """Return the object of a line with its verdict in place of what was judged.

    Raises:
        ValueError: the line cannot be judged; the message has the cause.
    """
    if len(line) > _LONGEST:
        raise ValueError(f"longer than {_LONGEST:,} bytes")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"not JSON: {error}") from None
    if not isinstance(row, dict):
        raise ValueError("not an object")
    if type(row.get("gold")) in (int, float):
        row["gold"] = json.dumps(row["gold"])
    if "answer" not in row:
        raise ValueError("no `answer`")
    if "gold" not in row:
        raise ValueError("no `gold`")
    answer, gold, question = (row.pop(key, None) for key in _KEYS)
    for key, text in zip(_KEYS, (answer, gold, question), strict=True):
        if not isinstance(text, str | None) or (key == "answer" and text is None):
            raise ValueError(f"`{key}` is not text")
    return row | asdict(judge(answer, gold, question=question, reading=reading))


if __name__ == "__main__":
    sys.exit(main())
