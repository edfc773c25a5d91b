"""The command line as text: what Hydra gets to see, and what is refused before Hydra sees
anything.
"""

from __future__ import annotations

from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st

from evalrun import grammar
from evalrun.commands import COMMANDS
from evalrun.config.composing import composed
from evalrun.errors import Fault
from evalrun.runs.words.arguments import read

REWRITTEN: list[tuple[list[str], list[str]]] = [
    ([], []),
    (["--mode", "eval"], ["mode=eval"]),
    (["--mode=eval"], ["mode=eval"]),
    (["-M", "viz"], ["mode=viz"]),
    (["mode=infer"], ["mode=infer"]),
    (["--reuse", "latest"], ["reuse='latest'"]),
    (["--reuse=20260101_000000"], ["reuse='20260101_000000'"]),
    (["--reuse", "/a b/it's"], ["reuse='/a b/it\\'s'"]),
    (["--limit", "16"], ["limit=16"]),
    (["--limit", "-5"], ["limit=-5"]),
    (["--resume", "--dry-run", "--debug"], ["resume=true", "dry_run=true", "debug=true"]),
    (["--dry-run=true", "--resume=false"], ["dry_run=true", "resume=false"]),
    (["task=gsm8k", "model=hf"], ["model=hf", "task=gsm8k"]),
    (["task=gsm8k@k=2&n=8"], ["task=gsm8k", "+task_params.gsm8k.k=2", "+task_params.gsm8k.n=8"]),
    (["task=gsm8k@k=2@n=8"], ["task=gsm8k", "+task_params.gsm8k.k=2", "+task_params.gsm8k.n=8"]),
    (["task=gsm8k@k=[1,2]"], ["task=gsm8k", "+task_params.gsm8k.k=[1,2]"]),
    (["task=gsm8k|5"], ["task=gsm8k", "tasks.gsm8k.fewshot.n=5"]),
    (["task=gsm8k|0"], ["task=gsm8k", "tasks.gsm8k.fewshot.n=0"]),
    (["task='gsm8k'"], ["task=gsm8k"]),
    (["task=[gsm8k]"], ["task=[gsm8k]"]),
    (["task=[gsm8k|2,demo_math]"], ["task=[gsm8k,demo_math]", "tasks.gsm8k.fewshot.n=2"]),
    (['task="[gsm8k, demo_math]"'], ["task=[gsm8k,demo_math]"]),
    (
        ['task="mmlu:abstract_algebra|5"'],
        ["task=mmlu", "tasks.mmlu.fewshot.n=5", "tasks.mmlu.subsets=['abstract_algebra']"],
    ),
    (
        ["task=mmlu:abstract_algebra|5"],
        ["task=mmlu", "tasks.mmlu.fewshot.n=5", "tasks.mmlu.subsets=['abstract_algebra']"],
    ),
    (["metric=em"], ["metric=exact_match"]),
    (
        ["metric=pass@k:k=10&n=16"],
        ["metric=pass_at_k", "metrics.pass_at_k.k=10", "metrics.pass_at_k.n=16"],
    ),
    (
        ['metric="pass@k:k=10&n=16"'],
        ["metric=pass_at_k", "metrics.pass_at_k.k=10", "metrics.pass_at_k.n=16"],
    ),
    (
        ["metric=pass@k:k=[1,2]&n=4"],
        ["metric=pass_at_k", "metrics.pass_at_k.k=[1,2]", "metrics.pass_at_k.n=4"],
    ),
    (["metric=[exact_match,avg@n:n=2]"], ["metric=[exact_match,avg_at_n]", "metrics.avg_at_n.n=2"]),
    (["metric=accuracy:scorer=number"], ["metric=accuracy", "metrics.accuracy.scorer='number'"]),
    (["metric=sampling"], ["metric=sampling"]),
    (["model.revision=1.10"], ["model.revision='1.10'"]),
    (["model.name=007"], ["model.name='007'"]),
    (["model.name=true"], ["model.name='true'"]),
    (["model.name=null"], ["model.name=null"]),
    (["model.system=a,b=c 'd' {{ e }}"], ["model.system='a,b=c \\'d\\' {{ e }}'"]),
    (['model.system="a, b"'], ['model.system="a, b"']),
    (["model.stop=a,b"], ["model.stop=['a,b']"]),
    (["model.stop=[a,'b,c',1.10]"], ["model.stop=['a','b,c','1.10']"]),
    (["model.stop=[]"], ["model.stop=[]"]),
    (["model.max_tokens=5"], ["model.max_tokens=5"]),
    (["++model.max_tokens=5"], ["model.max_tokens=5"]),
    (["dataset.columns.query=q"], ["++dataset.columns.query='q'"]),
    (["dataset.columns.choices=[A,B]"], ["++dataset.columns.choices=['A','B']"]),
    (["dataset.filter.level=5"], ["++dataset.filter.level=5"]),
    (["model.engine.delay_s=0"], ["++model.engine.delay_s=0"]),
    (["tasks.gsm8k.metrics.accuracy.n=2"], ["++tasks.gsm8k.metrics.accuracy.n=2"]),
    (["model.engine={a: 1}"], ["++model.engine={a: 1}"]),
    (
        ["task=gsm8k@k=2&n=8", "metric=em:n=2", "metric=acc", "task=gsm8k"],
        ["metric=accuracy", "task=gsm8k"],
    ),
    (["-m", "task=gsm8k,demo_math", "model=hf,qwen"], ["model=hf,qwen", "task=gsm8k,demo_math"]),
    (["-m", "task=[gsm8k,demo_math],[gsm8k]"], ["task=[gsm8k,demo_math],[gsm8k]"]),
    (["-m", "metric=em,[accuracy,em]"], ["metric=exact_match,[accuracy,exact_match]"]),
    (["-m", "model.revision=1.10,2.0", "seed=1,2"], ["model.revision='1.10','2.0'", "seed=1,2"]),
    (["seed=1,2", "--multirun"], ["seed=1,2"]),
]


