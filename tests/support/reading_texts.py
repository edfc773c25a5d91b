"""Made answers of models for tests of speed: short and long, with a cue, a box, a closing sentence
and a choice, in English and Chinese."""

from __future__ import annotations

_STEPS = (
    "First we look at what is given: the shop sells 24 boxes a day, and each box holds 6 pens.",
    "So it sells 24 * 6 = 144 pens a day, which is 144 * 7 = 1,008 pens in a week.",
    "The price of one pen is $1.50, because the owner buys them for half of that.",
    "We can write this as $x = \\frac{3}{4} \\times 96$, and the left side does not depend on y.",
    "Note that the speed of light does not matter here; the train moves at 120 km/h for 2.5 hours.",
    "**Step 3:** Therefore, the remaining distance is 300 - 120 = 180 km.",
    "Option A describes a change in the demand for labour, while option B describes its supply.",
)
_CHINESE = (
    "首先，每箱有6支笔，一共24箱，所以共有24×6=144支。",
    "因为每支1.5元，所以一天的收入是144×1.5=216元。",
)
_ENDS = (
    "The answer is 1,008.",
    "Therefore, the final answer is $\\boxed{\\frac{3}{4}}$.",
    "#### 216",
    "So he has 42 pens left.",
    "The answer is (C).",
    "The closest option is **(B)**, since the others are too large.",
)


def made_texts() -> list[str]:
    """84 answers of 86 to 1,401 characters."""
    texts = []
    for size in (2, 4, 8, 16):
        for turn, end in enumerate(_ENDS):
            steps = [_STEPS[(turn + i) % len(_STEPS)] for i in range(size)]
            texts += [" ".join([*steps, end]), "\n".join([*steps, "", end])]
            texts.append("\n\n".join([*steps[: size // 2], end]))
    texts += ["\n".join([*_CHINESE * size, f"答案是{size}16元。"]) for size in range(2, 14)]
    return texts
