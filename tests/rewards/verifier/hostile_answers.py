"""Answers made to hang a verifier, or to take all memory."""

from tests.tables import rows

SURD = r"\sqrt{2}"
# Answers that the algebra, or a regular expression on the way to it, may take very long over.
HOSTILE = {row["case"]: row["text"] for row in rows(__file__, "hostile")}
HOSTILE |= {
    "powers times powers": r"\sqrt{2}" + r"\cdot 9999^{9999}" * 30,
    "nested roots": r"\sqrt{2+" * 40 + "2" + "}" * 40,
    "nested fractions": r"\frac{1}{1+" * 40 + r"\sqrt{2}" + "}" * 40,
    "nested parentheses": "(" * 400 + r"\sqrt{2}" + ")" * 400,
    "shallow parentheses": "(" * 11 + r"\sqrt{2}" + ")" * 11,
    "open parentheses": "(" * 900,
    "open braces": "{" * 900,
    "many terms": "+".join(rf"\sqrt{{{n}}}" for n in range(2, 60)),
    "product of sums": "".join(rf"(\sqrt{{{n}}}+1)" for n in range(2, 60)),
    "trigonometry": r"\sin(" * 15 + "2" + ")" * 15,
    "100,000 digits": "7" * 100_000,
    "100,000 letters": "a" * 100_000,
    "100,000 backslashes": "\\" * 100_000,
    "100,000 spaces": " " * 100_000 + "5",
    "900 spaces": "5" + " " * 900 + "x",
    "900 commas": "," * 900,
    "900 minus signs": "-" * 900 + r"\sqrt{2}",
    "900 dollars": "$" * 900,
    "many numbers": "1," * 450,
    "many fractions": r"\frac" * 180 + "12",
    "many texts": r"\text{" * 150,
    "many hats": r"\hat" * 45 + ",",
    "many number words": "trentatre" * 22 + "x",
    "many ors": "1 or " * 180,
    "digits and spaces": "1 " * 450,
    "decimal places": "0." + "3" * 900 + r"\sqrt{2}",
    "repeating": "0." + "12" * 400 + "...",
    "matrix of powers": r"\begin{pmatrix}" + r"9^{9^9} & " * 60 + r"1\end{pmatrix}",
    "unicode": "९" * 300 + "½" * 300 + "√" * 300,
    "control characters": "\x00\x01\x02" * 200,
    "lone surrogate": "\ud800" * 100,
    "words": "one hundred thousand and " * 35,
}
LONG = [tag * 20_000 for tag in ("<think>", r"\boxed{", "<answer>", "</think>")]
LONG += [piece * 9000 for piece in ("the answer is ", "the answer to ", "Answer: 16. ")]
LONG += ["".join(rf"\boxed{{{n}}}" for n in range(9000)), "#" * 100_000]
LONG += ["".join(f"<answer>{n}</answer>" for n in range(9000))]
LONG += [r"\boxed{17} " * 20_000 + "or 6", "<answer>17</answer>" * 20_000 + "<answer>6</answer>"]
LONG += [r"\boxed{" * 20_000 + "17" + "}" * 20_000]
LONG += [f"<answer>{'She is 5 ' * 20_000}\nx</answer>", "<answer>5</answer></think>" * 9000]
LONG += ["<answer>" + "**\n" * 9000 + "</answer>", "5\n" + "so a " * 20_000 + "."]
