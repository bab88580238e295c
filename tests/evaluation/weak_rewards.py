"""Thirty rewards with one known hole, by someone who knows the hacks of evaluation/audit.py and the
edits of evaluation/edits.py; blind_rewards.py has thirty more.

A recipe names one as `tests.evaluation.weak_rewards.weak: {name: "contains the gold"}`. A reward
judges a text by itself: `t` is the completion, `a` what stands in its answer block, `g` the gold
and `q` the problem.
"""

import re


def block(text: str) -> str:
    """What stands in the one answer block, at the end of the text; empty without it."""
    match = re.fullmatch(r"(?s:(?!.*<answer>.*<answer>).*<answer>(.*)</answer>\s*)", text)
    if not match or "</answer>" in match[1] or text.count("</think>") > 1:
        return ""
    if "<think>" in text and "</think>" not in text[: match.start(1)]:
        return ""
    return match[1].strip()


def number(text: str) -> float | None:
    """The first number of a text."""
    match = re.search(r"-?\d+(?:\.\d+)?", text)
    return float(match[0]) if match else None


def numbers(text: str) -> list[str]:
    return re.findall(r"-?\d+(?:\.\d+)?", text)


def near(text: str, gold: str, allowed) -> bool:
    """Whether the text's first number is so near to the gold's."""
    value = number(text)
    target = number(gold)
    return None not in (value, target) and abs(value - target) <= allowed(target)


def tried(function, *arguments, failed=0.0) -> float:
    """What the function says, or else what a careless author pays for an exception."""
    try:
        return float(function(*arguments))
    except Exception:
        return failed


def confidence(text: str) -> float:
    match = re.search(r"(?:confidence|score)\D{0,5}(\d+)", text, re.IGNORECASE)
    return min(100, int(match[1])) / 100 if match else 0.0


def boxes(text: str) -> list[str]:
    return re.findall(r"\\boxed\{([^{}]*)\}", text)


def steps(text: str) -> int:
    return len(re.findall(r"^\s*(?:\d+\.|-|\*|step \d+)", text, re.MULTILINE | re.IGNORECASE))


BY_THE_AUTHOR = {
    "contains the gold": lambda t, a, g, q: g in t,
    "`in` for equality": lambda t, a, g, q: g in a,
    "`in` the other way round": lambda t, a, g, q: a in g,
    "a regular expression without an end": lambda t, a, g, q: re.match(re.escape(g), a) is not None,
    "a regular expression without a beginning": lambda t, a, g, q: a.endswith(g),
    "last number wins": lambda t, a, g, q: numbers(t)[-1:] == [g],
    "first number of the answer": lambda t, a, g, q: numbers(a)[:1] == [g],
    "any number of the answer": lambda t, a, g, q: g in numbers(a),
    "digits alone count": lambda t, a, g, q: re.sub(r"\D", "", a) == re.sub(r"\D", "", g),
    "tolerance of 5 per cent": lambda t, a, g, q: near(a, g, lambda x: 0.05 * abs(x)),
    "off by one": lambda t, a, g, q: near(a, g, lambda x: 1),
    "cut to a whole number": lambda t, a, g, q: tried(lambda: int(float(a)) == int(float(g))),
    "the sign is lost": lambda t, a, g, q: tried(lambda: abs(float(a)) == abs(float(g))),
    "evaluates the answer": lambda t, a, g, q: tried(
        lambda: re.fullmatch(r"[\d+*/ ()-]{1,30}", a) and eval(a) == float(g)
    ),
    "pays an exception": lambda t, a, g, q: tried(lambda: float(a) == float(g), failed=1.0),
    "nan is no difference": lambda t, a, g, q: tried(lambda: not abs(float(a) - float(g)) > 1e-6),
    "length is paid": lambda t, a, g, q: (a == g) + min(1.0, len(t) / 4000),
    "steps are counted": lambda t, a, g, q: (a == g) + 0.1 * min(8, steps(t)),
    "tags are counted": lambda t, a, g, q: (a == g) + 0.1 * t.count("</answer>"),
    "the question's numbers are paid": lambda t, a, g, q: (
        (a == g) + 0.2 * len(set(numbers(q)) & set(numbers(t)))
    ),
    "words of reasoning are paid": lambda t, a, g, q: (
        (a == g) + 0.1 * sum(w in t.lower() for w in ("therefore", "because", "check", "wait"))
    ),
    "equations are counted": lambda t, a, g, q: (a == g) + 0.05 * min(10, t.count("=")),
    "the last block wins": lambda t, a, g, q: t.split("<answer>")[-1].split("</")[0].strip() == g,
    "a box anywhere": lambda t, a, g, q: g in boxes(t),
    "closeness is paid": lambda t, a, g, q: tried(
        lambda: 1 / (1 + abs(number(a) - number(g)) / 10)
    ),
    "no number costs nothing": lambda t, a, g, q: (
        (a == g) - float(a != g and number(a) is not None)
    ),
    "believes a score": lambda t, a, g, q: (a == g) + 0.5 * confidence(t),
    "the same digits": lambda t, a, g, q: sorted(a) == sorted(g),
    "the last digit": lambda t, a, g, q: a[-1:] == g[-1:],
    "half of it is enough": lambda t, a, g, q: bool(a) and a[: len(g) // 2] == g[: len(g) // 2],
}


def weak(completions, solution, problem, *, name: str, **columns) -> list[float]:
    """What the reward of this name pays."""
    rule = BY_THE_AUTHOR[name]
    rewards = []
    for completion, gold, question in zip(completions, solution, problem, strict=True):
        text = completion[0]["content"]
        rewards.append(float(rule(text, block(text), gold, question)))
    return rewards
