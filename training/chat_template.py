"""A chat template and a tokenizer are programs, written by the makers of the recipe or the model. jinja's sandbox and
the tokenizer's Rust keep them away from files and from Python, but limit neither their time nor what they write: so
they are first tried in a process that does."""

from pathlib import Path

from transformers import AutoTokenizer

from data import prompt
from data.limits import Exceeded, limited
from schema.faults import Fault, Place, RecipeError

SECONDS = 20  # of processor time, to load the tokenizer and to write the conversations below
CHARACTERS = 20_000  # beyond the conversation; the longest instructions of a known template have some 5,000


def require_usable(folder: Path, template: str | None, system: str | None, place: Place | str):
    """Try the tokenizer of a folder that has been looked at: write, tokenise and read a few short conversations. One
    that fails only at some later question stops or hangs that run, but still reaches no file and no network.

    Args:
        template: in place of the tokenizer's own.

    Raises:
        RecipeError: it fails, takes longer than `SECONDS` or too much memory, or makes far more of a text than it was
            given.
    """
    try:
        wrong = limited(_complaint, folder, template, system, seconds=SECONDS)
    except Exceeded as error:
        wrong = f"{error} for a few short questions"
    if wrong:
        raise RecipeError([Fault(place, f"the chat template or the tokenizer {wrong}")])


def _complaint(folder: Path, template: str | None, system: str | None) -> str | None:
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except MemoryError:
        raise
    except Exception:  # reported where it is loaded to be used
        return None
    tokenizer.chat_template = template or one_template(tokenizer) or prompt.PLAIN_CHAT_TEMPLATE
    longest = max(map(len, tokenizer.batch_decode([[each] for each in range(len(tokenizer))])), default=0)
    if longest > CHARACTERS:
        return f"reads {longest:,} characters in one token"
    answered = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
    for question in ("?", "What is 2 + 2? " * 200):
        for conversation in (prompt.messages(question, system), prompt.messages(question, None), answered):
            most = CHARACTERS + 3 * sum(len(turn["content"]) for turn in conversation)
            for opened in (True, False):
                try:
                    text = tokenizer.apply_chat_template(conversation, add_generation_prompt=opened, tokenize=False)
                    if conversation is not answered and question.strip() not in text:
                        return "does not write the question"
                    if len(text) > most:
                        return f"writes {len(text):,} characters for a short question"
                    tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
                    if len(tokens) > most or len(tokenizer.decode(tokens)) > most:
                        return f"makes {len(tokens):,} tokens of {len(text):,} characters, or more of these again"
                except MemoryError:
                    raise
                except BaseException as error:  # whatever the template is made to raise, or the tokenizer's Rust
                    return f"fails: {type(error).__name__}: {' '.join(str(error).split())}"
    return None


def one_template(tokenizer) -> str | None:
    """The template that a tokenizer writes conversations with; some hold one for tools or documents beside it."""
    template = tokenizer.chat_template
    return template.get("default") if isinstance(template, dict) else template
