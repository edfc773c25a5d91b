"""Where a text goes on to a next, invented question: base models write one after their answer."""

from __future__ import annotations

import re

_MARKS = r"[ \t>*_#\-]{0,8}+"
_NUMBER = r"(?:[ \t]{0,2}+(?:#|No\.?|№|n°)?[ \t]?+\d{1,4}|[ \t]{0,2}+[（(]\d{1,4}[）)])?+"
_COLON = r"[*_ \t]{0,6}+[:：]"
_QUESTION = re.compile(
    rf"\n{_MARKS}(?:"
    # a heading of a question or of a turn of the user
    r"(?:(?i:(?:new |next |another |follow-up |sample |example )?question)|(?<![-*>#] )Q"
    r"|(?i:frage|pregunta|pergunta|domanda|вопрос|pytanie|vraag|soru)|問題|问题|题目|題目|質問"
    r"|質問文"
    rf"|질문|문제|سؤال|السؤال|प्रश्न|सवाल|Câu hỏi){_NUMBER}{_COLON}"
    rf"|(?i:question)[ \t]{{0,2}}+\#?\d{{1,4}}\b[ \t*_.)]{{0,6}}+(?=\n)"
    r"|(?i:human|user|usuario|utilisateur|benutzer|utente|пользователь|student)"
    rf"[ \t]?+\d{{0,2}}+{_COLON}"
    rf"|(?:用户|人类|提问|ユーザー|사용자|المستخدم|उपयोगकर्ता){_COLON}"
    r"|[【\[「](?:问题|题目|題目|問題|质问|例题|试题)\d{0,4}[】\]」]"
    r"|(?i:instruction|question|input|human|user|system prompt)"
    r"[*_ \t]{0,4}+[:：]?+[*_ \t]{0,4}+(?=\n)"
    r")"
)
_TEMPLATE = re.compile(
    r"<(?:\|(?:im_start|start_header_id|start|turn|role)\|>[ \t]{0,2}+(?:user|human|system)\b"
    r"|\|(?:user|human|User|Human|prompter|system)\|>|｜User｜>|start_of_turn>[ \t]{0,2}+user\b"
    r"|human>:|user>"
    r"|\|start_of_role\|>[ \t]{0,2}+user\b|\|START_OF_TURN_TOKEN\|><\|USER_TOKEN\|>"
    # whatever stands behind an end mark is another text
    r"|\|(?:im_end|endoftext|end_of_text|eot_id|eom_id|end|eos|END_OF_TURN_TOKEN)\|>"
    r"|｜end▁of▁sentence｜>|/s>|eos>|end_of_turn>|eoa>|eod>)"
)
_AFTER_ANSWER = re.compile(
    rf"\n{_MARKS}(?:"
    r"(?i:(?:answer )?(?:options|choices))[*_ \t]{0,4}+[:：][*_ \t]{0,4}+\s{1,4}+"
    r"[(*]{0,3}+[A1][.):、]"
    rf"|选项{_COLON}\s{{0,4}}+[(（]?+A"
    r"|(?:(?i:(?:new |next |another )?(?:problem|exercise|example|task|quiz|test|prompt|scenario"
    r"|case|passage|tarea|ejercicio|problema|exercice|aufgabe|задача|упражнение))"
    rf"|練習|练习|例题|例題|例|下一题|试题|문항){_NUMBER}{_COLON}"
    r"|(?:Input|Context|Passage|Premise|Statement|Text|Title|Topic|Category|Subject|Difficulty"
    r"|Tags?)"
    rf"{_COLON}"
    r"|(?:[(]?A[.)][^\n]{1,200}\n[(]?B[.)][^\n]{1,200}\n[(]?C[.)][^\n]{1,200}\n"
    r"(?:[(]?[D-J][.)][^\n]{1,200}\n){0,7}\s{0,2})?(?:Answer|ANSWER): Let(?:'|’)s think"
    r"|(?:The following (?:is a|are)|Here (?:is|are) (?:a|another|some|more)) "
    r"[^\n]{0,60}(?:question|example|problem)"
    r"|(?:以下是|下面是|下一(?:个|道))[^\n]{0,40}(?:题|问题)"
    r"|\d{1,3}[.)][ \t]{1,4}+[A-Z][^\n]{10,400}\n\s{0,4}+[(]?A[.)][ \t]"
    r")"
)
_INLINE = re.compile(r"Question(?:[ \t]\d{1,4})?+:[ \t]")
_BRACKET = re.compile(r"\[INST\]")
_ANSWERED = re.compile(
    r"(?i:(?:answers?|antwort|respuesta|r[eé]ponse|resposta|risposta|ответ)[*_ \t]{0,4}+"
    r"(?:is\b|are\b|ist\b|est\b|es\b|é|è|:|：|—|\(|would\b|should\b|must\b)"
    r"|boxed|is (?:the )?correct\b)"
    r"|答案|故选|正解|答え|####|정답|답은|الإجابة|उत्तर|\A\W{0,6}[A-Z]\W{0,4}(?=\n)"
)
_OPENING = re.compile(
    r"[^\n]{0,240}[:：][*_ \t]{0,4}"
    r"|(?i:[\W_]{0,6}(?:sure|okay|ok|alright|certainly|of course|let(?:'|’)?s|let me|here"
    r"|to (?:solve|answer)|first|we (?:need|are)|i (?:will|need)|thank|hello|hi|great"
    r"|好的|首先|让我|我们|当然)\b[^\n]{0,240})"
)


def run_on(text: str) -> int | None:
    """Where an invented question begins, None where `text` stays with the first one. Linear time.

    A heading of a question ("Question:", "Q:", 问题：) counts unless only an opening line stands
    before it ("Let me restate it:"): then the first question is repeated. A list of options,
    "Problem:" and the like count behind an answer only. Marks of a chat template end the text.
    """
    found = [
        place
        for place in (_template(text), _heading(text), _after_answer(text))
        if place is not None
    ]
    return min(found, default=None)


def _template(text: str) -> int | None:
    """The first mark of a chat template with some text before it."""
    for pattern in (_TEMPLATE, _BRACKET):
        for match in pattern.finditer(text):
            if text[: match.start()].strip():
                return match.start()
    return None


def _heading(text: str) -> int | None:
    for match in _QUESTION.finditer(text):
        before = text[: match.start()].strip() if match.start() < 600 else "long"
        if before and not _OPENING.fullmatch(before):
            return match.start() + 1
    return None


def _after_answer(text: str) -> int | None:
    """The first list of options, "Problem:" or inline "Question:" with an answer before it."""
    places = [match.start() + 1 for match in _AFTER_ANSWER.finditer(text)]
    places += [
        match.start()
        for match in _INLINE.finditer(text)
        if text[match.start() - 2 : match.start() - 1] in tuple(".。)")
    ]
    if not places:
        return None
    answered = _ANSWERED.search(text, 0, max(places))
    if answered is None:
        return None
    return min((place for place in places if place >= answered.end()), default=None)
