"""Names, paths, claiming and finding runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalrun.errors import Fault, TaskFailure
from evalrun.store.layout import (
    Run,
    refuse_clashes,
    safe_name,
    write_text_atomic,
)

NAMES = st.text(max_size=130) | st.text("abAB.-_0123456789/", max_size=12)


@pytest.mark.parametrize(
    "name", ["smollm2", "Qwen2.5-7B-Instruct", "175b_verification", "gsm8k", "a.b", "x.docs2"]
)
def test_safe_names_stay(name: str) -> None:
    assert safe_name(name) == name


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("mmlu:anatomy", r"mmlu_anatomy-[0-9a-f]{6}"),
        ("orgA/m:v1", r"orgA_m_v1-[0-9a-f]{6}"),
        ("", r"_-e3b0c4"),
        ("..", r"_\.-[0-9a-f]{6}"),
        (".hidden", r"_hidden-[0-9a-f]{6}"),
        ("end.", r"end\.-[0-9a-f]{6}"),
        ("t.docs", r"t\.docs-[0-9a-f]{6}"),
        ("t.TIMES", r"t\.TIMES-[0-9a-f]{6}"),
        ("t.12", r"t\.12-[0-9a-f]{6}"),
        ("a-0a1b2c", r"a-0a1b2c-[0-9a-f]{6}"),
        ("con", r"_con-[0-9a-f]{6}"),
        ("Lpt1.x", r"_Lpt1\.x-[0-9a-f]{6}"),
        ("é", r"_-[0-9a-f]{6}"),
        ("a" * 101, r"a{93}-[0-9a-f]{6}"),
        ("\ud800", r"_-[0-9a-f]{6}"),
    ],
)
def test_other_names_are_hashed(name: str, form: str) -> None:
    assert re.fullmatch(form, safe_name(name))


def test_two_owners_stay_apart() -> None:
    """CL-006."""
    paths = {
        Run(Path("o")).cell(model, "t").predictions.folder for model in ("orgA/m:v1", "orgB/m:v1")
    }
    assert len(paths) == 2
    assert all(
        path.parent == Path("o/predictions") and not set(path.name) & set("/:|*") for path in paths
    )


@given(st.lists(NAMES, unique=True, max_size=8))
def test_laws_of_safe_name(names: list[str]) -> None:
    for name in names:
        safe = safe_name(name)
        assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", safe)
        assert not safe.endswith(".")
        assert safe_name(name) == safe
    assert len({safe_name(name) for name in names}) == len(names)
    hashed = [safe_name(name).casefold() for name in names if safe_name(name) != name]
    assert len(set(hashed)) == len(hashed)


def test_clashing_names_are_refused() -> None:
    refuse_clashes(["a", "b", "a/b", "a_b"], "model")
    with pytest.raises(Fault, match="'m' is given twice"):
        refuse_clashes(["m", "m"], "model")
    with pytest.raises(Fault, match="'qwen' and 'Qwen' would share"):
        refuse_clashes(["Qwen", "qwen"], "model")


def test_paths() -> None:
    run = Run(Path("r"))
    cell = run.cell("m", "t")
    got = [
        run.plan_file,
        run.config_file("20260101_000000", 7),
        cell.predictions.file,
        cell.docs_file,
        cell.predictions.new_shard(),
        cell.predictions.lock_file,
        cell.judgements.file,
        cell.judgements.new_shard(),
        cell.judgements.lock_file,
        cell.verdicts_file,
        cell.results_file,
        cell.statistics_file,
        cell.times_file,
        run.summary_dir,
        cell.log_file("infer"),
        cell.log_file("eval"),
    ]
    assert [path.as_posix() for path in got] == [
        "r/configs/plan.json",
        "r/configs/20260101_000000_7.yaml",
        "r/predictions/m/t.arrow",
        "r/predictions/m/t.docs.arrow",
        "r/predictions/m/t.1.arrows",
        "r/predictions/m/t.lock",
        "r/judgements/m/t.arrow",
        "r/judgements/m/t.1.arrows",
        "r/judgements/m/t.lock",
        "r/verdicts/m/t.arrow",
        "r/results/m/t.json",
        "r/results/m/t.docs.arrow",
        "r/results/m/t.times.json",
        "r/summary",
        "r/logs/infer/m/t.out",
        "r/logs/eval/m/t.out",
    ]
    assert cell.log_name("eval") == "logs/eval/m/t.out"
    with pytest.raises(ValueError, match="no log folder for stage 'judge'"):
        cell.log_file("judge")


def test_shards_are_counted_as_numbers(tmp_path: Path) -> None:
    run = Run(tmp_path)
    folder = run.cell("m", "t").predictions.file.parent
    folder.mkdir(parents=True)
    for name in (
        "t.2.arrows",
        "t.10.arrows",
        "t.x.arrows",
        "t.3.arrow",
        "tt.1.arrows",
        "t.11.arrows.damaged",
    ):
        (folder / name).touch()
    assert [path.name for path in run.cell("m", "t").predictions.shards()] == [
        "t.2.arrows",
        "t.10.arrows",
    ]
    assert run.cell("m", "t").predictions.new_shard().name == "t.12.arrows"


def test_claim_is_exclusive(tmp_path: Path) -> None:
    names = [Run.claim(tmp_path / "out", "20260101_000000").path.name for _ in range(3)]
    assert names == ["20260101_000000", "20260101_000000_2", "20260101_000000_3"]
    assert re.fullmatch(r"\d{8}_\d{6}", Run.claim(tmp_path / "out").path.name)
    (tmp_path / "file").touch()
    with pytest.raises(Fault, match="No run folder can be made"):
        Run.claim(tmp_path / "file")


def test_write_text_atomic(tmp_path: Path) -> None:
    path = tmp_path / "a" / "f.json"
    write_text_atomic(path, "old\r\n")
    write_text_atomic(path, "é\ud800")
    assert path.read_bytes() == "é\\ud800".encode()
    assert [entry.name for entry in path.parent.iterdir()] == ["f.json"]
    with pytest.raises(TaskFailure, match=r"Cannot write .*f\.json/x"):
        write_text_atomic(path / "x", "")


def test_layout_loads_no_arrow() -> None:
    code = (
        "import sys, evalrun.store.layout; sys.exit('pyarrow' in sys.modules or 'numpy' in "
        "sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