@pytest.mark.parametrize(("words", "overrides"), REWRITTEN)
def test_words_become_overrides_that_hydra_reads(words: list[str], overrides: list[str]) -> None:
    arguments = read(words)
    assert arguments.overrides == overrides
    assert [o.input_line for o in OverridesParser.create().parse_overrides(overrides)] == overrides


def test_flags_of_hydra_stand_apart() -> None:
    arguments = read(["task=gsm8k", "--cfg", "job", "--config-dir=/mine", "--resolve"])
    assert arguments.hydra_flags == ["--cfg", "job", "--config-dir", "/mine", "--resolve"]
    assert (arguments.config_dir, arguments.is_sweep, arguments.overrides) == (
        "/mine",
        False,
        ["task=gsm8k"],
    )
    assert read(["-m"]).is_sweep
    assert read(["-sc", "install=bash"]).hydra_flags == ["-sc", "install=bash"]


def test_what_was_typed_is_found_again() -> None:
    arguments = read(["output_dir=/a 'b'\\", "dataset.columns.query=q", "seed=1", "seed=2"])
    assert arguments.typed == ["output_dir", "dataset.columns.query", "seed", "seed"]
    assert arguments.value("output_dir") == "/a 'b'\\"
    assert (arguments.value("seed"), arguments.value("limit")) == ("2", None)


