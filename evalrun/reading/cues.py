"""Words of twelve languages that announce an answer: one table.

A cue is looked for by its stem, which is cheap, and tried in full only there. A language that
is missing here is still read where it writes a box, a tag or a letter alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Language:
    """The cues of one language; every text is a piece of a regular expression in small letters.

    stems: literal beginnings of the nouns that mean "answer", "option".
    noun: pattern of a noun phrase from its stem on.
    link: what joins noun and option ("is", "would be"); a colon always does.
    chosen: stem -> pattern of a phrase that an option follows at once ("I choose").
    option: words that may stand between the link and the letter ("option", "the").
    correct: what follows a letter that is called right ("is correct").
    negated: what denies, behind the link or before the letter.
    nothing: phrases that state that no option is right.
    """

    stems: tuple[str, ...]
    noun: str
    link: str
    chosen: dict[str, str]
    option: str
    correct: str
    negated: str
    nothing: str = ""


ENGLISH = Language(
    stems=("answer",),
    noun=r"answers?(?:[ \t]+(?:choice|option|letter|key))?",
    link=(
        r"is|are|was|were|would(?: then| likely| therefore)? be|should(?: then| therefore)? be"
        r"|will be|must(?: therefore| then)? be|has to be|have to be|can only be|ought to be"
        r"|seems?(?: to be)?"
        r"|appears? to be|remains|becomes|corresponds to|matches|lies in|is going to be"
    ),
    chosen={
        "choose": r"choos(?:e|ing)|chose[n]?",
        "select": r"select(?:ed|ing)?",
        "pick": r"pick(?:ed|ing)?",
        "go with": r"go with",
        "going with": r"going with",
        "opt for": r"opt for",
    },
    option=(
        r"the|option|options|choice|letter|answer|number|statement|alternative|clearly|obviously"
        r"|(?:most |very |quite |almost )?(?:likely|probably|certainly|definitely|plausibly)"
        r"|therefore|thus|hence"
        r"|indeed|actually|simply|also|then|still|only|best|either|both|just|given by"
        r"|represented by|described by"
        r"|in fact|to be|as follows|found in|listed (?:as|in)|labell?ed|following|correct|right"
        r"|one|final|in"
        r"|a combination of|represented in|described in|that of|closest to|approximately|about"
    ),
    correct=(
        r"(?:is|are|would be|must be|should be|seems|appears to be)[ \t]+(?:therefore |thus "
        r"|indeed |clearly "
        r"|definitely |most likely |likely |probably |also |both |all )?"
        r"(?:(?:the|our|my|an?)[ \t]+)?(?:only[ \t]+|single[ \t]+|most[ \t]+)?"
        r"(?P<word>correct|right|best|closest|nearest|answer|true|appropriate|accurate|plausible"
        r"|likely"
        r"|suitable|reasonable|logical)"
    ),
    negated=r"not|never|neither|n't|n’t|cannot be|no longer|incorrectly|unlikely",
)

CHINESE = Language(
    stems=("答案", "選項", "选项", "选择"),
    noun=(
        r"答案|(?:(?<=正确)|(?<=正确的)|(?<=最佳)|(?<=对的)|(?<=合适的)|(?<=恰当的)|(?<=题意的)"
        r"|(?<=最终)"
        r"|(?<=正確)|(?<=正確的))(?:选项|選項|选择)"
    ),
    link=(
        r"(?:应该|应当|應該|应|應|就|即|也就|只能|可能|显然|最终|最后|最終)?"
        r"(?:是|为|為|选择|选|選擇|選|：|:|=|】|在)|应选|應選"
    ),
    chosen={
        "选": r"(?:选择|选)(?!项)[是为]?",
        "選": r"(?:選擇|選)(?!項)",
    },
    option=r"选项|選項|选择|选|選|是|为|為|第|项",
    correct=(
        r"(?:选项|項|项)?(?:是|为|為)?(?:最|唯一)?(?P<word>正确|對|对|合适|恰当|佳"
        r"|符合题意)(?:的)?(?:答案"
        r"|选项|選項)?"
    ),
    negated=r"不|非|并非|并不|錯|错",
    nothing=(
        r"没有正确(?:的)?(?:答案|选项)|无法(?:确定|回答|判断|得出)|都不(?:正确|对)|均不正确"
        r"|以上都不"
    ),
)

OTHERS: dict[str, Language] = {
    "de": Language(
        stems=("antwort", "lösung"),
        noun=r"antwort(?:möglichkeit|option)?|lösung",
        link=r"ist|lautet|wäre|muss sein|sind",
        chosen={"wähle": r"wähle(?:n)?", "entscheide mich": r"entscheide mich für"},
        option=r"die|option|antwort|buchstabe|daher|also|somit|wohl|wahrscheinlich|eindeutig",
        correct=(
            r"ist(?: also| daher)?(?: die)? (?P<word>richtig|korrekt|beste antwort)(?:e antwort"
            r"|e)?"
        ),
        negated=r"nicht|kein(?:e)?|weder",
        nothing=r"keine der (?:optionen|antworten)",
    ),
    "fr": Language(
        stems=("réponse", "reponse"),
        noun=r"r[ée]ponse(?: correcte| finale| exacte)?",
        link=r"est|serait|doit être|sont",
        chosen={"choisis": r"choisis", "je choisi": r"je choisirais?"},
        option=r"la|le|l['’]|option|réponse|lettre|donc|probablement|clairement",
        correct=(
            r"est(?: donc)?(?: la)? (?:bonne (?P<word>réponse)|(?:réponse )?(?:correcte?"
            r"|exacte))"
        ),
        negated=r"pas|n['’]est|ni",
        nothing=r"aucune des (?:options|réponses)",
    ),
    "es": Language(
        stems=("respuesta", "opción correcta", "opcion correcta"),
        noun=r"respuesta(?: correcta| final)?|opci[óo]n correcta",
        link=r"es|sería|debe ser|son",
        chosen={"elijo": r"elijo", "escojo": r"escojo"},
        option=r"la|el|opci[óo]n|respuesta|letra|por tanto|probablemente|claramente",
        correct=r"es(?: la)? (?:(?P<word>respuesta |opción )?correcta|respuesta|mejor)",
        negated=r"no|ni|tampoco",
        nothing=r"ninguna de las (?:opciones|respuestas)",
    ),
    "it": Language(
        stems=("risposta", "opzione corretta"),
        noun=r"risposta(?: corretta| finale| giusta| esatta)?|opzione corretta",
        link=r"è|sarebbe|deve essere|sono",
        chosen={"scelgo": r"scelgo"},
        option=r"la|l['’]|opzione|risposta|lettera|quindi|probabilmente",
        correct=r"è(?: la)? (?:(?P<word>risposta )?(?:corretta|giusta|esatta)|risposta)",
        negated=r"non|né",
        nothing=r"nessuna delle (?:opzioni|risposte)",
    ),
    "pt": Language(
        stems=("resposta", "opção correta", "alternativa correta"),
        noun=r"resposta(?: correta| final| certa)?|opção correta|alternativa correta",
        link=r"é|seria|deve ser|são",
        chosen={"escolho": r"escolho"},
        option=r"opção|alternativa|resposta|letra|portanto|provavelmente",
        correct=r"é(?: a)? (?:(?P<word>resposta |opção |alternativa )?(?:correta|certa)|resposta)",
        negated=r"não|nem",
        nothing=r"nenhuma das (?:opções|alternativas|respostas)",
    ),
    "nl": Language(
        stems=("antwoord",),
        noun=r"antwoord",
        link=r"is|luidt|zou zijn",
        chosen={"ik kies": r"ik kies"},
        option=r"het|de|optie|antwoord|dus|waarschijnlijk",
        correct=r"is(?: dus)?(?: het)? (?P<word>juist|correct)(?:e antwoord)?",
        negated=r"niet|geen",
        nothing=r"geen van de (?:opties|antwoorden)",
    ),
    "ru": Language(
        stems=("ответ", "вариант"),
        noun=r"ответ(?:ом)?|(?:(?<=правильный )|(?<=верный ))вариант(?: ответа)?",
        link=r"[-—–]|это|является|будет|под буквой",
        chosen={"выбираю": r"выбираю", "выбираем": r"выбираем"},
        option=r"вариант|ответ|буква|под|буквой|скорее всего|вероятно",
        correct=(
            r"(?:[-—–] |это |является )?(?P<word>правильный|верный|верно|правильно|правильным)"
            r"(?: ответ(?:ом)?| вариант)?"
        ),
        negated=r"не|ни",
        nothing=r"ни один из (?:вариантов|ответов)",
    ),
    "ja": Language(
        stems=("答え", "正解", "解答", "回答"),
        noun=r"答え|正解|解答|回答",
        link=r"は|が",
        chosen={"選択": r"選択(?:肢)?"},
        option=r"選択肢|は|の|番|選択",
        correct=r"(?:が|は)(?P<word>正解|正しい|答え)",
        negated=r"ではない|でない",
        nothing=r"正解(?:は|が)(?:ない|ありません)|該当なし",
    ),
    "ko": Language(
        stems=("정답", "답은", "답:"),
        noun=r"정답|답",
        link=r"은|는|이",
        chosen={"선택": r"선택(?:지)?"},
        option=r"선택지|보기|번|은|는",
        correct=r"(?:가|이|번이)? ?(?P<word>정답|맞)",
        negated=r"아니",
        nothing=r"정답이 없",
    ),
    "ar": Language(
        stems=("الإجابة", "الجواب", "إجابة"),
        noun=r"(?:ال)?إجابة(?: الصحيحة| النهائية)?|الجواب(?: الصحيح| النهائي)?",
        link=r"هي|هو|تكون|:",
        chosen={"أختار": r"أختار"},
        option=r"الخيار|الحرف|الإجابة|هي|هو",
        correct=r"(?:هي|هو) (?:الإجابة |الخيار )?(?P<word>الصحيح|صحيح)ة?",
        negated=r"ليس(?:ت)?|لا",
    ),
    "hi": Language(
        stems=("उत्तर", "जवाब", "विकल्प"),
        noun=r"उत्तर|जवाब|(?<=सही )विकल्प",
        link=r"है|होगा|:|(?=[a-z(])",  # the verb stands behind the letter
        chosen={"चुनता": r"चुनता"},
        option=r"विकल्प|उत्तर|है|होगा",
        correct=r"(?P<word>सही)(?: उत्तर| विकल्प)? (?:है|होगा)",
        negated=r"नहीं",
    ),
}
"""Ten further languages, by ISO 639-1 code."""

LANGUAGES: dict[str, Language] = {"en": ENGLISH, "zh": CHINESE, **OTHERS}


OTHER_SCRIPTS = re.compile(r"[Ѐ-ӿ؀-ۿऀ-ॿ\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]")
"""A letter of the scripts of zh, ru, ja, ko, ar, hi; without one their cues need no search."""

SCRIPTED = ("zh", "ru", "ja", "ko", "ar", "hi")
LATIN = tuple(code for code in LANGUAGES if code not in SCRIPTED)


def any_of(field: str, codes: Iterable[str] = tuple(LANGUAGES)) -> str:
    """The texts of one field of some languages as one alternation, in the order of the table."""
    parts = [getattr(LANGUAGES[code], field) for code in codes]
    return "|".join(f"(?:{unnamed(part)})" for part in parts if part)


def unnamed(pattern: str) -> str:
    """The pattern without names of groups, so that several may stand in one."""
    return re.sub(r"\(\?P<\w+>", "(?:", pattern)
