r"""Near misses of real golds: which of them does the verifier pay?

    MATH_DATA_DIR=folder python -m tests.bench.mutations 20000 paid.jsonl

It changes golds in one respect, judges the changed answer in an `<answer>` block with its question
and writes those that are paid. Some equal the gold, as a set in another order: read the file.
"""

import json
import random
import re
import sys
from collections import Counter
from pathlib import Path

from data.problems import load
from rewards.verifier import judge_all
from rewards.verifier.gold import gold_answer

UNITS = """feet inches,inches feet,miles kilometers,kilometers miles,meters centimeters,cm m,
hours minutes,minutes hours,seconds minutes,days weeks,weeks days,years months,dollars cents,
cents dollars,pounds ounces,degrees radians,gallons liters,square cubic,cubic square"""
UNIT_PAIRS = [pair.split() for pair in UNITS.split(",")]
BOUNDS = {r"\le": "<", r"\leq": "<", r"\ge": ">", r"\geq": ">", "<": r"\le ", ">": r"\ge "}
BOUNDS |= {"(": "[", "[": "(", ")": "]", "]": ")"}
FACTORS = ["2({})", "{}0", r"\frac{{{}}}{{2}}", r"{}\pi", r"10 \cdot {}", "{}^2", "{}!"]
PART = r"\\pi|\\sqrt|[+-] ?\d+$|\\cup.*|(?<=\d)[a-z]\b"


def one_replaced(text, pattern, replacement, rng):
    """Replace one match of the pattern; None where it has none."""
    matches = list(re.finditer(pattern, text))
    if not matches:
        return None
    start, end = rng.choice(matches).span()
    return text[:start] + replacement(text[start:end]) + text[end:]


def parts(gold):
    """Split a flat list: what opens, its parts, what closes. A number's commas split nothing."""
    opening, inner, closing = re.fullmatch(r"(?s)([(\[]?)(.*?)([)\]]?)", gold.strip()).groups()
    nested = re.search(r"[(\[{].*,", inner) or re.fullmatch(r"\d{1,3}(,\\?!?\d{3})+", gold)
    return opening, [inner] if nested else inner.split(","), closing


def order(gold, question, rng):
    opening, values, closing = parts(gold)
    return opening + ",".join(values[1:] + values[:1]) + closing


def part_left_out(gold, question, rng):
    opening, values, closing = parts(gold)
    if len(values) > 1:
        return opening + ",".join(values[:-1]) + closing
    return one_replaced(gold, PART, lambda text: "", rng)


def unit(gold, question, rng):
    for name, another in UNIT_PAIRS:
        if re.search(rf"\b{name}\b", gold):
            return re.sub(rf"\b{name}\b", another, gold, count=1)
    asked_units = [pair[1] for pair in UNIT_PAIRS if re.search(rf"\b{pair[0]}\b", question)]
    if not asked_units or re.search(r"[,=<>]|\\text|\\mbox", gold):
        return None
    return f"{gold} {rng.choice(asked_units)}".replace("square", "square units")


def sign(gold, question, rng):
    inner = one_replaced(gold, r"(?<=[\w)} ])[+-](?=[\w\\( ])", lambda sign: "-+"[sign == "-"], rng)
    return inner or (gold[1:] if gold.startswith("-") else f"-{gold}")


def digit(gold, question, rng):
    return one_replaced(gold, r"\d", lambda text: str((int(text) + rng.randint(1, 9)) % 10), rng)


def bound(gold, question, rng):
    changed = one_replaced(gold, r"\\[lg]eq?(?![a-z])|[<>]", BOUNDS.get, rng)
    if changed or not re.search(r"\\infty|\\cup|\\in\b|^\[|\]$", gold):
        return changed
    return one_replaced(gold, r"[()\[\]]", BOUNDS.get, rng)


def factor(gold, question, rng):
    return rng.choice(FACTORS).format(gold)


def exponent(gold, question, rng):
    return one_replaced(gold, r"(?<=\^)\d|(?<=\^\{)\d+", lambda text: str(int(text) + 1), rng)


MUTATIONS = [order, part_left_out, unit, sign, digit, bound, factor, exponent]


def main():
    rows = load("gsm8k", "train", {})[0] + load("math", "train", {})[0]
    rng = random.Random(0)
    made = Counter()
    changed = {}
    for row in rng.sample(rows, len(rows)):
        gold = gold_answer(row["solution"])
        for mutate in MUTATIONS if gold else []:
            answer = mutate(gold, row["problem"], rng)
            if answer and answer != gold:
                made[mutate] += 1
                changed[row["problem"], answer] = (mutate.__name__, gold, made[mutate])
    pairs = sorted(changed, key=lambda pair: changed[pair][2])[: int(sys.argv[1])]
    blocks = [f"<think>Let me see.</think><answer>{answer}</answer>" for _, answer in pairs]
    golds = [changed[pair][1] for pair in pairs]
    verdicts = judge_all(blocks, golds, [problem for problem, _ in pairs])
    paid = []
    for pair, verdict in zip(pairs, verdicts, strict=True):
        if verdict.correct:
            paid.append([*changed[pair][:2], pair[1], verdict.reason, pair[0]])
    Path(sys.argv[2]).write_text("\n".join(json.dumps(line) for line in paid), encoding="utf-8")
    print(Counter(changed[pair][0] for pair in pairs), "paid", Counter(line[0] for line in paid))


if __name__ == "__main__":
    main()
