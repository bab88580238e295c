"""Answers made to hang a verifier, or to take all memory."""

from tests.tables import long_text, rows

SURD = r"\sqrt{2}"
# Answers that the algebra, or a regular expression on the way to it, may take very long over.
HOSTILE = {row["case"]: row["text"] for row in rows(__file__, "hostile")}
HOSTILE |= {row["case"]: long_text(row["parts"]) for row in rows(__file__, "repeated")}
HOSTILE["many terms"] = "+".join(rf"\sqrt{{{n}}}" for n in range(2, 60))
HOSTILE["product of sums"] = "".join(rf"(\sqrt{{{n}}}+1)" for n in range(2, 60))
LONG = [tag * 20_000 for tag in ("<think>", r"\boxed{", "<answer>", "</think>")]
LONG += [piece * 9000 for piece in ("the answer is ", "the answer to ", "Answer: 16. ")]
LONG += ["".join(rf"\boxed{{{n}}}" for n in range(9000)), "#" * 100_000]
LONG += ["".join(f"<answer>{n}</answer>" for n in range(9000))]
LONG += [r"\boxed{17} " * 20_000 + "or 6", "<answer>17</answer>" * 20_000 + "<answer>6</answer>"]
LONG += [r"\boxed{" * 20_000 + "17" + "}" * 20_000]
LONG += [f"<answer>{'She is 5 ' * 20_000}\nx</answer>", "<answer>5</answer></think>" * 9000]
LONG += ["<answer>" + "**\n" * 9000 + "</answer>", "5\n" + "so a " * 20_000 + "."]
