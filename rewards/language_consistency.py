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


def _word_pattern(script: str) -> str:
    if script == "latin":
        return _LATIN
    if script in UNSPACED:
        return f"[{SCRIPTS[script]}]++"
    return f"[{SCRIPTS[script]}]{{2,}}+"


_WORD = re.compile("|".join(f"(?P<{script}>{_word_pattern(script)})" for script in SCRIPTS))

Word = tuple[str, str]  # script, letters
_FEWEST = 5  # Words; with fewer a name or a unit would decide.


def script_of(language: str) -> str:
    """Return the script of `language` (ISO 639-1); for `ja` kana, though it needs han as well.

    Raises:
        ValueError: the language has no rules.
    """
    if language in _SCRIPT_OF:
        return _SCRIPT_OF[language]
    if language in LATIN_LANGUAGES:
        return "latin"
    languages = " ".join(sorted({*_SCRIPT_OF, *LATIN_LANGUAGES}))
    message = f"language {language!r} is not one of the ISO 639-1 codes known here: {languages}"
    raise ValueError(message)


def sentences(text: str) -> list[list[Word]]:
    """Return the words of every sentence outside maths and code, without single letters and
    symbols."""
    prose = _NOT_PROSE.sub(_other_letters, text)
    return list(filter(None, map(_words, _SENTENCE.split(prose))))


def _words(sentence: str) -> list[Word]:
    if sentence.isascii():  # The same in a third of the time.
        return [("latin", word) for word in _LATIN_WORD.findall(sentence) if word not in _SYMBOLS]
    matches = _WORD.finditer(sentence)
    return [(match.lastgroup, match[0]) for match in matches if match[0] not in _SYMBOLS]


def _other_letters(span: re.Match) -> str:
    """Remove the Latin and Greek letters of maths and code, which are symbols; letters of other
    scripts are still language."""
    return " " if span[0].isascii() else _SYMBOL_LETTERS.sub(" ", span[0])


def weight(word: Word) -> float:
    script, letters = word
    if script not in UNSPACED:
        return 1.0
    return len(letters) / UNSPACED[script]


def without_names(words: list[Word]) -> list[Word]:
    """Return `words` without the capitalised ones, unless more stand in a row than a name has:
    capitals are no disguise."""
    prose = []
    capitalised = []
    for word in [*words, ("", "")]:
        if word[0] in CASED and not word[1].islower():
            capitalised.append(word)
            continue
        if len(capitalised) > _MAX_NAME:
            prose += capitalised
        prose.append(word)
        capitalised = []
    return prose[:-1]


def is_japanese(words: list[Word]) -> bool | None:
    """Return whether the han letters of a sentence are Japanese (there is kana among them), or None
    if nobody can tell.

    A headline such as 計算結果 is good Japanese and nearly good Chinese.
    """
    han = kana = 0
    for script, letters in words:
        if script == "han":
            han += len(letters)
        elif script == "kana":
            kana += len(letters)
    if han < 8 and not kana:
        return None
    return kana * 8 > han


def words_in(words: list[str], language: str) -> tuple[int, int, list[str]]:
    """Return how many Latin-script `words` of a sentence are in `language`, how many are in another
    language, and the undecided words.

    A function word of this language alone, or of other languages alone, claims the words up to the
    next function word of the opposite side.
    """
    lowered = list(map(str.lower, words))
    sides = _sides(language)
    marks = list(map(sides.get, lowered))
    distinct = set(lowered)
    support = 0.0
    for word in distinct & _LISTS.get(language, frozenset()):
        support += 1.0
        if not sides.get(word):  # A word that other languages have as well is half the evidence.
            support -= 0.5
    against = marks.count(False)
    if against == 1 and support > 1:  # One word of many may be a homograph.
        marks = [mark or None for mark in marks]
        against = 0
    if not against and support * _MIN_MARKS >= len(distinct):
        return len(words), 0, []
    if not against or (against + support) * _MIN_MARKS < len(distinct):
        return _detect(words, language)
    claimed_by_language = next(mark for mark in marks if mark is not None)
    count = 0
    for mark in marks:
        if mark is not None:
            claimed_by_language = mark
        if claimed_by_language:
            count += 1
    return count, len(words) - count, []


def _detect(words: list[str], language: str) -> tuple[int, int, list[str]]:
    """Return the same by py3langid, which takes the sentence for one language."""
    # It would take a name for a word of the name's language.
    plain = [word for word in words if word.islower()]
    is_in_language = is_language(plain, language)
    if is_in_language is None:
        return 0, 0, plain
    if is_in_language:
        return len(words), 0, []
    return 0, len(words), []


@cache
def _sides(language: str) -> dict[str, bool]:
    """Return the function words of `language` alone (True) and of other languages alone (False);
    none if `language` has no list."""
    if language not in _LISTS:
        return {}
    foreign = frozenset().union(*map(_LISTS.get, _LISTS.keys() - {language}))
    sides = dict.fromkeys(_LISTS[language] - foreign, True)
    return sides | dict.fromkeys(foreign - _LISTS[language], False)