KEYS = "Allowed below model: api_key_env, backend, base_url,"
REFUSED: list[tuple[list[str], tuple[str, ...]]] = [
    (
        ["--modee", "eval"],
        ("There is no flag '--modee' in the command line. Did you mean '--mode'?",),
    ),
    (["--experimental-rerun", "x"], ("There is no flag '--experimental-rerun'",)),
    (["-x"], ("There is no flag '-x'",)),
    (["--mode"], ("--mode needs a value, such as --mode eval.",)),
    (["--mode", "--debug"], ("--mode needs a value, such as --mode eval.",)),
    (["--limit"], ("--limit needs a value, such as --limit 16.",)),
    (["--config-dir"], ("--config-dir needs a value, such as --config-dir DIR.",)),
    (["--cfg"], ("--cfg needs a value, such as --cfg job.",)),
    (
        ["--cfg", "jib"],
        ("There is no choice 'jib' in --cfg. Did you mean 'job'? Allowed: all, hydra, job.",),
    ),
    (
        ["--dry-run=yes"],
        ("--dry-run is a switch: write --dry-run, or leave it out; got --dry-run=yes.",),
    ),
    (["--resolve"], ("--resolve changes what --cfg prints. Give it with --cfg job.",)),
    (["-m", "--cfg", "job"], ("--cfg and -m do not go together. Give one of them.",)),
    (["-sc", "now"], ("--shell-completion needs install=bash", "got 'now'")),
    (["--mode", "evaluate"], ("There is no mode 'evaluate' in --mode. Did you mean 'eval'?",)),
    (
        ["-m", "mode=infer,eval"],
        ("mode=infer,eval would sweep over modes. Run one mode a command",),
    ),
    (
        ["eval"],
        (
            "'eval' is neither a flag nor a setting of the form key=value. Did you mean --mode "
            "eval?",
        ),
    ),
    (["lst"], ("Did you mean `evalrun list`, as the first word?",)),
    (["=3"], ("'=3' is neither a flag nor a setting",)),
    (["+=3"], ("'+=3' is neither a flag nor a setting",)),
    (
        ["~model.path"],
        ("Nothing is deleted from a configuration: key=null makes a setting absent.",),
    ),
    (
        ["~task=gsm8k"],
        ("~task would delete a setting, which the configuration does not allow. Write task=null.",),
    ),
    (["+task=gsm8k"], ("+task=gsm8k: write task=gsm8k; a choice is set, never added.",)),
    (["task@x=gsm8k"], ("task@x: the name of a setting has no @.",)),
    (["a\udcff=1"], ("is not UTF-8 text",)),
    (
        ["max_samples=3"],
        ("There is no setting 'max_samples' in the command line. Did you mean 'limit'?",),
    ),
    (["tasks=gsm8k"], ("There is no setting 'tasks' in the command line. Did you mean 'task'?",)),
    (
        ["metrics=em"],
        ("There is no setting 'metrics' in the command line. Did you mean 'metric'?",),
    ),
    (["num_fewshot=5"], ("Did you mean 'tasks.NAME.fewshot.n'?",)),
    (
        ["temperature=1"],
        (
            "There is no setting 'temperature' in the command line. Did you mean "
            "'model.temperature'?",
        ),
    ),
    (
        ["model.temprature=1"],
        ("There is no setting 'model.temprature'", "Did you mean 'model.temperature'?", KEYS),
    ),
    (["+model.foo=1"], ("There is no setting 'model.foo'", KEYS)),
    (["model.path.x=1"], ("There is no setting 'model.path.x'", KEYS)),
    (["tasks.gsm8k.promt.template=x"], ("Did you mean 'tasks.gsm8k.prompt.template'?",)),
    (
        ["tasks.gsm8k.prompt.tmplate=x"],
        ("Did you mean 'tasks.gsm8k.prompt.template'? Allowed below tasks.gsm8k.prompt: ",),
    ),
    (
        ["foo=1"],
        (
            "There is no setting 'foo' in the command line. Allowed: allow_code, "
            "allow_equal_samples,",
        ),
    ),
    (
        ["hydra.run.dir=/x"],
        ("hydra.run.dir: evalrun claims its run folders", "output_dir=DIR says where runs go."),
    ),
    (["hydra/launcher=joblib"], ("hydra/launcher: evalrun claims its run folders",)),
    (
        ["dataset=gsm8k"],
        ("dataset=gsm8k: a task names its dataset. Say task=NAME, or dataset.path=FILE",),
    ),
    (
        ["model.engine=3"],
        (
            "model.engine holds settings of its own. Write model.engine.KEY=VALUE, or "
            "'model.engine={",
        ),
    ),
    (
        ["task=a,b"],
        (
            "task=a,b is ambiguous: task=[a,b] asks for them in one run, or `evalrun -m task=a,b` "
            "makes a",
        ),
    ),
    (
        ["model=a,b"],
        ("model=a,b is ambiguous: `evalrun -m model=a,b` makes a sweep of one run each.",),
    ),
    (
        ["seed=1,2"],
        ("seed=1,2 is ambiguous: `evalrun -m seed=1,2` makes a sweep of one run each.",),
    ),
    (
        ["metric=em,acc"],
        ("metric=em,acc is ambiguous: write 'metric=[em,acc]' to score all of them in one run.",),
    ),
    (
        ["task="],
        ("task= holds an empty name. Write one name, or a list such as task=[gsm8k,demo_math].",),
    ),
    (["metric=[em,]"], ("metric=[em,] holds an empty name.", "metric=[accuracy,exact_match]")),
    (["task=[a"], ("task=[a opens a list and does not close it. Write task=[a,b].",)),
    (["task=[a,a]"], ("task a was asked for more than once. Name it once: task=a.",)),
    (["task=[a@n=2,a|1]"], ("task a was asked for more than once.",)),
    (
        ["metric=[em,exact_match]"],
        ("metric exact_match was asked for more than once. Name it once: metric=exact_match.",),
    ),
    (
        ["metric=[pass@k:k=1&n=2,pass@k:k=2&n=2]"],
        ("Name it once, with a list: 'metric=pass@k:k=[1,2,4]&n=16'.",),
    ),
    (["metric=pass@j"], ("There is no metric 'pass@j'. Did you mean 'pass@k'?",)),
    (
        ["metric=pass@k:q=1"],
        ("no parameter 'q' in metric pass@k:q=1. Allowed: k, n, normalize, scorer, strip, ",),
    ),
    (["metric=pass@k:k"], ("cannot be read", "NAME:k=10&n=16")),
    (["task=gsm8k@q=2"], ("There is no parameter 'q' in task 'gsm8k@q=2'.",)),
    (["task=gsm8k|x"], ("'x' is no number of shots. Write NAME[:SUBSET][@k=2&n=8][|SHOTS].",)),
    (["suite=math", "task=gsm8k"], ("suite=math and task=gsm8k contradict each other",)),
    (["-m", "--reuse", "latest"], ("--reuse names one run, and -m makes many.",)),
    (
        ["-m", "task=gsm8k@k=2,demo_math"],
        ("task=gsm8k@k=2 has parameters, which a sweep (-m) cannot carry.",),
    ),
    (["-m", "task=gsm8k|2"], ("task=gsm8k|2 has parameters, which a sweep (-m) cannot carry.",)),
    (
        ["-m", "metric=pass@k:k=2"],
        ("metric=pass@k:k=2 has parameters, which a sweep (-m) cannot carry.",),
    ),
    (["-m", "task=[gsm8k,gsm8k]"], ("task gsm8k was asked for more than once.",)),
]


