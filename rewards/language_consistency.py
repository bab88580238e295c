r"""Does the completion stay in one language?

A word's script settles most languages. Seven in the Latin script differ in their function words
(the, los, nicht, ...), which are nearly half of running prose, so that a change in the middle of a
sentence is seen too. Only text that holds too few of them, and Latin-script languages without a
list here, go to py3langid, which is slower.

Known limits: languages that share another script (Russian and Ukrainian, Arabic and Persian, Hindi
and Marathi) count as one; Japanese and Chinese are told apart by sentence, as are Latin-script
languages without a list; Latin letters inside maths, code and LaTeX commands are never read as
prose.
"""

import re
from collections import Counter
from functools import cache, lru_cache

from rewards.completion import Messages, content, instructions, question

# Letters, vowel signs and joiners of each script; digits and punctuation make no words.
SCRIPTS = {
    "latin": r"A-Za-z\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u024f\u1e00-\u1eff\u0300-\u036f",
    "greek": r"\u0370-\u03ff\u1f00-\u1fff",
    "cyrillic": r"\u0400-\u052f",
    "han": r"\u3005\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f",
    "kana": r"\u3041-\u3096\u309d-\u309f\u30a1-\u30fa\u30fc-\u30ff\uff66-\uff9f",
    "hangul": r"\u1100-\u11ff\u3131-\u318e\uac00-\ud7a3",
    "arabic": (
        r"\u0620-\u065f\u066e-\u06d3\u06d5-\u06ef\u06fa-\u06ff\u0750-\u077f\ufb50-\ufdff\ufe70-\ufefc"
    ),
    "devanagari": r"\u0900-\u0963\u0971-\u097f\u200d",
    "hebrew": r"\u0591-\u05f2",
    "bengali": r"\u0980-\u09e3",
    "tamil": r"\u0b80-\u0be5",
    "telugu": r"\u0c00-\u0c65",
    "thai": r"\u0e01-\u0e3a\u0e40-\u0e4e",
}
UNSPACED = {"han": 2, "kana": 2, "thai": 4}  # Letters to a word in scripts that set no spaces.
CASED = {"latin", "greek", "cyrillic"}

# Languages by script where they have one of their own, or share one and count as one; a script's
# first is its default.
_BY_SCRIPT = {
    "greek": "el",
    "cyrillic": "ru be bg kk mk mn sr uk",
    "han": "zh",
    "kana": "ja",
    "hangul": "ko",
    "arabic": "ar fa ur",
    "devanagari": "hi mr ne",
    "hebrew": "he",
    "bengali": "bn",
    "tamil": "ta",
    "telugu": "te",
    "thai": "th",
}
# The languages in the Latin script that py3langid tells apart here: more of them would make it less
# sure of each.
_LATIN = """af az bs ca cs cy da de en eo es et eu fi fr ga hr hu id is it la lg lt lv ms nb nl nn pl pt ro sk sl sn so
    sq st sv sw tl tr vi xh yo zu"""
LATIN_LANGUAGES = frozenset(_LATIN.split())
_SCRIPT_OF = {
    language: script for script, languages in _BY_SCRIPT.items() for language in languages.split()
}