def is_language(words: list[str], language: str) -> bool | None:
    """Return whether py3langid takes Latin-script `words` for `language`; in doubt yes, and None
    for too few words."""
    distinct = list(dict.fromkeys(words))
    if len(distinct) < _MIN_WORDS:
        return None
    step = -(-len(distinct) // _MAX_WORDS)
    confidences = _confidences(" ".join(distinct[::step]))
    return next(iter(confidences)) == language or confidences.get(language, 0) > _DOUBT


@lru_cache(maxsize=4096)
def language_of(text: str) -> str | None:
    """Return the ISO 639-1 code of the language of most of `text`, or None if it has too few
    words."""
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
    lowered = list(map(str.lower, latin))
    votes: Counter[str] = Counter()
    for name, function_words in _LISTS.items():
        votes[name] = sum(word in function_words for word in lowered)
    (first, first_votes), (_, second_votes) = votes.most_common(2)
    if first_votes > second_votes and first_votes * _MIN_MARKS >= len(latin):
        return first
    plain = [word for word in latin if word.islower()]
    if len(plain) < _MIN_WORDS:
        return None
    best, confidence = next(iter(_confidences(" ".join(plain[:_MAX_WORDS])).items()))
    if confidence <= 0.5:
        return None
    return best


@lru_cache(maxsize=4096)
def _confidences(text: str) -> dict[str, float]:
    """Return py3langid's confidences in the Latin-script languages, best first."""
    confidences = {}
    for language, confidence in _detector().rank(text):
        # It knows Bokmål as Norwegian.
        confidences["nb" if language == "no" else language] = confidence
    return confidences


@cache
def _detector():
    """Return py3langid's naive Bayes on n-grams: 0.6 s to load, and 80 MB."""
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
    """Return the share, 0.0 to 1.0, of the target language's words in the completion's prose
    (DeepSeek-R1, section 2.3.2).

    The target is the row's `language` (ISO 639-1, such as `en`), or else the language of the
    prompt's last user message, or if that is bare maths of the complete prompt; None where neither
    shows it. Maths, LaTeX, code, digits, proper nouns, and words of other scripts in the prompt do
    not count. Fewer than five words are 1.0. A sentence counts once for the target
    language however often it is repeated, so that repeating it does not dilute the rest, and every
    time against it.

    The complete completion is read, reasoning and answer alike. Latin-script prose in the form of
    code or maths is not detected.
    """
    prompts = prompts or [""] * len(completions)
    targets = language or [None] * len(completions)
    rewards = []
    for completion, prompt, code in zip(completions, prompts, targets, strict=True):
        language_of_prompt = language_of(question(prompt)) or language_of(instructions(prompt))
        target = language_of_prompt
        if code:
            target = code.lower().replace("_", "-").split("-")[0]
        if not target:
            rewards.append(None)
            continue
        quoted = frozenset()
        if target == language_of_prompt:
            quoted = _foreign_words(question(prompt), target)
        rewards.append(_share(content(completion), target, quoted))
    return rewards


@lru_cache(maxsize=4096)
def _foreign_words(prompt: str, language: str) -> frozenset[str]:
    """Return the words of other scripts in a prompt of `language`: names and units that an answer
    has to repeat."""
    scripts = _scripts(language)
    foreign = set()
    for words in sentences(prompt):
        foreign.update(letters.lower() for script, letters in words if script not in scripts)
    return frozenset(foreign)


def _scripts(language: str) -> set[str]:
    return {"kana", "han"} if language == "ja" else {script_of(language)}


def _share(text: str, language: str, quoted: frozenset[str]) -> float:
    native = foreign = 0.0
    undecided: list[str] = []
    counted: set[tuple[Word, ...]] = set()
    for words in sentences(text):
        native_words, foreign_words, undecided_words = _weigh(words, language, quoted)
        if tuple(words) not in counted:
            native += native_words
        counted.add(tuple(words))
        foreign += foreign_words
        undecided += undecided_words
    is_in_language = is_language(undecided, language)
    if is_in_language:
        native += len(undecided)
    elif is_in_language is False:
        foreign += len(undecided)
    if native + foreign < _FEWEST:
        return 1.0
    # In steps of 1/256 a group of equal shares has an exact mean in float32, hence no spurious
    # advantage.
    return round(256 * native / (native + foreign)) / 256


def _weigh(
    words: list[Word], language: str, quoted: frozenset[str]
) -> tuple[float, float, list[str]]:
    """Return the weights of a sentence's words in `language` and in other languages, and its
    undecided words."""
    scripts = _scripts(language)
    native_words = [word for word in words if word[0] in scripts]
    foreign = 0.0
    if len(native_words) < len(words):
        for script, letters in without_names(words):
            if script not in scripts and letters.lower() not in quoted:
                foreign += weight((script, letters))
    if scripts == {"latin"}:
        letters = [letters for _, letters in native_words]
        native, foreign_count, undecided = words_in(letters, language)
        return native, foreign + foreign_count, undecided
    native = sum(map(weight, native_words))
    # Chinese is not Japanese, though both are written in han.
    if native_words and language in {"ja", "zh"} and is_japanese(words) is (language == "zh"):
        return 0.0, foreign + native, []
    return native, foreign, []
