"""What is checked before anything is made: the repository, the weights, the port, the tools."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass, replace
from pathlib import Path

from evalrun import backends
from evalrun.config import RunConfig
from evalrun.deploy import environment, leftover, ports, script, weights
from evalrun.deploy.install import NAME as REQUIREMENTS
from evalrun.deploy.ready import HOST
from evalrun.deploy.supervisor import KILL_LIMIT_S
from evalrun.errors import Fault
from evalrun.store import state
from evalrun.store.layout import Run
from evalrun.types import DeployPlan, ModelPlan, Plan

DEFAULT_SAMPLES = 5
"""num_return_sequences of a run that tests a server, where nothing says otherwise: the rule of
the accuracy test.
"""


@dataclass(frozen=True, slots=True)
class Checked:
    """A deployment that can begin.

    Attributes:
        python: makes the environment; None where none is made.
        venv: the named one.
    """

    deploy: DeployPlan
    model: ModelPlan
    repo: Path
    script: script.Script
    weights: weights.Weights
    python: str | None
    venv: Path | None

    @property
    def has_requirements(self) -> bool:
        """Whether there is anything to install."""
        return (self.repo / REQUIREMENTS).is_file()

    def steps(self) -> list[str]:
        """What will be done, one line each, for people."""
        where = str(self.venv) if self.venv else f"an environment of the run, made by {self.python}"
        return [
            f"check    {self.script.path}; weights {self.weights.path}: {self.weights.n_files} "
            f"files, {self.weights.size_text}; port {self.deploy.port} is free",
            f"install  {REQUIREMENTS} into {where}"
            if self.has_requirements
            else f"install  nothing (no {REQUIREMENTS})",
            f"start    {' '.join(self.script.interpreter)} {script.NAME} in {self.repo}, "
            f"MODEL_PATH={self.weights.path}",
            f"wait     for {self.model.base_url}, up to {self.deploy.ready_timeout_s:g} s; then "
            "one streamed request",
            "stop     the server and all that it started",
        ]


def default_samples(config: RunConfig) -> RunConfig:
    """The configuration with num_return_sequences=5 where a server is started and nothing says
    how many samples.
    """
    model = config.model
    if model.repo is None or config.num_return_sequences is not None:
        return config
    said = [*config.task_params.values(), *config.metrics.values()]
    if any(
        isinstance(params, dict) and {"n", "k"} & {k for k, v in params.items() if v is not None}
        for params in said
    ):
        return config
    return replace(config, num_return_sequences=DEFAULT_SAMPLES)


def with_origin(plan: Plan) -> Plan:
    """The plan of a configuration that got the default: its cells say where their n comes from."""
    said = f"num_return_sequences={DEFAULT_SAMPLES}, the default where the run starts the server"
    cells = [
        replace(
            cell,
            origins=tuple(
                (k, said if (k, v) == ("n", "num_return_sequences") else v) for k, v in cell.origins
            ),
        )
        for cell in plan.cells
    ]
    return replace(plan, cells=tuple(cells))


def addressed(plan: Plan) -> Plan:
    """The plan with the address of the server that will be started."""
    if plan.deploy is None:
        return plan
    return replace(plan, model=replace(plan.model, base_url=f"http://{HOST}:{plan.deploy.port}/v1"))


def check(plan: Plan) -> Checked:
    """Everything that can be known before a folder is made.

    Fault naming what is missing, too large or taken.
    """
    model = plan.model
    if model.repo is None or model.weights is None or plan.deploy is None:
        given = f"got model.repo={model.repo}, model.weights={model.weights}"
        raise Fault(
            "To test a server that the run starts, name both folders: model.repo=DIR (deploy.sh "
            f"at its root) and model.weights=DIR (what deploy.sh gets as $MODEL_PATH); {given}."
        )
    _refuse_contradictions(model, plan.deploy)
    environment.check_env(plan.deploy)
    repo, folder = _absolute(model.repo), _absolute(model.weights)
    if not repo.is_dir():
        raise Fault(f"model.repo={repo} is not a folder. It should hold {script.NAME} at its root.")
    found = script.read(repo)
    sizes = weights.read(folder)
    weights.check_size(sizes, plan.deploy.max_weights_gb)
    venv, python = _tools(plan.deploy, (repo / REQUIREMENTS).is_file())
    addressed_model = addressed(plan).model
    backends.create(addressed_model).close()  # settings that the client refuses are refused now
    if not _is_at_work(plan):
        _require_port(plan)
    return Checked(plan.deploy, addressed_model, repo, found, sizes, python, venv)


def _require_port(plan: Plan) -> None:
    """Fault where the port is taken, or another run is about to take it."""
    assert plan.deploy is not None
    port = plan.deploy.port
    claim = ports.claim(port)
    if claim is not None:
        claim.close()
    problem = ports.problem(port) if claim is not None else ports.claimed_text(port)
    if problem is None:
        return
    way_out = "End what holds it"
    if plan.run_dir and leftover.found(leftover.home_of(Path(plan.run_dir))):
        way_out = (
            f"It was left by this run, whose supervisor was killed; `evalrun stop {plan.run_dir}` "
            "ends it"
        )
    raise Fault(
        f"Port {port} {problem}, so the server could not listen on it. {way_out}, or name the port "
        "on which deploy.sh listens: deploy.port=PORT."
    )


def _is_at_work(plan: Plan) -> bool:
    """Whether another process works on the run that is to be resumed: said better by what refuses
    two writers.

    Where that process was killed, its supervisor may still be ending the server: waits for it.
    """
    if not plan.run_dir or plan.deploy is None:
        return False
    until = time.monotonic() + plan.deploy.stop_timeout_s + KILL_LIMIT_S
    while (
        (now := state.read(Run(Path(plan.run_dir)))) is not None
        and not now.is_alive
        and now.is_supervisor_alive
    ):
        if time.monotonic() > until:
            return False
        time.sleep(0.1)
    return now is not None and now.is_alive and not now.phase.is_end


def _absolute(path: str) -> Path:
    """As MODEL_PATH gives it: absolute, symbolic links as they are."""
    return Path(os.path.abspath(os.path.expanduser(path)))


def _refuse_contradictions(model: ModelPlan, deploy: DeployPlan) -> None:
    if not backends.facts_of(model.backend).is_deployable:
        able = [name for name in backends.names() if backends.facts_of(name).is_deployable]
        raise Fault(
            f"model.backend={model.backend} with model.repo: a server that the run starts is asked "
            f"by {' or '.join(able)} only."
        )
    own = f"http://{HOST}:{deploy.port}/v1"
    if model.base_url not in (None, own) or model.replicas:
        given = (
            f"model.base_url={model.base_url}"
            if model.base_url not in (None, own)
            else "model.replicas"
        )
        raise Fault(
            f"{given} names a server that is up, model.repo={model.repo} one that the run starts. "
            f"Leave one of them out; the server that is started is asked at {own} (deploy.port)."
        )
    if model.api_key_env is not None:
        raise Fault(
            f"model.api_key_env={model.api_key_env} would hand your key to the server under test. "
            "Leave it out: a server on this machine needs none."
        )


def _tools(deploy: DeployPlan, has_requirements: bool) -> tuple[Path | None, str | None]:
    """(the named environment, the python that makes one). Fault where they do not exist."""
    if deploy.venv is not None:
        venv = _absolute(deploy.venv)
        if not os.access(venv / "bin" / "python", os.X_OK):
            raise Fault(
                f"deploy.venv={venv} is no virtual environment: there is no bin/python in it. Name "
                "one that exists, or leave it out: one is made for the run."
            )
        return venv, None
    return None, environment.machine_python(deploy) if has_requirements else None
