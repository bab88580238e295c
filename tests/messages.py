"""The messages that tests hold, word for word, in tests/messages.txt: their English can be mended
in the product, and the file is then made again and read as a diff:

    UPDATE_MESSAGES=1 python -m pytest tests/schema -m "not slow"
"""

import fcntl
import os
import tempfile
from pathlib import Path

FILE = Path(__file__).with_name("messages.txt")
HEADING = "## "


def recorded_messages() -> dict[str, str]:
    """Map the name of a test, with its case, to the message it must see."""
    messages = {}
    if FILE.is_file():
        sections = ("\n" + FILE.read_text(encoding="utf-8")).split("\n" + HEADING)
        for section in sections[1:]:
            name, _, text = section.partition("\n")
            messages[name] = text.rstrip("\n")
    return messages


def without_places(text: str, places: dict[str, str]) -> str:
    """Put a name in place of every folder that differs from machine to machine."""
    for folder in sorted(places, key=len, reverse=True):
        text = text.replace(folder, places[folder])
    lines = [line.rstrip() for line in text.strip("\n").splitlines()]
    return "\n".join(lines)


def check_message(name: str, text: str) -> None:
    """Compare a message with the recorded one, or record it where UPDATE_MESSAGES is set."""
    if os.environ.get("UPDATE_MESSAGES"):
        record(name, text)
    expected = recorded_messages().get(name)
    assert expected is not None, f"{FILE.name} has no message of {name}: it says\n{text}"
    assert text == expected, "if the new message is right, record it with UPDATE_MESSAGES=1"


def record(name: str, text: str) -> None:
    """Write a message into the file, while other workers wait."""
    lock = Path(tempfile.gettempdir(), f"messages-{os.getuid()}.lock")
    with lock.open("w") as handle:
        fcntl.lockf(handle, fcntl.LOCK_EX)
        messages = recorded_messages() | {name: text}
        sections = [f"{HEADING}{key}\n{messages[key]}\n" for key in sorted(messages)]
        FILE.write_text("\n".join(sections), encoding="utf-8")
