"""A chat template is a program, written by the makers of the recipe or the model. jinja's sandbox keeps it away from
files and from Python but limits neither its time nor its output, so it is first tried in a process of its own."""

import multiprocessing
import resource
import signal
import warnings

from data import prompt
from schema.faults import Fault, Place, RecipeError

SECONDS = 5  # of CPU time for the conversations below; a normal template takes milliseconds
GIB = 2**30  # beyond what the process has already
CHARACTERS = 20_000  # beyond the conversation; the longest instructions of a known template have some 5,000


def require_harmless(tokenizer, system: str | None, place: Place | str):
    """Render short conversations with the tokenizer's chat template. A template that fails only at some later question
    stops or hangs that run, but still reaches no file and no network.

    Raises:
        RecipeError: it fails, takes longer than `SECONDS` or more than a GiB, or writes far more than it was given.
    """
    context = multiprocessing.get_context("fork")  # a fork has everything imported already
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_write, args=(tokenizer, system, sender), daemon=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads, none of which the child needs
        process.start()
    sender.close()
    try:
        late = f"takes more than {SECONDS} s for a few short questions"
        complaint = receiver.recv() if receiver.poll(10 * SECONDS) else late
        process.kill()
    except EOFError:
        process.join()
        complaint = late if process.exitcode == -signal.SIGXCPU else "ended the process that tried it"
    process.join()
    if complaint:
        raise RecipeError([Fault(place, f"the chat template {complaint}")])


def _write(tokenizer, system: str | None, sender):
    with open("/proc/self/statm") as statm:  # noqa: PTH123
        pages = int(statm.read().split()[0])
    most = pages * resource.getpagesize() + GIB
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))  # of this process, however busy the machine is
    sender.send(_complaint(tokenizer, system))


def _complaint(tokenizer, system: str | None) -> str | None:
    answered = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "!"}]
    for question in ("?", "What is 2 + 2? " * 200):
        for conversation in (prompt.messages(question, system), prompt.messages(question, None), answered):
            given = sum(len(turn["content"]) for turn in conversation)
            for opened in (True, False):
                try:
                    text = tokenizer.apply_chat_template(conversation, add_generation_prompt=opened, tokenize=False)
                    if len(text) > 3 * given + CHARACTERS:
                        return f"writes {len(text):,} characters for {given:,}"
                    if conversation is not answered and question.strip() not in text:
                        return "does not write the question"
                    tokens = len(tokenizer(text, add_special_tokens=False)["input_ids"])
                    if tokens > 3 * given + CHARACTERS:
                        return f"makes {tokens:,} tokens of {given:,} characters"
                except MemoryError:
                    return "takes more than a GiB for a short question"
                except BaseException as error:  # whatever the template is made to raise, or the tokenizer's Rust
                    return f"fails: {type(error).__name__}: {' '.join(str(error).split())}"
    return None