# A word in several lists (`de`, `die`, `on`) speaks for any of them and against none, so some stand
# in a list only to do no harm there.
_FUNCTION_WORDS = {
    "en": (
        """the and of to in is are was were we that this these those with for from by be been has have had it its he
        she his her their they them there which what how many much when then than but or if not can will would each
        every all into let get gets got find since because both after before now next first must our you your does did
        so on as at an more up out only one two three four half left old cost costs means over thus therefore hence
        plus evaluate compute calculate simplify express factor solve determine expand multiply write al am do elle no
        non par sea van war hat die also met als per"""
    ),
    "es": (
        """el la los las una un en de del al lo le les me nos que se por para con como es si su sus dos te no ha he
        has han pero más entonces luego cuántos cuántas cuánto tiene tienen hay está están eso esto porque cuando donde
        también así ahora después sobre este esta cada número sea par da van primero ser pelo cuál calcula halla
        resuelve encuentra"""
    ),
    "fr": (
        """le la les des et est es un une du de en on que qui si se ne me te sa ses ce cette ces dans avec sur nous
        vous il elle ils elles donc alors puis mais où au aux chaque combien nombre sont fait ainsi comme pas leur
        leurs ou or été par plus peut avons obtient faut non as an met quel quelle calculer calculez trouver trouvez
        résoudre déterminer"""
    ),
    "de": (
        """der die das und in ist sind wir ein eine einen einem einer eines den dem des mit von zu für auf nicht auch
        es er sie dass wie viele also dann wenn aber oder als bei nach aus um zum zur im am hat haben wird werden kann
        jede jeder jedes ergibt nun zuerst was an war so will all los her per plus da half berechne bestimme löse"""
    ),
    "it": (
        """il lo la le gli un una in di del della dei delle dello che non con si se e è sono più anche quindi poi
        ogni quanti quante nel nella al alla ha abbiamo dobbiamo questo questa perché da ci ne te su sua no dal dalla
        per calcola trova"""
    ),
    "pt": (
        """os um uma de do da dos das em no na que para por com como mais são não ele ela então cada quantos quantas
        número temos tem seu sua isso este esta está pelo pela ao ou se me for também depois ser sobre nos é as calcule
        encontre"""
    ),
    "nl": (
        """de het een en in van zijn is we dat met voor niet op te er maar ook als aan door naar bij had over plus
        hoeveel elke elk dus hebben heeft wordt om die was per uit ze half eerst bereken"""
    ),
}
_LISTS = {language: frozenset(words.split()) for language, words in _FUNCTION_WORDS.items()}

# Written the same in every language.
_SYMBOL_NAMES = """sin cos tan cot sec csc log ln exp lim max min mod gcd lcm det pi
    cm mm km kg mg ml ft lb oz kmh mph am pm"""
_SYMBOLS = frozenset(_SYMBOL_NAMES.split())
# One function word in so many words makes a sentence sure; in prose it is about one in two.
_MIN_MARKS = 5
_MIN_WORDS = 8  # The fewest words the detector is asked about.
_MAX_WORDS = 100  # The most words it is shown.
# More confidence than this in a language that is not its first choice is still a doubt.
_DOUBT = 0.3
_MAX_NAME = 3  # Capitalised words in a row that still make a name.

# The quantifiers end at the next opening of the same kind, so that unclosed ones cannot make the
# time quadratic.
_NOT_PROSE = re.compile(
    r"""
    \[asy\][^\[]*+(?:\[(?!/?asy\])[^\[]*+)*+\[/asy\]
    | ```[^`]*+(?:`(?!``)[^`]*+)*+``` | `[^`\n]++`
    | \$\$[^$]++\$\$ | \$(?=\S)[^$\n]++(?<=\S)\$(?!\d)   # the prices in `$5 and then $6` are no formula
    | \\\[[^\\]*+(?:\\(?![\[\]])[^\\]*+)*+\\\] | \\\([^\\]*+(?:\\(?![()])[^\\]*+)*+\\\)
    | \\begin\{(\w++\*?)\}[^\\]*+(?:\\(?!begin|end)[^\\]*+)*+\\end\{\1\}
    | \\[a-zA-Z]++(?:\s*+\{[^{}]*+\})*+
    | </?(?:think|answer)> | <\|\w{1,30}\|> | https?://\S++
    """,
    re.VERBOSE,
)
_SYMBOL_LETTERS = re.compile(f"[{SCRIPTS['latin']}{SCRIPTS['greek']}]+")
_SENTENCE = re.compile(r"[.!?\uff01\uff1f。।؟\n]+")
# Single letters are no words where words are spaced. Nor are `x1`, `3y`, `f(x)`: a Latin word that
# touches a digit, or is called, is a name in a formula.
_LATIN = rf"(?<![0-9_^{SCRIPTS['latin']}])[{SCRIPTS['latin']}]{{2,}}+(?![0-9_(^])"
_LATIN_WORD = re.compile(_LATIN)
_WORD = re.compile(
    "|".join(
        f"(?P<{script}>{_LATIN if script == 'latin' else f'[{letters}]' + ('++' if script in UNSPACED else '{2,}+')})"
        for script, letters in SCRIPTS.items()
    )
)

