"""Does the completion stay in one language?"""

from functools import lru_cache

from rewards.completion import Messages, content, instructions, question
from rewards.language import (
    Word,
    is_japanese,
    language_of,
    script_of,
    sentences,
    speaks,
    weight,
    without_names,
    words_in,
)

_FEWEST = 5  # Words; with fewer a name or a unit would decide.


def language_consistency(
    completions: list[str | Messages],
    prompts: list[str | Messages] | None = None,
    language: list[str | None] | None = None,
    **columns: object,
) -> list[float | None]:
    """The share, 0.0 to 1.0, of the target language's words in the completion's prose (DeepSeek-R1, section 2.3.2).

    The target is the row's `language` (ISO 639-1, such as `en`), or else the language of the prompt's last user
    message, or if that is bare maths of the whole prompt; None where nothing tells. Maths, LaTeX, code, digits, proper
    nouns, and what the prompt itself quotes of another script do not count. Fewer than five words are 1.0. A sentence
    counts once for the target language however often it is repeated, so that repeating it does not dilute the rest, and
    every time against it.

    The whole completion is read, thought and answer alike. Not seen: Latin-script prose dressed up as code or maths.
    """
    prompts = prompts or [""] * len(completions)
    targets = language or [None] * len(completions)
    rewards = []
    for completion, prompt, named in zip(completions, prompts, targets, strict=True):
        asked = language_of(question(prompt)) or language_of(instructions(prompt))
        target = named.lower().replace("_", "-").split("-")[0] if named else asked
        quoted = _foreign_words(question(prompt), target) if target and target == asked else frozenset()
        rewards.append(_share(content(completion), target, quoted) if target else None)
    return rewards


@lru_cache(maxsize=4096)
def _foreign_words(prompt: str, language: str) -> frozenset[str]:
    """Words of other scripts in a prompt of `language`: names and units that an answer has to repeat."""
    own = _scripts(language)
    return frozenset(letters.lower() for words in sentences(prompt) for script, letters in words if script not in own)


def _scripts(language: str) -> set[str]:
    return {"kana", "han"} if language == "ja" else {script_of(language)}


def _share(text: str, language: str, quoted: frozenset[str]) -> float:
    own = foreign = 0.0
    undecided: list[str] = []
    seen: set[tuple[Word, ...]] = set()
    for words in sentences(text):
        mine, others, unsure = _count(words, language, quoted)
        own += 0 if tuple(words) in seen else mine
        foreign += others
        undecided += unsure
        seen.add(tuple(words))
    verdict = speaks(undecided, language)
    own += len(undecided) if verdict else 0
    foreign += len(undecided) if verdict is False else 0
    # In steps of 1/256 a group of equal shares has an exact mean in float32, hence no spurious advantage.
    return round(256 * own / (own + foreign)) / 256 if own + foreign >= _FEWEST else 1.0


def _count(words: list[Word], language: str, quoted: frozenset[str]) -> tuple[float, float, list[str]]:
    """Weights of a sentence's words in `language` and in others, and its undecided words."""
    scripts = _scripts(language)
    own = [word for word in words if word[0] in scripts]
    foreign = 0.0
    if len(own) < len(words):
        strange = [word for word in without_names(words) if word[0] not in scripts]
        foreign = sum(weight(word) for word in strange if word[1].lower() not in quoted)
    if scripts == {"latin"}:
        mine, others, unsure = words_in([letters for _, letters in own], language)
        return mine, foreign + others, unsure
    mine = sum(weight(word) for word in own)
    # Chinese is not Japanese, though both are written in han.
    if own and language in {"ja", "zh"} and is_japanese(words) is (language == "zh"):
        return 0.0, foreign + mine, []
    return mine, foreign, []
