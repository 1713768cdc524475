"""Workspaces of cuBLAS and cuBLASLt: by GPU, by torch's version, by thread."""

import pytest
import torch

from tui.probe.predict.semantics import Target, target, workspaces

from .watching import A100, H100, T4, cuda, weight

AMPERE, HOPPER, MIB = 8_519_680, 33_554_432, 2**20


def _kept(gpu, step, **sizes):
    with cuda(gpu, **sizes) as watch:
        step()
    return [size for one in watch.seen for size in one.kept]


def _training():
    layer = torch.nn.Linear(16, 32)
    for _ in range(2):
        layer(torch.empty(8, 16)).sum().backward()


def test_each_of_two_threads_keeps_one_workspace():
    """8,519,680 B are in every recorded trace before Hopper, 33,554,432 B in that of an H100."""
    assert _kept(A100, _training) == [AMPERE, AMPERE]
    assert _kept(H100, _training) == [HOPPER, HOPPER]
    assert _kept(A100, lambda: torch.empty(4, 4) @ torch.empty(4, 4)) == [AMPERE]
    assert _kept(A100, lambda: torch.empty(4, 4) * 2) == []


def test_blackwell_keeps_more_since_torch_2_12(monkeypatch):
    gpu, found = Target("B200", None, (10, 0), 148, 2048), []
    for version in ((2, 11), (2, 12)):
        monkeypatch.setattr(target, "version", lambda version=version: version)
        found.append(_kept(gpu, _training))
    assert found == [[AMPERE, AMPERE], [HOPPER, HOPPER]]


def test_the_environment_and_a_measurement_go_before_the_rule(monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8:16:8")
    assert _kept(A100, _training) == [8 * 4096 * 1024 + 8 * 16 * 1024] * 2
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", ":0:0")
    assert _kept(A100, _training) == []
    assert _kept(A100, _training, cublas_bytes=123) == [123, 123]


def test_a_torch_that_takes_workspaces_by_the_call_keeps_none(monkeypatch):
    monkeypatch.setattr(workspaces, "header", lambda path: "bool isCUDABlasWorkspaceCachingEnabled();")
    with cuda() as watch:
        torch.empty(4, 4) @ torch.empty(4, 4)
    (found,) = watch.named("mm")
    assert (found.kept, found.after) == ([], [AMPERE])
    monkeypatch.setenv("TORCH_CUBLAS_WORKSPACE_CACHE", "1")
    assert _kept(A100, _training) == [AMPERE, AMPERE]


@pytest.mark.parametrize(
    ("version", "gpu", "after", "kept"),
    [
        ((2, 6), T4, [MIB], [AMPERE]),
        ((2, 6), A100, [4 * MIB], [AMPERE]),
        ((2, 8), H100, [32 * MIB], [HOPPER]),
        ((2, 9), A100, [], [AMPERE, 4 * MIB]),
        ((2, 11), A100, [], [AMPERE]),
    ],
)
def test_an_epilogue_with_a_bias_takes_cublaslts_workspace_by_version(monkeypatch, version, gpu, after, kept):
    """Recorded with torch 2.6: 1,048,576 B for the time of each such call, beside the kept 8,519,680 B."""
    monkeypatch.setattr(target, "version", lambda: version)
    with cuda(gpu) as watch, torch.no_grad():
        torch.nn.Linear(16, 32)(torch.empty(8, 16))
        torch.nn.Linear(16, 1)(torch.empty(8, 16))
    wide, narrow = watch.named("addmm")
    assert (wide.after, wide.kept) == (after, kept)
    assert (narrow.after, narrow.kept) == ([], [])  # a single column never goes there


def test_a_matrix_that_cublas_cannot_step_through_is_copied_first():
    """The gradient of a plain sum is one value with strides of 0."""
    with cuda() as watch:
        w = weight(32, 16)
        torch.nn.functional.linear(torch.empty(8, 16), w).sum().backward()
    assert [one.after for one in watch.named("mm")] == [[], [8 * 32 * 4]]