@pytest.mark.parametrize(("words", "parts"), REFUSED)
def test_refused_in_one_paragraph(words: list[str], parts: tuple[str, ...]) -> None:
    with pytest.raises(Fault) as caught:
        read(words, tuple(COMMANDS))
    text = str(caught.value)
    assert all(part in text for part in parts), text
    assert "\n" not in text
    assert caught.value.exit_code == 2


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=20)
HARD = st.text(st.sampled_from("'\"\\$ {}[],=&|@:#~+1.é中\n\t"), max_size=12)


TASK = "tasks.demo_math"
KEYS_OF_TEXT = (
    "model.system",
    "model.name",
    "model.path",
    "model.revision",
    "model.tokenizer",
    "model.dtype",
    "model.device",
    f"{TASK}.prompt.template",
    f"{TASK}.prompt.answer",
    f"{TASK}.prompt.system",
    f"{TASK}.description",
    f"{TASK}.fewshot.path",
    f"{TASK}.dataset.cluster",
    "output_dir",
)
WORDS = [
    "1.10",
    "007",
    "true",
    "null ",
    "1e5",
    "a=b",
    "a b",
    " a ",
    "it's",
    '"',
    "\\",
    "a\\",
    "\\\\'",
    "é中🙂",
    "{{ x }}",
    "a,b",
    "[a]",
    "{a: b}",
    "$x",
    "yes",
    "~",
    "x #y",
    "(",
    "a:b",
    "`",
    "-",
    "line\nline",
    "\t",
    "'a' and 'b'",
    "\\\n",
]


