"""Ask a run's policy questions of your own, with the prompt that it was trained with. Each question
stands alone, as in training, and is answered greedily, as in the evaluation. `/gold 42` judges the
last answer as the reward does.

`python -m stages chat outputs/<recipe>/grpo`; questions are read a line at a time, from the
terminal or from a file.
"""

import shlex
import sys
from pathlib import Path

from console.faults import RecipeError
from console.terminal import clean, make_command, quiet_libraries, say
from data import prompt
from data.problems import LONGEST
from machine.launch import on_this_machine
from runs.records import find_runs
from runs.state import recipe_of
from schema.recipe import Recipe
from schema.sections import Sampling
from schema.stages import finished

COMMANDS = """\
/gold 42    judges the last answer as the reward does, with 42 for the correct one
/help       lists these commands
any text    is a question, which stands alone
empty line  ends"""


def main(run: list[str]):
    """Ask a run's policy questions of your own."""
    path = find_runs(run)[0]
    recipe = on_this_machine(recipe_of(path))
    quiet_libraries()
    if not finished(path):
        raise RecipeError([f"{path} is not finished: its policy can be asked when it is"])
    answer = answering(recipe, path)
    say(f"{path}: ask one question a line; /help lists the commands; an empty line ends")
    merged = shlex.quote(str(recipe.stage_dir("merged")))
    say(f"(to serve it to many: {make_command('merge', recipe)}, then vllm serve {merged})")
    sys.stdin.reconfigure(errors="backslashreplace")
    asked_question = ""
    completion = ""
    while True:
        if sys.stdin.isatty():
            print("\n> ", end="", flush=True)
        question = sys.stdin.readline()
        if not question.strip():
            return
        question = clean(question.strip())
        if not sys.stdin.isatty():
            say(f"\n> {question[:1000]}")
        command, _, gold = question.partition(" ")
        if command == "/gold":
            say(verdict(recipe, asked_question, completion, gold))
        elif command == "/help":
            say(COMMANDS)
        elif command.startswith("/"):
            say(f"there is no {command}:\n{COMMANDS}")
        else:
            asked_question = question
            completion = answer(question)


def verdict(recipe: Recipe, question: str, completion: str, gold: str) -> str:
    """The verdict of the recipe's reward on a completion, and its reason, as a line."""
    from evaluation.completions import judged

    if not completion:
        return "ask a question first, then give its correct answer: /gold 42"
    if not gold:
        return "give its correct answer: /gold 42"
    row = {"problem": question, "solution": gold}
    [judgement] = judged([row], [completion], recipe.strict, recipe.tolerance)
    word = {True: "correct", False: "incorrect", None: "not judged"}[judgement["correct"]]
    read = f" (read: {judgement['answer']})" if judgement["answer"] else ""
    return clean(f"{word}: {judgement['reason']}{read}")


def answering(recipe: Recipe, trained: Path):
    """A function that answers a question, prints the answer while the model writes it, and returns
    it."""
    from transformers import TextStreamer

    from evaluation import engines
    from training.model import load_for_sampling, load_tokenizer

    class CleanStreamer(TextStreamer):
        """Prints a model's text without the control characters in it."""

        def on_finalized_text(self, text: str, stream_end: bool = False):
            print(clean(text), end="\n" if stream_end else "", flush=True)

    tokenizer = load_tokenizer(recipe)
    model = load_for_sampling(recipe, tokenizer, trained)
    generation = {}
    if not recipe.tools:  # with tools, the whole transcript is printed at the end
        streamer = CleanStreamer(tokenizer, skip_prompt=True, skip_special_tokens=True)
        generation["streamer"] = streamer
    complete = engines.answering(recipe, model, tokenizer)
    context = getattr(model.config.get_text_config(), "max_position_embeddings", LONGEST)
    longest_prompt = context - engines.max_new_tokens(recipe)

    def answer(question: str) -> str:
        ids = list(prompt.question_ids(tokenizer, question[:LONGEST], recipe.prompt.system))
        if len(ids) > longest_prompt or len(question) > LONGEST:
            say(f"too long: at most {longest_prompt:,} tokens of prompt leave room for an answer")
            return ""
        [completion] = complete([ids], recipe.seed, Sampling(more=generation))
        if completion.turns:
            say(clean(prompt.transcript(completion.turns)))
        return completion.text

    return answer
