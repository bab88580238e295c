"""The examples in examples.tsv, by the table of the verifier and the name of the entry."""

from pathlib import Path
from typing import NamedTuple


class Examples(NamedTuple):
    """The texts that an entry matches, and similar texts that it spares.

    Each text that it matches leads to what the entry makes of it, or to None where it changes
    nothing.
    """

    matches: dict[str, str | None]
    spares: list[str]


def _read() -> dict[tuple[str, str], Examples]:
    examples: dict[tuple[str, str], Examples] = {}
    for line in Path(__file__).with_suffix(".tsv").read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            continue
        table, entry, kind, text, *becomes = line.replace("⏎", "\n").replace("␣", " ").split("\t")
        of_entry = examples.setdefault((table, entry), Examples({}, []))
        if kind == "matches":
            of_entry.matches[text] = becomes[0] if becomes else None
        else:
            assert kind == "spares", line
            of_entry.spares.append(text)
    return examples


EXAMPLES = _read()
