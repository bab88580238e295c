"""What a stage prints for a person, and what it writes as Markdown. It prints once, whatever the
number of processes. Texts of strangers can neither rewrite the terminal nor hide in it, and
commands can be pasted whatever the names in them hold.
"""

import logging
import os
import re
import shlex
import sys
import warnings
from collections.abc import Sequence
from typing import Protocol

# What a terminal or a reader obeys or does not see: controls, marks of direction, line separators,
# blank letters, variation selectors, tags, lone surrogates and private characters.
# viewer/page/text.js has the same (test_page.py).
UNSEEN = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\u2800\u3164\ud800-\udfff\ue000-\uf8ff\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U0010ffff"
)
# Persian and Hindi are not written without joiners, nor many emoji without U+FE0F: one stays after
# such a character.
JOINED = r"\u0600-\u109f\u2190-\u2bff\U0001f000-\U0001faff"
UNSEEN = rf"[{UNSEEN}]|(?<![{JOINED}])[\u200c\u200d\ufe0f]|[\u200c\u200d](?![{JOINED}])"
_UNSEEN = re.compile(UNSEEN)


def is_main_process() -> bool:
    return int(os.environ.get("RANK", 0)) == 0


def say(text: str = ""):
    """Print once, whatever the number of processes."""
    if is_main_process():
        print(clean(text), flush=True)


def complain(text: str):
    """Print what is wrong: on a terminal in red, where the eye finds it."""
    if sys.stderr.isatty():
        from rich.console import Console
        from rich.text import Text

        Console(stderr=True).print(Text(clean(text), "red"), soft_wrap=True)
    else:
        print(clean(text), file=sys.stderr)


def clean(text: str) -> str:
    r"""With what a terminal would obey or a reader not see spelled out, as `\x1b`; line breaks and
    tabs stay."""
    return _UNSEEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def say_markdown(text: str):
    """Print a text with tables: drawn where a person looks on, as it is in a file or a pipe."""
    if sys.stdout.isatty() and is_main_process():
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(clean(text)))
    else:
        say(text)


def quiet_libraries():
    """Keep the libraries' notes off the screen; their errors, and on the first process their
    warnings, stay."""
    import transformers

    # A checkpoint has only one of two tied weights, so a resumed run reports the other as missing.
    _drop_notes("transformers.trainer", "There were missing keys in the checkpoint model loaded")
    # The same batch may be divided among more processes than before; we refuse a run whose batch
    # has changed.
    _drop_notes("transformers.trainer_utils", "do not match the ones in the `trainer_state.json`")
    # DeepSpeed calls torch's collectives by former names, at each step.
    warnings.filterwarnings("ignore", "`torch.distributed", FutureWarning)
    # No recipe changes the vocabulary, and training/train.py keeps peft from asking the Hub
    # whether it was changed.
    warnings.filterwarnings("ignore", "Unable to fetch remote file|Could not find a config file in")
    transformers.utils.logging.disable_progress_bar()
    if not is_main_process():
        transformers.utils.logging.set_verbosity_error()
        warnings.simplefilter("ignore")


def _drop_notes(logger: str, text: str):
    """Drop a logger's messages that contain the text."""
    logging.getLogger(logger).addFilter(lambda record: text not in record.getMessage())


# In Markdown, what others wrote is one of these ---------------------------------------------------


def duration(seconds: float) -> str:
    """The seconds as a person would say them: 8.3 h, 2 min, 45 s."""
    if seconds > 5400:
        return f"{seconds / 3600:.1f} h"
    if seconds > 90:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.0f} s"


def code(text: object, longest: int = 200) -> str:
    """A text as inline code, on one line, which it cannot end."""
    line = " ".join(clean(str(text)).split()).replace("`", "'") or " "
    if len(line) > longest:
        line = line[:longest] + "…"
    return f"`{line}`"


def inline(name: object) -> str:
    """A name as it is where it is only words, which Markdown does not read as anything else;
    otherwise as code."""
    name = clean(str(name))
    return name if re.fullmatch(r"[^\W_][\w &+-]*", name) else code(name)


def fenced(text: str, language: str = "") -> list[str]:
    """A text as a block of code: its fence is longer than any in it, so that it cannot end the
    block."""
    fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
    return [fence + language, clean(text).rstrip(), fence]


def row(cells: Sequence[str]) -> str:
    """A row of a table. A | in a cell, in code too, begins no other one."""
    escaped = [cell.replace("|", r"\|") for cell in cells]
    return " | ".join(["", *escaped, ""]).strip()


def table(rows: list[list[str]], ruler: Sequence[str] = ()) -> list[str]:
    """The lines of a table, the first of its rows the head. `ruler` aligns the columns: by default
    all but the first hold numbers."""
    ruler = ruler or ["---", *["---:"] * (len(rows[0]) - 1)]
    return list(map(row, [rows[0], ruler, *rows[1:]]))


# Commands -----------------------------------------------------------------------------------------


class AskedFor(Protocol):
    """A recipe, as far as a command names it: `asked_for` holds make's options of it."""

    asked_for: dict[str, str | list]


def make_command(target: str, recipe: AskedFor, **options: list) -> str:
    """The `make` line for a recipe and the overrides and the launcher it was asked for with, as the
    next step a stage prints. `options`: see `make_line`."""
    # What stands on make's command line is in the environment of what it runs.
    launcher = {name: os.environ[name] for name in ("ACCELERATE", "PROCESSES") if os.getenv(name)}
    return make_line(target, **recipe.asked_for, **launcher, **options)


def make_line(target: str, **options: str | list) -> str:
    """A `make` command as it can be pasted, whatever is in its options: the shell runs nothing of
    it, and make, which takes an option as it stands, neither. A list is several words, which
    stages/make.py parts again.
    """
    words = [make_option(name, value) for name, value in options.items()]
    return " ".join(["make", target, *words])


def make_option(name: str, value: str | list) -> str:
    """An option of a `make` command, as `ARGS="a 'b c'"` for the words a and b c: see
    `make_line`."""
    if isinstance(value, list):
        value = " ".join(_quoted_word(str(word)) for word in value)
    quoted = shlex.quote(value)
    # In double quotes it reads better; but an ! there would recall an older command.
    if quoted == value or re.search(r'["$`\\!]', value):
        return f"{name}={quoted}"
    return f'{name}="{value}"'


def _quoted_word(word: str) -> str:
    return shlex.quote(word) if re.search(r"[\s'\"\\]|^$", word) else word