Word = tuple[str, str]  # script, letters
_FEWEST = 5  # Words; with fewer a name or a unit would decide.


def script_of(language: str) -> str:
    """The script `language` (ISO 639-1) is written in; `ja` stands under kana though it needs han
    as well."""
    if script := _SCRIPT_OF.get(language):
        return script
    if language in LATIN_LANGUAGES:
        return "latin"
    known = " ".join(sorted({*_SCRIPT_OF, *LATIN_LANGUAGES}))
    raise ValueError(f"language {language!r} is not one of the ISO 639-1 codes known here: {known}")


def sentences(text: str) -> list[list[Word]]:
    """The words of every sentence outside maths and code, less single letters and symbols."""
    return [
        words for s in _SENTENCE.split(_NOT_PROSE.sub(_other_letters, text)) if (words := _words(s))
    ]


def _words(sentence: str) -> list[Word]:
    if sentence.isascii():  # The same in a third of the time.
        return [("latin", word) for word in _LATIN_WORD.findall(sentence) if word not in _SYMBOLS]
    return [(m.lastgroup, m[0]) for m in _WORD.finditer(sentence) if m[0] not in _SYMBOLS]


def _other_letters(span: re.Match) -> str:
    """Latin and Greek letters in maths and code are symbols; a letter of any other script there is
    still language."""
    return " " if span[0].isascii() else _SYMBOL_LETTERS.sub(" ", span[0])


def weight(word: Word) -> float:
    script, letters = word
    return len(letters) / UNSPACED[script] if script in UNSPACED else 1.0


def without_names(words: list[Word]) -> list[Word]:
    """`words` less the capitalised ones, unless more stand in a row than a name has: capitals are
    no disguise."""
    kept, run = [], []
    for word in [*words, ("", "")]:
        if word[0] in CASED and not word[1].islower():
            run.append(word)
            continue
        kept += run if len(run) > _MAX_NAME else []
        kept.append(word)
        run = []
    return kept[:-1]


def is_japanese(words: list[Word]) -> bool | None:
    """Whether the han letters of a sentence are Japanese (there is kana among them), or None if
    that is anyone's guess.

    A headline such as 計算結果 is good Japanese and nearly good Chinese.
    """
    han = sum(len(letters) for script, letters in words if script == "han")
    kana = sum(len(letters) for script, letters in words if script == "kana")
    if kana * 8 > han:
        return True
    return None if han < 8 and not kana else False


def words_in(words: list[str], language: str) -> tuple[int, int, list[str]]:
    """Of Latin-script `words` of a sentence: how many are in `language`, how many in another, which
    are undecided.

    A function word of this language alone, or of others alone, claims the words up to the next one
    of the other side.
    """
    lowered = [word.lower() for word in words]
    sides = _sides(language)
    marks = [sides.get(word) for word in lowered]
    distinct = set(lowered)
    # A word that other languages have as well is half the evidence.
    support = sum(
        1.0 if sides.get(word) else 0.5 for word in distinct & _LISTS.get(language, frozenset())
    )
    against = marks.count(False)
    if against == 1 and support > 1:  # One word of many may be a homograph.
        marks, against = [mark or None for mark in marks], 0
    if not against and support * _MIN_MARKS >= len(distinct):
        return len(words), 0, []
    if not against or (against + support) * _MIN_MARKS < len(distinct):
        # A name would be taken for a word of its own language.
        plain = [word for word in words if word.islower()]
        verdict = speaks(plain, language)
        return (
            (0, 0, plain)
            if verdict is None
            else (len(words), 0, [])
            if verdict
            else (0, len(words), [])
        )
    claimed, own = next(mark for mark in marks if mark is not None), 0
    for mark in marks:
        claimed = claimed if mark is None else mark
        own += claimed
    return own, len(words) - own, []


@cache
def _sides(language: str) -> dict[str, bool]:
    """Function words of `language` alone (True) and of others alone (False); none where it has no
    list itself."""
    if language not in _LISTS:
        return {}
    others = frozenset().union(*(words for name, words in _LISTS.items() if name != language))
    return dict.fromkeys(_LISTS[language] - others, True) | dict.fromkeys(
        others - _LISTS[language], False
    )


