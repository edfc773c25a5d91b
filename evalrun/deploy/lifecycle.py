"""The server under test over one run: installed and started when first asked, watched, ended
with the run.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from evalrun import backends
from evalrun.backends.base import Backend, Sink
from evalrun.deploy import leftover, ports, supervisor
from evalrun.deploy.checks import Checked
from evalrun.deploy.environment import server_environment
from evalrun.deploy.install import Installation
from evalrun.deploy.ready import Note, Readiness
from evalrun.deploy.supervised import Supervised
from evalrun.errors import Fault, TaskFailure
from evalrun.store.layout import Run
from evalrun.store.state import Keeper, Phase
from evalrun.types import ModelPlan, Request

PORT_WAIT_S = 10.0
SHORT_WAIT_S = 2.0
END_WAIT_S = 2.0
FOLDER = "deploy"


@contextmanager
def serving(
    checked: Checked, run: Run, keeper: Keeper, note: Note
) -> Iterator[Callable[[ModelPlan], Backend]]:
    """A maker of engines, to be used within the block, whose model is the server under test.

    Nothing starts before the first request needs it. However the block is left, the server and all
    that it started are ended and its port is looked at again. A server that fails makes
    TaskFailures, each with its last lines.

    Args:
        checked: the deployment.
        run: whose folder holds the server's files and logs.
        keeper: receives the phases and the processes.
        note: shows a line to the user.
    """
    server = ServerUnderTest(checked, run, keeper, note)
    try:
        yield server.backend
    finally:
        server.stop()


class ServerUnderTest:
    """Installs, starts, watches and ends one server."""

    def __init__(self, checked: Checked, run: Run, keeper: Keeper, note: Note) -> None:
        self.checked = checked
        self.folder = run.path.resolve() / FOLDER
        self.logs = run.path / "logs"
        self.keeper = keeper
        self.note = note
        self.server: Supervised | None = None
        self.model: ModelPlan | None = None
        self.failure: TaskFailure | None = None
        self._watched: list[Supervised] = []
        self._mutex = threading.Lock()
        self._claim: socket.socket | None = None
        self._asked: Backend | None = None

    def backend(self, model: ModelPlan) -> Backend:
        """What the run gets in place of the plain client."""
        return DeployedBackend(model, self)

    def start(self) -> ModelPlan:
        """The model as the server serves it; install and start it at the first call.

        TaskFailure, also again.
        """
        if self.failure is not None:
            raise self.failure
        if self.model is None:
            try:
                self.model = self._started()
            except TaskFailure as failure:
                self.failure = failure
                raise
            self.keeper.enter(Phase.TESTING)
        return self.model

    def _started(self) -> ModelPlan:
        checked = self.checked
        home = leftover.home_of(self.folder.parent)
        home.mkdir(parents=True, exist_ok=True)
        venv = checked.venv
        if checked.has_requirements:
            venv = venv or self.folder / "venv"
            self._install(venv, home)
        self.keeper.enter(Phase.STARTING)
        self._require_port()
        if checked.script.note is not None:
            self.note(checked.script.note)
        log = self.logs / "deploy.out"
        self.note(f"starting {checked.script.path}; its output: {log}")
        server = Supervised(
            "deploy.sh",
            checked.script.command(self.folder),
            self._environment(venv, home),
            checked.repo,
            log,
            checked.deploy.stop_timeout_s,
            self._ended,
        )
        self.server = server
        self._watched = [server]
        self.keeper.supervise(server.supervisor_pid)
        server.wait_started()
        self.keeper.supervise(server.supervisor_pid, server.pid)
        return self._ready(server)

    def _ready(self, server: Supervised) -> ModelPlan:
        checked = self.checked
        readiness = Readiness(
            server, checked.deploy.port, checked.deploy.ready_timeout_s, self.note
        )
        readiness.wait()
        self._require_own(server)
        name = readiness.name(checked.model.path, str(checked.weights.path))
        model = replace(checked.model, path=name)
        readiness.probe(model)
        if server.ended.is_set():  # another program answered
            raise server.failure()
        self.note(f"the server is ready; it calls its model {name}")
        return model

    def _require_port(self) -> None:
        """TaskFailure where the port was taken since it was checked: the installation may have
        taken an hour.
        """
        port = self.checked.deploy.port
        self._claim = self._claim or ports.claim(port)
        problem = ports.wait_free(port, SHORT_WAIT_S) if self._claim else ports.claimed_text(port)
        if problem is not None:
            raise TaskFailure(
                f"Port {port} {problem} since the run was checked, so deploy.sh was not started. "
                "End what holds it and go on with --resume, or let deploy.sh listen elsewhere: "
                "deploy.port=PORT."
            )

    def _require_own(self, server: Supervised) -> None:
        """TaskFailure where what answers is older than deploy.sh: a foreign server would be
        tested in its place.
        """
        port, begun = self.checked.deploy.port, supervisor.process_row(server.supervisor_pid)
        holders = {
            pid: row
            for pid in ports.pids_on(port)
            if (row := supervisor.process_row(pid)) is not None
        }
        if (
            begun is None
            or not holders
            or holders.keys() & supervisor.descendants(server.supervisor_pid).keys()
        ):
            return
        by = f"pid {', '.join(map(str, holders))}"
        if all(int(row[2]) < int(begun[2]) for row in holders.values()):
            raise TaskFailure(
                f"Port {port} is answered by {by}, which was there before deploy.sh began, so it "
                "is not the server under test. End it and go on with --resume. deploy.sh's last "
                f"lines ({server.log}):\n{server.tail()}"
            )
        self.note(
            f"port {port} is answered by {by}, which does not come of deploy.sh: is it a container "
            "of its own?"
        )

    def _install(self, venv: Path, home: Path) -> None:
        checked = self.checked
        self.keeper.enter(Phase.INSTALLING)
        log = self.logs / "install.out"
        self.note(f"installing requirements.txt into {venv}; log: {log}")
        installation = Installation(checked.deploy, checked.python, venv, checked.repo, log)
        bare = self._environment(None if checked.venv is None else venv, home)
        installation.run(bare, self._watched)

    def _environment(self, venv: Path | None, home: Path) -> dict[str, str]:
        return server_environment(
            self.checked.deploy, os.environ, home, self.checked.weights.path, venv
        )

    def stop(self) -> None:
        """End what runs, and say so where something could not be ended.

        A failing stop hides no other error.
        """
        left = [pid for command in self._watched for pid in command.stop()]
        self._watched = []
        if self._claim is not None:
            self._claim.close()
        if self.server is None:
            return
        with suppress(TaskFailure):  # a full disk must not hide why the block is left
            self.keeper.supervise(None)
        if left:
            self.note(
                f"processes of the server that could not be ended: {', '.join(map(str, left))}"
            )
        if (problem := ports.wait_free(self.checked.deploy.port, PORT_WAIT_S)) is not None:
            self.note(f"the server was ended, but port {self.checked.deploy.port} {problem}")

    def has_ended(self, seconds: float = 0.0) -> TaskFailure | None:
        """The failure to raise where the server has ended by itself, within the next `seconds`
        too.
        """
        if self.server is not None and self.server.ended.wait(seconds):
            self.failure = self.failure or self.server.failure()
        return self.failure

    def _ended(self) -> None:
        """Called by the watching thread: nobody is left to answer what is in flight."""
        with self._mutex:
            if self._asked is not None:
                self._asked.cancel()

    @contextmanager
    def asking(self, client: Backend) -> Iterator[None]:
        """Within the block the end of the server cancels the client's requests.

        TaskFailure where it has ended already.
        """
        with self._mutex:
            self._asked = client
        try:
            # Looked at after the client was named: whenever the server ends, one of the two sees it
            if (failure := self.has_ended()) is not None:
                raise failure
            yield
        finally:
            with self._mutex:
                self._asked = None


class DeployedBackend:
    """The plain client behind a server that is started when it is first needed."""

    def __init__(self, model: ModelPlan, server: ServerUnderTest) -> None:
        self.model = model
        self._server = server
        self._client: Backend | None = None

    def start(self) -> None:
        """Start the server, where it is not up. TaskFailure where it fails, or has ended."""
        model = self._server.start()
        if (failure := self._server.has_ended()) is not None:
            raise failure
        if self._client is None:
            client = backends.create(model)
            try:
                client.start()
            except Fault as fault:
                raise self._server.has_ended(END_WAIT_S) or TaskFailure(str(fault)) from fault
            self._client = client

    def facts(self) -> dict[str, str]:
        """The client's facts, the weights' path cut to its name; weights: a digest of their
        files.
        """
        weights = self._server.checked.weights
        facts = self._started().facts()
        if facts.get("revision") == str(weights.path):
            facts = {**facts, "revision": weights.path.name}
        return facts if weights.digest is None else {**facts, "weights": weights.digest}

    def render(self, request: Request) -> str:
        """As the client renders it."""
        return self._started().render(request)

    def run(self, requests: Iterable[Request], sink: Sink) -> None:
        """As the client runs it; TaskFailure with the server's last lines as soon as it has
        ended.
        """
        client = self._started()
        try:
            with self._server.asking(client):
                client.run(requests, sink)
        except TaskFailure as failure:
            ended = self._server.has_ended(END_WAIT_S)
            if ended is None or ended is failure:
                raise
            raise ended from failure

    def cancel(self) -> None:
        """Cancel the client's requests."""
        if self._client is not None:
            self._client.cancel()

    def close(self) -> None:
        """Free the client; the server stays for the next task."""
        if self._client is not None:
            self._client.close()
            self._client = None

    def _started(self) -> Backend:
        self.start()
        assert self._client is not None
        return self._client
