"""How a sentence gives an answer, and what in it makes the answer less than one: tables as in phrases.py."""

from rewards.verifier.phrases import DENIAL, DOUBT, Phrase, Table

LONGEST_SENTENCE = 1000  # characters of a sentence with an answer; a longer answer is wrong anyway

# What announces an answer that goes on to the end of the sentence.
STATEMENTS = Table(
    "{}",
    Phrase(
        '"the answer is"',
        r"(?:final\s+)?answers?(?:\s+to\s[^.\n]{0,60})?\s*\**\s*"
        r"(?:(?:is|are|would be)(?:\s+(?:therefore|thus|hence|then|clearly|indeed|simply|just|exactly|equal to)\b)*"
        r"|=|:)\s*:?",
        matches=("We add. The answer is 5.", "**Answer:** 5", "The answer to the question would be exactly 5."),
        spares=("I answer with 5.",),
    ),
    Phrase(
        "a heading",
        r"#{1,6} *(?:final )?answer\s*\n",
        matches=("## Final answer\n5", "# Answer\n\n5"),
        spares=("## Answer 5",),
    ),
    Phrase("GSM8K's mark", r"####", matches=("We add.\n#### 5",), spares=("### 5",)),
    Phrase("Chinese", r"答案\s*(?:是|为|為|:|：)", matches=("答案是5。", "答案：5"), spares=("答案5",)),
    Phrase(
        "Spanish",
        r"(?:la\s+)?respuesta\s*(?:final\s*)?(?:es|:)",
        matches=("La respuesta es 5.", "Respuesta final: 5"),
        spares=("La respuesta 5",),
    ),
    Phrase(
        "French",
        r"(?:la\s+)?réponse\s*(?:finale\s*)?(?:est|:)",
        matches=("La réponse est 5.", "Réponse finale : 5"),
        spares=("La réponse 5",),
    ),
    Phrase(
        "German",
        r"(?:die\s+)?antwort\s*(?:ist|lautet|:)",
        matches=("Die Antwort lautet 5.", "Antwort: 5"),
        spares=("Die Antwort 5",),
    ),
    Phrase("Russian", r"ответ\s*(?:—|-|:)?", matches=("Ответ: 5", "Ответ — 5"), spares=("Отвёт: 5",)),
    head="(?i)",
    tail=rf"\s*\**\s*(?P<answer>[^\n]{{1,{LONGEST_SENTENCE + 1}}})",
)

_VERB = (
    r"(?:is|are|was|were|be|equals|has|have|had|costs?|makes?|made|earns?|gets?|got|needs?|takes?|spends?|spent|pays?|paid|"
    r"sells?|sold|uses?|used|buys?|bought|saves?|eats?|ate|receives?|received)"
)

# Whole sentences whose answer is what the one group of the phrase holds.
SENTENCES = Table(
    "{}",
    Phrase(
        "a subject, a verb and a number",
        rf"[A-Z][^.\d\\$=]{{1,80}}?\b{_VERB}\s+(?:exactly\s+)?([^A-Za-z]*\d.*?)"
        r"(?:\s+(?:in total|in all|altogether)\.?)?",
        matches=("She makes $18 every day.", "They have exactly 5 eggs in total."),
        spares=("She makes about $18.", "18 dollars", "it is 5"),
    ),
    Phrase(
        "a label",
        r"(?!Option|Choice)[A-Z][A-Za-z ]{2,40}:\s*(.*)",
        matches=("Total: $18", "Eggs left: 5"),
        spares=("Option: B", "x: 5"),
    ),
    Phrase(
        "the option is",
        r"(?:The )?(?:correct |right )?(?:option|choice|answer) is (\(?[A-J]\)?)\.?",
        matches=("The correct option is B.", "choice is (C)"),
        spares=("The option is Bob.",),
    ),
    Phrase(
        "an option is correct",
        r"(\(?[A-J]\)?) is (?:the )?(?:correct|right)(?: (?:option|choice|answer))?\.?",
        matches=("(B) is correct.", "C is the right answer"),
        spares=("Bob is right",),
    ),
    Phrase(
        "a name",
        r"(?:It's|It is|The [a-z ]{1,60} (?:is|was)) ([A-Z][a-z]+)\.?",
        matches=("It's Bob.", "The fastest of them was Alice"),
        spares=("It is Bob Smith.", "It is red"),
    ),
)

# Doubts and denials within an answer.
HEDGES = Table(
    "doubted or denied: {}",
    Phrase(
        "a word of denial",
        DENIAL,
        matches=("It is wrong that she has 5 eggs.", "She doesn't say that she has 5 eggs."),
        spares=("She knows that she has 5 eggs.",),
    ),
    Phrase(
        "a word of doubt",
        DOUBT,
        matches=("Maybe she has 5 eggs.", "I guess she has 5 eggs.", "She has 5 eggs since they could break."),
        spares=("The guests have 5 eggs.",),
    ),
    Phrase("a question mark", r"\?", matches=("Really? It is 5.",), spares=("Really! It is 5.",)),
)

_KEPT_WHOLE = "the sentence is kept whole: {} beside its answer"
# Asked of the sentence without its answer.
RESERVATIONS = Table(
    _KEPT_WHOLE,
    *HEDGES.phrases,
    Phrase(
        "nobody or nothing",
        r"\b(?:nobody|nothing|none|no one|no-one|hardly|no way)\b",
        matches=("Nobody has 5 eggs.", "Hardly a hen has 5 eggs."),
        spares=("Everybody has 5 eggs.",),
    ),
    Phrase(
        "a bound",
        r"\b(?:than|at (?:least|most)|between|up to|bounds?|limit|over|under|exceeds?)\b",
        matches=("More than one hen has 5 eggs.", "The lower bound is 5.", "At least one of them has 5 eggs."),
        spares=("The boundary is 5 km.",),
    ),
    Phrase(
        "an approximation",
        r"\b(?:about|approx\w*|roughly|around|nearly|almost|close to|estimated?)\b",
        matches=("Almost every hen has 5 eggs.", "The estimated number is 5.", "The approximation is 5."),
        spares=("The estimation is 5.",),
    ),
    Phrase(
        "an exception",
        r"\b(?:anything|everything|except|instead)\b",
        matches=("Everything costs 5 dollars.", "Instead he pays 5 dollars."),
        spares=("Everyone pays 5 dollars.",),
    ),
    Phrase(
        "a sign or a factor",
        r"\b(?:negative|minus|twice|half)\b",
        matches=("Half the number is 5.", "The answer minus one equals 5."),
        spares=("The halves are 5 kg each.",),
    ),
    Phrase(
        "a reservation",
        r"\b(?:unclear|seems?|used to|supposedly|refuse)\b",
        matches=("It seems that she has 5 eggs.", "She supposedly has 5 eggs."),
        spares=("The seam is 5 cm.",),
    ),
)
# Asked of the reason given behind an answer.
DOUBTFUL_REASONS = Table(
    _KEPT_WHOLE,
    *RESERVATIONS.phrases,
    Phrase(
        "an extreme or a possibility",
        r"\b(?:minimum|maximum|possible|well)\b",
        matches=("5, which is the minimum", "5 because 6 is possible too"),
        spares=("5, which is prime", "5 because the others are odd"),
    ),
)


def hedge(answer: str) -> str | None:
    """How `answer` doubts or denies what it says, or None if it does neither."""
    return HEDGES.search(answer.lower())