def speaks(words: list[str], language: str) -> bool | None:
    """Whether py3langid takes Latin-script `words` for `language`; in doubt yes, and None for too
    few words to ask."""
    distinct = list(dict.fromkeys(words))
    if len(distinct) < _MIN_WORDS:
        return None
    step = -(-len(distinct) // _MAX_WORDS)
    confidences = _confidences(" ".join(distinct[::step]))
    return next(iter(confidences)) == language or confidences.get(language, 0) > _DOUBT


@lru_cache(maxsize=4096)
def language_of(text: str) -> str | None:
    """The ISO 639-1 code of the language most of `text` is in, or None if it holds too few words to
    tell."""
    by_script: Counter[str] = Counter()
    words = [word for sentence in sentences(text) for word in sentence]
    for word in words:
        by_script[word[0]] += weight(word)
    if not by_script:
        return None
    script = by_script.most_common(1)[0][0]
    if script in {"han", "kana"}:
        return "ja" if is_japanese(words) else "zh"
    if script != "latin":
        return _BY_SCRIPT[script].split()[0]
    latin = [letters for script, letters in words if script == "latin"]
    votes = Counter(
        {name: sum(word.lower() in known for word in latin) for name, known in _LISTS.items()}
    )
    (first, n), (_, m) = votes.most_common(2)
    if n > m and n * _MIN_MARKS >= len(latin):
        return first
    plain = [word for word in latin if word.islower()]
    if len(plain) < _MIN_WORDS:
        return None
    best, confidence = next(iter(_confidences(" ".join(plain[:_MAX_WORDS])).items()))
    return best if confidence > 0.5 else None


@lru_cache(maxsize=4096)
def _confidences(text: str) -> dict[str, float]:
    """How sure py3langid is of each Latin-script language, best first."""
    # It knows Bokmål as Norwegian.
    return {
        "nb" if language == "no" else language: sure for language, sure in _detector().rank(text)
    }


@cache
def _detector():
    """Naive Bayes on a text's n-grams: 0.6 s to load, and 80 MB. No text of fewer than eight words
    is asked about."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    detector = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)
    detector.set_languages(LATIN_LANGUAGES - {"nb"} | {"no"})
    return detector


def language_consistency(
    completions: list[str | Messages],
    prompts: list[str | Messages] | None = None,
    language: list[str | None] | None = None,
    **columns: object,
) -> list[float | None]:
    """The share, 0.0 to 1.0, of the target language's words in the completion's prose (DeepSeek-R1,
    section 2.3.2).

    The target is the row's `language` (ISO 639-1, such as `en`), or else the language of the
    prompt's last user message, or if that is bare maths of the whole prompt; None where nothing
    tells. Maths, LaTeX, code, digits, proper nouns, and what the prompt itself quotes of another
    script do not count. Fewer than five words are 1.0. A sentence counts once for the target
    language however often it is repeated, so that repeating it does not dilute the rest, and every
    time against it.

    The whole completion is read, thought and answer alike. Not seen: Latin-script prose dressed up
    as code or maths.
    """
    prompts = prompts or [""] * len(completions)
    targets = language or [None] * len(completions)
    rewards = []
    for completion, prompt, named in zip(completions, prompts, targets, strict=True):
        asked = language_of(question(prompt)) or language_of(instructions(prompt))
        target = named.lower().replace("_", "-").split("-")[0] if named else asked
        quoted = (
            _foreign_words(question(prompt), target) if target and target == asked else frozenset()
        )
        rewards.append(_share(content(completion), target, quoted) if target else None)
    return rewards


@lru_cache(maxsize=4096)
def _foreign_words(prompt: str, language: str) -> frozenset[str]:
    """Words of other scripts in a prompt of `language`: names and units that an answer has to
    repeat."""
    own = _scripts(language)
    return frozenset(
        letters.lower()
        for words in sentences(prompt)
        for script, letters in words
        if script not in own
    )


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
    # In steps of 1/256 a group of equal shares has an exact mean in float32, hence no spurious
    # advantage.
    return round(256 * own / (own + foreign)) / 256 if own + foreign >= _FEWEST else 1.0


def _count(
    words: list[Word], language: str, quoted: frozenset[str]
) -> tuple[float, float, list[str]]:
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
