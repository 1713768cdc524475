"""Devices as a made-up driver shows them, and the CPU as the kernel does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tui.engine import host, nvml
from tui.engine.device import Device, refuse_if_busy, resolve
from tui.errors import RunError

GIB = 2**30
ROOT = Path(__file__).parents[1]


class NVMLError(Exception):
    """As in the library: the class's name says what is wrong."""


def nvml_error(name: str, text: str) -> NVMLError:
    return type(f"NVMLError_{name}", (NVMLError,), {})(text)


class Driver:
    """Plays the library: GPUs are tables, and any call can be made to fail."""

    nvmlMemory_v2 = 0x02000028

    def __init__(self, *gpus: dict[str, Any], failing: dict[str, Exception] | None = None) -> None:
        self.gpus = gpus
        self.failing = failing or {}
        self.open = 0

    def __getattribute__(self, name: str) -> Any:
        failing = object.__getattribute__(self, "failing") if name.startswith("nvml") else {}
        if name not in failing:
            return object.__getattribute__(self, name)

        def fail(*_: Any, **__: Any) -> None:
            raise failing[name]

        return fail

    def nvmlInit(self) -> None:
        self.open += 1

    def nvmlShutdown(self) -> None:
        self.open -= 1

    def nvmlDeviceGetCount(self) -> int:
        return len(self.gpus)

    def nvmlSystemGetDriverVersion(self) -> bytes:
        return b"570.124.06"

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:
        return self.gpus[index]

    def nvmlDeviceGetUUID(self, handle: dict[str, Any]) -> str:
        return handle["uuid"]

    def nvmlDeviceGetName(self, handle: dict[str, Any]) -> Any:
        return handle.get("name", "NVIDIA H100 80GB HBM3")

    def nvmlDeviceGetMigMode(self, handle: dict[str, Any]) -> list[int]:
        if "parts" not in handle:
            raise nvml_error("NotSupported", "Not Supported")
        return [1, 1]

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: dict[str, Any]) -> int:
        return 7

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: dict[str, Any], index: int) -> dict[str, Any]:
        if index >= len(handle["parts"]):
            raise nvml_error("NotFound", "Not Found")
        return handle["parts"][index]

    def nvmlDeviceGetMemoryInfo(self, handle: dict[str, Any], version: int | None = None) -> SimpleNamespace:
        total, used, reserved = handle.get("memory", (80 * GIB, 0, GIB))
        free = total - used - reserved
        if version is None:
            return SimpleNamespace(total=total, used=used + reserved, free=free)
        if handle.get("old"):
            raise nvml_error("FunctionNotFound", "Function Not Found")
        return SimpleNamespace(total=total, used=used, free=free, reserved=reserved)


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Installs a made-up driver; without a call there is none."""
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)

    def install(*gpus: dict[str, Any], **failing: Exception) -> Driver:
        driver = Driver(*gpus, failing=failing)
        monkeypatch.setitem(sys.modules, "pynvml", driver)
        return driver

    install(nvmlInit=nvml_error("LibraryNotFound", "NVML Shared Library Not Found"))
    return install


TWO = ({"uuid": "GPU-1f0c"}, {"uuid": "GPU-77d2"})


def test_auto_is_the_cpu_where_there_is_no_driver_and_says_why():
    device = resolve("auto")
    assert (device.kind, device.id) == ("cpu", "cpu")
    assert device.unknown["cuda"] == "no NVIDIA driver is installed (libnvidia-ml.so.1 was not found)"


def test_auto_is_the_first_device_of_the_driver(machine):
    driver = machine(*TWO)
    device = resolve("auto")
    assert (device.kind, device.id, device.index) == ("cuda", "GPU-1f0c", 0)
    assert (device.name, device.driver) == ("NVIDIA H100 80GB HBM3", "570.124.06")
    assert device.variables() == {"CUDA_VISIBLE_DEVICES": "GPU-1f0c"}
    assert driver.open == 0


def test_the_cpu_is_taken_when_it_is_named_and_hides_the_gpus_from_the_child(machine):
    machine(*TWO)
    assert resolve("cpu").kind == "cpu"
    assert resolve("cpu").variables() == {"CUDA_VISIBLE_DEVICES": ""}


@pytest.mark.parametrize(
    ("visible", "expected"),
    [
        ("GPU-77d2,GPU-1f0c", "GPU-77d2"),
        ("GPU-77", "GPU-77d2"),
        ("1", "GPU-77d2"),
        ("1,0", "GPU-77d2"),
        ("", "cpu"),
        ("-1", "cpu"),
        ("GPU-9aa0,GPU-1f0c", "cpu"),
    ],
)
def test_auto_takes_what_cuda_visible_devices_allows(machine, monkeypatch, visible, expected):
    machine(*TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert resolve("auto").id == expected


def test_numbers_of_unlike_cards_mean_nothing_without_an_order(machine, monkeypatch):
    machine({"uuid": "GPU-1f0c", "name": "RTX 3090"}, {"uuid": "GPU-77d2", "name": "H100"})
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    with pytest.raises(RunError, match="in an order that only CUDA knows; set CUDA_DEVICE_ORDER=PCI_BUS_ID"):
        resolve("auto")
    monkeypatch.setenv("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    assert resolve("auto").id == "GPU-1f0c"


def test_a_device_is_found_by_its_uuid_or_the_beginning_of_it(machine):
    machine(*TWO)
    assert resolve("GPU-77d2").index == 1
    assert resolve("GPU-7").id == "GPU-77d2"


def test_an_unknown_uuid_names_the_devices_that_are_there(machine):
    machine(*TWO)
    with pytest.raises(RunError) as caught:
        resolve("GPU-9aa0", where="gpt.toml:53")
    assert caught.value.sentence() == (
        'gpt.toml:53: environment.device = "GPU-9aa0" is not on this machine, '
        'which has GPU-1f0c and GPU-77d2; name one or "auto"'
    )
    assert caught.value.code == 4


def test_an_ambiguous_beginning_is_refused(machine):
    machine({"uuid": "GPU-1f0c"}, {"uuid": "GPU-1faa"})
    with pytest.raises(RunError, match='"GPU-1f" begins the uuids of 2 devices; write all of it'):
        resolve("GPU-1f")


def test_a_device_that_the_scheduler_hides_is_not_taken(machine, monkeypatch):
    machine(*TWO)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1f0c")
    with pytest.raises(RunError, match='"GPU-77d2" is not among CUDA_VISIBLE_DEVICES = "GPU-1f0c"'):
        resolve("GPU-77d2")


def test_a_uuid_on_a_machine_without_a_driver_says_what_is_missing():
    with pytest.raises(
        RunError, match='--device = "GPU-1f0c" is not on this machine: no NVIDIA driver is'
    ) as caught:
        resolve("GPU-1f0c", name="--device")
    assert caught.value.hint == 'name "cpu" or "auto"'


def test_a_word_that_is_no_device_is_refused(machine):
    machine(*TWO)
    with pytest.raises(
        RunError, match='"cuda:0" is not a device; write "auto", "cpu", a GPU-uuid or a MIG-uuid'
    ):
        resolve("cuda:0")


def test_a_driver_that_was_updated_underneath_is_said_and_not_taken_for_no_gpu(machine):
    machine(*TWO, nvmlInit=nvml_error("LibRmVersionMismatch", "Driver/library version mismatch"))
    with pytest.raises(
        RunError, match="the NVIDIA driver was updated while the old one is still loaded; reboot"
    ):
        resolve("auto")
    assert resolve("cpu").kind == "cpu"


def test_a_divided_gpu_counts_as_its_parts(machine):
    parts = [{"uuid": "MIG-aa", "memory": (10 * GIB, 0, 0)}, {"uuid": "MIG-bb", "memory": (20 * GIB, 0, 0)}]
    machine({"uuid": "GPU-1f0c", "parts": parts}, {"uuid": "GPU-77d2"})
    assert [card.id for card in nvml.inventory().cards] == ["MIG-aa", "MIG-bb", "GPU-77d2"]
    assert resolve("MIG-bb").total_bytes == 20 * GIB
    assert resolve("auto").id == "MIG-aa"


def test_used_is_what_others_hold_without_what_the_driver_keeps(machine):
    machine({"uuid": "GPU-1f0c", "memory": (80 * GIB, 31 * GIB, GIB)})
    device = resolve("auto")
    assert (device.others_used_bytes, device.driver_reserved_bytes, device.free_bytes) == (
        31 * GIB,
        GIB,
        48 * GIB,
    )
    assert device.unknown == {}


def test_an_older_driver_cannot_tell_who_uses_the_memory(machine):
    machine({"uuid": "GPU-1f0c", "memory": (80 * GIB, 31 * GIB, GIB), "old": True})
    device = resolve("auto")
    assert (device.total_bytes, device.others_used_bytes, device.free_bytes) == (80 * GIB, None, 48 * GIB)
    assert device.unknown["others_used_bytes"].startswith(
        "this driver counts what it keeps for itself as used"
    )


def test_one_failing_call_leaves_the_others(machine):
    machine(
        *TWO,
        nvmlDeviceGetMemoryInfo=nvml_error("NotSupported", "Not Supported"),
        nvmlDeviceGetName=nvml_error("Unknown", "Unknown Error"),
        nvmlSystemGetDriverVersion=nvml_error("Unknown", "Unknown Error"),
    )
    device = resolve("GPU-77d2")
    assert (device.name, device.total_bytes, device.driver) == ("n/a", None, None)
    assert device.unknown["total_bytes"] == "NVML: Not Supported"
    assert device.unknown["name"] == "NVML: Unknown Error"


def test_a_name_that_is_not_utf8_is_shown_all_the_same(machine):
    machine({"uuid": "GPU-1f0c", "name": b"H100\xff"})
    assert resolve("auto").name == "H100�"


def test_a_budget_that_others_leave_no_room_for_is_refused_with_all_sizes():
    device = Device("cuda", "GPU-1f0c", "H100", 80 * GIB, others_used_bytes=31 * GIB, free_bytes=48 * GIB)
    with pytest.raises(RunError) as caught:
        refuse_if_busy(device, 60 * GIB, where="gpt.toml:42")
    assert caught.value.sentence() == (
        "other processes hold 31.000 GiB of GPU-1f0c and leave 48.000 of 80.000 for a budget of 60.000 "
        "(gpt.toml:42); wait, or lower budget.job"
    )
    refuse_if_busy(device, 48 * GIB)
    refuse_if_busy(device, None)


def test_without_a_reading_of_its_own_others_are_counted_with_the_driver():
    device = Device("cuda", "GPU-1f0c", "H100", 80 * GIB, free_bytes=48 * GIB)
    with pytest.raises(RunError, match=r"other processes and the driver hold 32\.000 GiB of GPU-1f0c"):
        refuse_if_busy(device, 60 * GIB)


def test_a_device_whose_memory_cannot_be_read_is_not_refused():
    refuse_if_busy(Device("cuda", "GPU-1f0c", "H100", None), 60 * GIB)


def files(root: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = root / name.replace("__", "/").replace("_dot_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_host_memory_is_what_is_installed_without_a_limit(tmp_path):
    root = files(
        tmp_path, proc__meminfo="MemTotal:       1024 kB\nMemFree: 1 kB\n", proc__self__cgroup="0::/job\n"
    )
    files(tmp_path / "sys/fs/cgroup/job", memory_dot_max="max\n")
    assert host.memory_total_bytes(root) == 2**20


def test_host_memory_is_the_smallest_limit_of_the_groups_above(tmp_path):
    root = files(tmp_path, proc__meminfo="MemTotal: 1024 kB\n", proc__self__cgroup="0::/slurm/job/step\n")
    files(tmp_path / "sys/fs/cgroup/slurm/job/step", memory_dot_max="max\n")
    files(tmp_path / "sys/fs/cgroup/slurm/job", memory_dot_max="4096\n")
    assert host.memory_total_bytes(root) == 4096


def test_host_memory_heeds_the_older_kind_of_limit(tmp_path):
    root = files(
        tmp_path, proc__meminfo="MemTotal: 1024 kB\n", proc__self__cgroup="5:cpu:/x\n4:memory,hugetlb:/job\n"
    )
    (tmp_path / "sys/fs/cgroup/memory/job").mkdir(parents=True)
    (tmp_path / "sys/fs/cgroup/memory/job/memory.limit_in_bytes").write_text("8192\n")
    assert host.memory_total_bytes(root) == 8192


def test_host_memory_is_unknown_where_nothing_can_be_read(tmp_path):
    assert host.memory_total_bytes(tmp_path) is None


def test_the_processor_has_a_name(tmp_path):
    files(tmp_path, proc__cpuinfo="processor : 0\nmodel name\t: AMD EPYC 9654\n")
    assert host.cpu_name(tmp_path) == "AMD EPYC 9654"
    assert host.cpu_name(tmp_path / "nowhere") != ""


def test_the_engine_loads_neither_torch_nor_textual_nor_pynvml():
    code = (
        "import sys, tui.engine.runner, tui.engine.follow; "
        "print(*(m for m in ('textual', 'rich', 'torch', 'pynvml', 'psutil') if m in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
