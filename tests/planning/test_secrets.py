"""A secret is refused before anything is written, and its value is never shown."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.running import case
from support.workspace import Bench, Evalrun, write_bench

from evalrun.errors import Fault
from evalrun.planning import secrets

SECRET = "sk-test-456"


@pytest.fixture
def small(tmp_path: Path) -> Bench:
    """One question, one answer."""
    return write_bench(tmp_path, ["1"])


def files_with(folder: Path, *needles: str) -> list[str]:
    """Files below the folder that hold one of the needles."""
    found = [p for p in folder.rglob("*") if p.is_file()]
    return [str(p) for p in found if any(needle.encode() in p.read_bytes() for needle in needles)]


WORDS = [
    f"model.api_key={SECRET}",
    f"+model.api_key={SECRET}",
    f"++model.engine.openai_api_key={SECRET}",
    f"+model.extra_body.client_secret={SECRET}",
    f"model.extra_body.access_token={SECRET}",
    f"model.extra_body.auth_token={SECRET}",
    f"model.extra_body.Password={SECRET}",
    f"model.engine.hf_token={SECRET}",
    f"model.extra_body.headers.Authorization={SECRET}",
    f"model.extra_body={{api_key: {SECRET}}}",
    f"model.extra_body={{a: 1, 'x_password' : {SECRET}}}",
    f"model.api_key_env={SECRET}",
    f"model.base_url=https://me:{SECRET}@host/v1",
    f"model.base_url=https://{SECRET}@host/v1",
    f"dataset.path=s3://user:{SECRET}@bucket/x.jsonl",
    f"--api_key={SECRET}",
    f"--reuse=https://u:{SECRET}@h",
]


@pytest.mark.parametrize("is_sweep", [False, True])
@pytest.mark.parametrize("word", WORDS)
def test_no_file_and_no_message_holds_it(
    word: str, is_sweep: bool, small: Bench, evalrun: Evalrun, tmp_path: Path
) -> None:
    ran = evalrun(*small.words(word), *(["-m", "seed=1,2"] if is_sweep else []))
    assert ran.code == 2
    assert SECRET not in ran.out + ran.err
    assert "model.api_key_env=NAME" in ran.err
    assert ran.err.count("\n") == 1
    assert not (tmp_path / "outputs").exists()


@pytest.mark.parametrize("more", [[], ["--debug"], ["--cfg", "job"], ["--dry-run"]])
def test_not_even_with_debug(
    more: list[str], small: Bench, evalrun: Evalrun, tmp_path: Path
) -> None:
    ran = evalrun(*small.words(f"model.api_key={SECRET}", *more))
    assert ran.code == 2
    assert SECRET not in ran.out + ran.err
    assert files_with(tmp_path, SECRET) == []


CONFIGS = {
    "key": "api_key: ${oc.env:API_KEY}\n",
    "plain": "engine: {api_key: sk-test-123}\n",
    "engine": "engine: {token: '${oc.env:API_KEY}'}\n",
    "body": "extra_body: {user: '${oc.env:API_KEY}'}\n",
    "system": "system: 'Key ${oc.env:API_KEY}'\n",
    "decoded": "system: '${oc.decode:${oc.env:API_KEY}}'\n",
    "revision": "revision: ${oc.env:API_KEY}\n",
    "name": "api_key_env: ${oc.env:API_KEY}\n",
    "pasted": "api_key_env: sk-test-123\n",
    "url": "base_url: https://${oc.env:API_KEY}@host/v1\n",
}


@pytest.mark.parametrize("name", CONFIGS)
def test_cf_010_a_file_that_reads_the_key(
    name: str, small: Bench, evalrun: Evalrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = case("config", "CF-010")
    (secret,) = row["input"]["env"].values()
    monkeypatch.setenv("API_KEY", secret)
    folder = tmp_path / "mine" / "model"
    folder.mkdir(parents=True)
    (folder / "own.yaml").write_text(
        f"name: own\nbackend: replay\npath: {small.answers}\n{CONFIGS[name]}"
    )
    before = files_with(tmp_path, secret)
    for sweep in ([], ["-m", "seed=1,2"]):
        words = [
            "model=own",
            "task=gsm8k",
            f"dataset.path={small.data}",
            "--config-dir",
            str(tmp_path / "mine"),
        ]
        ran = evalrun(*words, *sweep)
        assert ran.code == 2
        assert secret not in ran.out + ran.err
        assert "Traceback" not in ran.err
    assert files_with(tmp_path, secret) == before
    assert not (tmp_path / "outputs").exists()


def test_cf_010_the_override() -> None:
    row = case("config", "CF-010")
    with pytest.raises(Fault) as caught:
        secrets.refuse_in_overrides([row["input"]["also_override"]])
    assert "sk-test-456" not in str(caught.value)
    assert row["expected"]["plan_shows"] in str(caught.value)


def test_places_may_read_the_environment(
    small: Bench, evalrun: Evalrun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNS", "elsewhere")
    ran = evalrun(*small.words("output_dir=${oc.env:RUNS}/runs"))
    assert ran.code == 0, ran.err
    assert len(list((tmp_path / "elsewhere" / "runs").iterdir())) == 1


@pytest.mark.parametrize(
    "key", ["model.max_tokens", "api_key_env", "tasks.a.prompt.template", "token", "secretary"]
)
def test_ordinary_keys_are_none(key: str) -> None:
    assert not secrets.is_secret_key(key)


@pytest.mark.parametrize(
    "word",
    [
        "model.api_key_env=OPENAI_API_KEY",
        "model.api_key_env=null",
        "model.base_url=http://h:8000/v1@x",
        "model.system=a@b",
    ],
)
def test_ordinary_words_pass(word: str) -> None:
    secrets.refuse_in_overrides([word])
