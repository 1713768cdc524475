"""The script of tests/gpu: without CUDA its own logic on the CPU, with CUDA a bound on its errors."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

SCRIPT = Path(__file__).parent / "measure.py"
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")


def run(out, *arguments):
    command = [sys.executable, str(SCRIPT), "--out", str(out), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=600)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_without_cuda_nothing_is_measured_and_that_is_said(tmp_path):
    done = run(tmp_path)
    assert (done.returncode, list(tmp_path.iterdir())) == (0, [])
    assert "nothing was measured" in done.stdout


def test_on_the_cpu_the_script_writes_both_tables_and_predicts_what_is_requested(tmp_path):
    done = run(tmp_path, "--device", "cpu", "--quick", "--only", "MLP, AdamW")
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = json.loads((tmp_path / "gpu.json").read_text())["jobs"]
    assert job["measured"]["requested"] > 0
    wrapped = (
        16  # numbers that operators make tensors of: on the CPU its allocator sees them, on a GPU none does
    )
    assert 0 <= job["measured"]["requested"] - job["predicted"]["requested"] <= wrapped
    assert "| MLP, AdamW | requested |" in (tmp_path / "gpu.md").read_text()


@needs_cuda
def test_on_a_gpu_what_is_requested_and_allocated_is_predicted(tmp_path):
    done = run(tmp_path, "--minutes", "3", "--only", "GPT-2 124M, bf16 autocast")
    assert done.returncode == 0, done.stdout + done.stderr
    for job in json.loads((tmp_path / "gpu.json").read_text())["jobs"]:
        for quantity in ("requested", "allocated"):
            predicted, measured = job["predicted"][quantity], job["measured"][quantity]
            assert abs(predicted / measured - 1) < 0.005, (job["name"], quantity)
