"""Shells for the tests of the command line, and the longer commands, two at a time, that many tests look at."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from cli_shell import OWN, TINY, Done, Shell
from cli_workloads import BATCH, MODEL, WORKLOADS

Ran = tuple[Shell, Done]


@pytest.fixture
def shell(tmp_path) -> Shell:
    return Shell(tmp_path)


def run_whole(shell: Shell) -> Ran:
    shell.write(TINY)
    return shell, shell("run", "tiny.toml", "--iterations", "6", "--warmup", "2")


def run_quick_probe(shell: Shell) -> Ran:
    shell.write(TINY)
    return shell, shell("probe", "tiny.toml", "--quick", "--warmup", "2", "--json")


def run_disagreeing(shell: Shell) -> Ran:
    shell.write(MODEL + BATCH, "workload.py")
    shell.write(TINY.replace('source = "mlp"', 'source = "workload.py"'))
    return shell, shell("params", "tiny.toml", "--trust")


def run_failed_verify(shell: Shell) -> Ran:
    flat = "def loss(model, batch):\n    return model(**batch).sum() * 0 + 1\n"
    shell.write(MODEL + BATCH + flat, "workload.py")
    shell.write(OWN)
    return shell, shell("run", "tiny.toml", "--steps", "verify,report", "--trust")


def run_too_large(shell: Shell) -> Ran:
    large = TINY.replace("hidden = [32]", "hidden = [2048]").replace('job = "4 GiB"', 'job = "900 MiB"')
    shell.write(large.replace("accumulate = 2", "accumulate = 1"))
    return shell, shell("probe", "tiny.toml", "--batch", "1,2,131072", "--iterations", "2", "--warmup", "2")


def run_search(shell: Shell) -> Ran:
    """Wide enough that one sample takes 25 KiB: half a batch more decides, whatever Python and torch take."""
    wide = TINY.replace("inputs = 16, hidden = [32]", "inputs = 1, hidden = [2048]")
    wide = wide.replace("micro = 4", "micro = 8192").replace("accumulate = 2", "accumulate = 1")
    shell.write(wide.replace('"4 GiB"', '"600 MiB"').replace("batches = 2", "batches = 1"))
    return shell, shell("probe", "tiny.toml", "--search", "--multiple-of", "8192", "--quick", "--json")


def run_fault(name: str) -> Callable[[Shell], Ran]:
    def run(shell: Shell) -> Ran:
        words, source = WORKLOADS[name]
        shell.write(source, "workload.py")
        shell.write(OWN)
        return shell, shell(*words, "tiny.toml", "--trust")

    return run


RUNS: dict[str, dict[str, Callable[[Shell], Ran]]] = {
    "whole_run": {"whole": run_whole},
    "quick_probe": {"quick": run_quick_probe},
    "disagreeing": {"disagreeing": run_disagreeing},
    "failed_verify": {"failed": run_failed_verify},
    "too_large": {"large": run_too_large},
    "searched": {"searched": run_search},
    "fault": {name: run_fault(name) for name in WORKLOADS},
}
"""By fixture: what it runs.  Only what the tests of this session ask for is started."""


@pytest.fixture(scope="session")
def started(request, tmp_path_factory) -> Iterator[dict[str, dict[str, Future[Ran]]]]:
    asked = {name for item in request.session.items for name in item.fixturenames}
    with ThreadPoolExecutor(2) as pool:
        yield {
            fixture: {
                name: pool.submit(run, Shell(tmp_path_factory.mktemp(name))) for name, run in runs.items()
            }
            for fixture, runs in RUNS.items()
            if fixture in asked
        }


@pytest.fixture(scope="session")
def whole_run(started) -> Ran:
    """Every step on the tiny project; what it left is not changed by any test."""
    return started["whole_run"]["whole"].result()


@pytest.fixture(scope="session")
def quick_probe(started) -> Ran:
    return started["quick_probe"]["quick"].result()


@pytest.fixture(scope="session")
def disagreeing(started) -> Ran:
    return started["disagreeing"]["disagreeing"].result()


@pytest.fixture(scope="session")
def failed_verify(started) -> Ran:
    return started["failed_verify"]["failed"].result()


@pytest.fixture(scope="session")
def too_large(started) -> Ran:
    return started["too_large"]["large"].result()


@pytest.fixture(scope="session")
def searched(started) -> Ran:
    return started["searched"]["searched"].result()


@pytest.fixture
def fault(started) -> Callable[[str], Ran]:
    return lambda name: started["fault"][name].result()


@pytest.fixture(autouse=True)
def _started_early(request) -> None:
    """Whatever runs first starts the longer commands, so that they go on beside the other tests."""
    if any(name in RUNS for item in request.session.items for name in item.fixturenames):
        request.getfixturevalue("started")
