"""What of a completion may hold its answer: the text outside every thought, up to the end of the
turn.

Models think in `<think>`, in other tags, or in a channel of their own; tables/thoughts.tsv has the
tags. A thought never counts, whether it is closed, cut off in its middle, or began in the prompt.
"""

import re
from collections.abc import Sequence

from .tables import rows

# gpt-oss writes `<|channel|>analysis<|message|>`, and `analysis … assistantfinal` where a decoder
# has left the special tokens out.
_FINAL_CHANNEL = re.compile(r"<\|channel\|>\s*final[^<]{0,40}<\|message\|>|assistantfinal")
_CHANNEL = re.compile(r"<\|channel\|>\s*(?:analysis|commentary)|\A\s*analysis(?![ a-z])")
_ANSWER_TAG = re.compile(r"<\s*+(/?)\s*+answer\s*>", re.IGNORECASE)
# a line with which a base model goes on to a question of its own
NEXT_QUESTION = re.compile(
    r"\n\s*+(?:#+ *|\*\*)?(?:question|q|problem|exercise|human|user|instruction)(?: ?\d+)?(?:\*\*)?"
    r" ?:",
    re.IGNORECASE,
)


def _spaced(tag: str) -> str:
    """Return the pattern of a tag with any white space inside its brackets.

    There is no way back into the spaces: a long run of them would be crossed again from each of
    its characters.
    """
    begins, *name, ends = map(re.escape, tag)
    spaced_name = "".join(name).replace("/", r"/\s*+")
    return rf"{begins}\s*+{spaced_name}\s*{ends}"


_TAGS = rows("thoughts.tsv")
_TAG = re.compile(
    "|".join(_spaced(begins) for begins, _, _ in _TAGS)
    + "|(?P<ends>"
    + "|".join(_spaced(ends) for _, ends, _ in _TAGS)
    + ")",
    re.IGNORECASE,
)
_FIRST_CHARACTERS = frozenset(tag[0] for begins, ends, _ in _TAGS for tag in (begins, ends))
END_OF_TURN = re.compile("|".join(re.escape(token) for (token,) in rows("ends.txt")))


def outside_thoughts(completion: str) -> str | None:
    """Return `completion` without its thoughts, or None if a thought is never closed.

    An end without a beginning closes a thought that the prompt opened, or one that began in
    between: the text before it is hidden, unless it has an answer.
    """
    if _CHANNEL.search(completion):
        *_, final = _FINAL_CHANNEL.split(completion)
        if final == completion:
            return None
        completion = final
    if _FIRST_CHARACTERS.isdisjoint(completion):
        return completion
    visible = []
    depth = start = 0
    has_answer = False
    for count, tag in enumerate(_TAG.finditer(completion)):
        if not tag["ends"]:
            # White space between two thoughts is dropped: a run of it would be long again.
            if depth == 0 and (not visible or completion[start : tag.start()].strip()):
                visible.append(completion[start : tag.start()])
            depth += 1
        elif depth:
            depth -= 1
            if depth == 0:
                start = tag.end()
        elif not has_answer:
            text = "\n".join([*visible, completion[start : tag.start()]])
            has_answer = count > 0 and _has_answer_block(text)
            if not has_answer:
                visible.clear()
                start = tag.end()
    if depth == 0:
        return "\n".join([*visible, completion[start:]])
    # A thought that opens after the answer is text after the answer.
    text = "\n".join(visible)
    return text if _has_answer_block(text) else None


def _has_answer_block(text: str) -> bool:
    """Whether `text` has a closed `<answer>` block."""
    blocks, is_closed = answer_blocks(text)
    if is_closed:
        return blocks != []
    return len(blocks) > 1


def answer_blocks(visible: str) -> tuple[list[str], bool]:
    """Return the contents of the `<answer>` blocks, and whether the last is closed."""
    blocks: list[str] = []
    start = None
    for tag in _ANSWER_TAG.finditer(visible):
        if not tag[1]:
            if start is not None:  # opened twice: neither says what the answer is
                blocks.append("")
            start = tag.end()
        elif start is not None:
            blocks.append(visible[start : tag.start()])
            start = None
    if start is None:
        return blocks, True
    return [*blocks, visible[start:]], False


def last_turn(turns: Sequence[str]) -> str:
    """Return the turn that is judged, where tools replied between several: the last, inside the
    thought that the turns before it did not close."""
    last = "".join(turns[-1:])
    is_in_thought = outside_thoughts("".join(turns[:-1])) is None
    return f"<think>{last}" if is_in_thought else last