def read_back(texts: list[str]) -> list[Any]:
    """The texts after a composition by Hydra, each typed for another key of type text."""
    keys = KEYS_OF_TEXT[: len(texts)]
    cfg = composed(read([f"{key}={text}" for key, text in zip(keys, texts, strict=True)]).overrides)
    found: list[Any] = []
    for key in keys:
        value: Any = cfg
        for part in key.split("."):
            value = value[part] if isinstance(value, dict) else getattr(value, part)
        found.append(value)
    return found


@pytest.mark.parametrize("start", range(0, len(WORDS), len(KEYS_OF_TEXT)))
def test_texts_survive_hydra(start: int) -> None:
    texts = WORDS[start : start + len(KEYS_OF_TEXT)]
    assert read_back(texts) == texts


@settings(max_examples=12, deadline=None)
@given(st.lists(TEXTS | HARD, min_size=10, max_size=len(KEYS_OF_TEXT)))
def test_every_text_survives_hydra(texts: list[str]) -> None:
    """Any text typed as it is comes back as it is: only null, '' (absent), outer quotes and
    ${...} mean more.
    """
    plain = [
        t for t in texts if t not in ("null", "") and "${" not in t and grammar.unquote(t) == t
    ]
    assert read_back(plain) == plain


@pytest.mark.parametrize(
    ("word", "value"),
    [
        ("null", None),
        ("'null'", "null"),
        ('"1.10"', "1.10"),
        ("", ""),
        ("''", ""),
        ("seed ${seed}", "seed 0"),
        ("Cost is \\${price} and $5 for {q}", "Cost is ${price} and $5 for {q}"),
    ],
)
def test_what_means_more_than_its_letters(word: str, value: str | None) -> None:
    assert read_back([word]) == [value]


# ---- subsets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("task", "overrides"),
    [
        ("mmlu:anatomy", ["task=mmlu", "tasks.mmlu.subsets=['anatomy']"]),
        (
            "[mmlu:anatomy,gsm8k,mmlu:astronomy]",
            ["task=[mmlu,gsm8k]", "tasks.mmlu.subsets=['anatomy','astronomy']"],
        ),
        (
            "[mmlu:anatomy|2,mmlu:virology|2]",
            ["task=[mmlu]", "tasks.mmlu.fewshot.n=2", "tasks.mmlu.subsets=['anatomy','virology']"],
        ),
    ],
)
def test_subsets_of_one_task_stand_together(task: str, overrides: list[str]) -> None:
    assert read([f"task={task}"]).overrides == overrides


@pytest.mark.parametrize(
    "task",
    [
        "[mmlu:anatomy,mmlu:anatomy]",
        "[mmlu:anatomy,mmlu]",
        "[mmlu:anatomy|2,mmlu:virology]",
        "[mmlu,mmlu]",
    ],
)
def test_subsets_that_do_not_go_together(task: str) -> None:
    with pytest.raises(Fault, match="more than once"):
        read([f"task={task}"])
