"""A driver library for the real bindings to load: built once a session, played by environment variables."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("nvml_stub.c")
NAME = "libnvidia-ml.so.1"
"""What the bindings ask the system's loader for."""
GIB = 2**30


def gpu(uuid: str, total: int = 80 * GIB, used: int = 0, reserved: int = GIB, free: int | None = None) -> str:
    """One STUB_GPU_n or STUB_MIG_n."""
    left = total - used - reserved if free is None else free
    return f"{uuid}/H100 80GB/{total}/{used}/{left}/{reserved}"


@pytest.fixture(scope="session")
def stub_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the library in it."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build a driver library with")
    folder = tmp_path_factory.mktemp("driver")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", folder / NAME, SOURCE], check=True)
    return folder


Play = Callable[..., None]


@pytest.fixture
def play(stub_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Play:
    """Loads the library into the bindings, as if the loader had found it; ``play(STUB_...=...)`` directs it."""
    import pynvml

    library = ctypes.CDLL(str(stub_folder / NAME))
    monkeypatch.setattr(pynvml, "nvmlLib", library)
    monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})
    for name in ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)

    def direct(**variables: str) -> None:
        library.stub_reset()
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

    return direct
