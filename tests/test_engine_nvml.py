"""Devices and looks at them through the real bindings, from a driver library that is played."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from children.helpers import PLAYER, plan
from nvml_library import GIB, gpu, play, stub_folder  # noqa: F401 - fixtures

from tui.engine import child, host, nvml, nvml_live
from tui.engine.device import INTEGRATED, refuse_if_busy, resolve
from tui.engine.nvml_live import Look, Watched
from tui.engine.steps.clocks import clocks_of, others_moved, own_process
from tui.errors import RunError

ROOT = Path(__file__).parents[1]
MIB = 2**20
NOT_SUPPORTED, NO_PERMISSION, NO_FUNCTION, LOST, MISMATCH = "3", "4", "13", "15", "18"
NAMES = ("sm_mhz", "memory_mhz", "temperature_c", "power_w", "reasons", "used_bytes", "processes")


def look_at(uuid: str, count: int = 1) -> Watched:
    """``count`` looks, without waiting between them."""
    seen = Watched()
    library = nvml.bindings()
    library.nvmlInit()
    handle = library.nvmlDeviceGetHandleByUUID(uuid.encode())
    for _ in range(count):
        seen.looks.append(nvml_live.look(library, handle, handle, seen.unknown))
    return seen


def test_the_bindings_find_the_library_by_its_name_alone(stub_folder):  # noqa: F811
    code = "from tui.engine.device import resolve; found = resolve('auto'); print(found.id, found.free_bytes)"
    env = {**os.environ, "LD_LIBRARY_PATH": str(stub_folder), "STUB_GPU_0": gpu("GPU-1f0c", used=5 * GIB)}
    env.pop("CUDA_VISIBLE_DEVICES", None)
    ran = subprocess.run([sys.executable, "-c", code], env=env, cwd=ROOT, capture_output=True, text=True)
    assert (ran.stdout.split(), ran.stderr) == (["GPU-1f0c", str(74 * GIB)], "")


def test_a_retired_package_that_warns_at_its_import_is_not_heard(tmp_path):
    """Case N07: a package of the same import name that was given up is still installed."""
    (tmp_path / "pynvml.py").write_text(
        "import warnings\nwarnings.warn('pynvml is deprecated', FutureWarning)\n"
    )
    code = "from tui.engine import nvml; nvml.inventory(); nvml.bindings()"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-W", "always", "-c", code], env=env, cwd=ROOT, capture_output=True, text=True
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_without_a_loaded_driver_the_cpu_is_taken_and_says_why(play):  # noqa: F811
    play(STUB_FAIL="init=9")
    assert resolve("auto").unknown["cuda"] == "the NVIDIA driver is installed but not loaded"


def test_a_driver_that_was_updated_underneath_is_not_taken_for_no_gpu(play):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c"), STUB_FAIL=f"init={MISMATCH}")
    with pytest.raises(RunError, match="updated while the old one is still loaded; reboot"):
        resolve("auto")


def test_two_gpus_in_another_order_than_cudas_are_told_apart_by_uuid(play, monkeypatch):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-slow", 24 * GIB, 3 * GIB), STUB_GPU_1=gpu("GPU-fast", 80 * GIB, 7 * GIB))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-fast,GPU-slow")
    first = resolve("auto")
    assert (first.id, first.index, first.total_bytes, first.others_used_bytes) == (
        "GPU-fast",
        1,
        80 * GIB,
        7 * GIB,
    )
    assert resolve("GPU-slow").others_used_bytes == 3 * GIB
    assert first.variables() == {"CUDA_VISIBLE_DEVICES": "GPU-fast"}
    assert look_at("GPU-fast").looks[0].used_bytes == 7 * GIB


def test_a_slice_has_its_own_memory_and_no_clocks_of_its_own(play):  # noqa: F811
    """Case N01 of the reported faults: what a slice does not tell is never drawn as 0."""
    total, used = 19968 * MIB, 7012 * MIB
    slice_only = "clock=3,power=3,temperature=3,reasons=3"
    play(STUB_GPU_0=gpu("GPU-1f0c"), STUB_MIG_0=gpu("MIG-aa", total, used, 0), STUB_FAIL=slice_only)
    found = resolve("auto")
    assert (found.id, found.total_bytes, found.others_used_bytes) == ("MIG-aa", total, used)
    seen = look_at("MIG-aa")
    assert seen.looks[0].used_bytes == used
    assert (seen.looks[0].sm_mhz, seen.unknown["sm_mhz"]) == (None, "NVML: Not Supported")
    shown = clocks_of(seen, 0, 2**62)
    assert (shown.clocks, shown.throttled) == (None, None)
    assert shown.unknown == {"clocks": "NVML: Not Supported", "throttled": "NVML: Not Supported"}


async def test_the_clocks_of_a_slice_are_asked_of_its_gpu(play):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c"), STUB_MIG_0=gpu("MIG-aa", 20 * GIB), STUB_SM="1755")
    async with nvml_live.watched("MIG-aa", 60) as seen:
        await _first_look(seen)
    assert (seen.looks[0].sm_mhz, seen.looks[0].temperature_c, seen.looks[0].power_w) == (1755, 71, 690.5)


async def _first_look(seen: Watched) -> None:
    while not seen.looks and not seen.unknown:
        await asyncio.sleep(0)


def test_a_container_with_one_slice_finds_it_by_its_name_although_its_gpu_refuses(
    play,  # noqa: F811
    monkeypatch,
):
    """Case N10: the refusals of the GPU are expected and quiet."""
    parent = "memory=4,mig_mode=4,mig_count=4,mig_handle=4,name=4"
    part = gpu("MIG-x", 9856 * MIB, 12 * MIB, 0)
    play(STUB_GPU_0=gpu("GPU-1f0c"), STUB_MIG_0=part, STUB_FAIL_GPU=parent)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "MIG-x")
    found = resolve("auto")
    assert (found.id, found.total_bytes, found.others_used_bytes) == ("MIG-x", 9856 * MIB, 12 * MIB)
    assert found.unknown == {}


def test_a_gpu_that_this_user_may_not_read_is_unknown_and_not_empty(play):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c"), STUB_FAIL=f"memory={NO_PERMISSION}")
    found = resolve("auto")
    assert (found.total_bytes, found.free_bytes) == (None, None)
    assert found.unknown["total_bytes"] == "NVML: Insufficient Permissions"


def test_a_virtual_gpu_without_process_info_says_so(play):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c", used=GIB), STUB_FAIL=f"processes={NOT_SUPPORTED}")
    seen = look_at("GPU-1f0c")
    assert seen.looks[0].processes is None
    own = own_process(seen, 1, 640 * MIB)
    assert (own.bytes, own.unknown) == (None, "NVML: Not Supported")
    assert seen.looks[0].used_bytes == GIB


def test_fields_that_are_not_there_are_each_unknown_and_leave_the_others(play):  # noqa: F811
    fails = "name=3,driver=999,clock=3,power=3,temperature=3,reasons=3,processes=3"
    play(STUB_GPU_0=gpu("GPU-1f0c", used=GIB), STUB_FAIL=fails)
    found = resolve("auto")
    assert (found.name, found.driver, found.others_used_bytes) == ("n/a", None, GIB)
    seen = look_at("GPU-1f0c")
    assert {name for name in NAMES if getattr(seen.looks[0], name) is None} == {*NAMES} - {"used_bytes"}
    assert set(seen.unknown) == {*NAMES} - {"used_bytes"}


def test_a_driver_with_the_older_memory_call_alone_cannot_tell_who_uses_it(play):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c", used=31 * GIB), STUB_FAIL=f"memory_v2={NO_FUNCTION}")
    found = resolve("auto")
    assert (found.total_bytes, found.free_bytes) == (80 * GIB, 48 * GIB)
    assert (found.others_used_bytes, found.driver_reserved_bytes) == (None, None)
    assert "counts what it keeps for itself as used" in found.unknown["others_used_bytes"]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (
            gpu("GPU-1f0c", 8 * GIB, 9 * GIB, 0, 0),
            "says 9,663,676,416 B used of 8,589,934,592, which cannot be",
        ),
        (gpu("GPU-1f0c", 8 * GIB, 0, 0, 9 * GIB), "says 9,663,676,416 B free of 8,589,934,592"),
        (gpu("GPU-1f0c", 0, 0, 0), "the driver says that the device has 0 B"),
    ],
)
def test_sizes_that_cannot_be_are_left_out_with_the_reason(play, row, sentence):  # noqa: F811
    play(STUB_GPU_0=row)
    found = resolve("auto")
    assert (found.total_bytes, found.free_bytes, found.others_used_bytes) == (None, None, None)
    assert sentence in found.unknown["total_bytes"]


def test_all_ones_are_no_value(play):  # noqa: F811
    ones = 2**64 - 1
    play(STUB_GPU_0=f"GPU-1f0c/H100/{80 * GIB}/{ones}/{48 * GIB}/{GIB}", STUB_SM=str(2**32 - 1))
    found = resolve("auto")
    assert (found.others_used_bytes, found.free_bytes) == (None, 48 * GIB)
    assert found.unknown["others_used_bytes"] == "the driver answers all ones, its sign for no value"
    seen = look_at("GPU-1f0c")
    assert (seen.looks[0].sm_mhz, seen.looks[0].memory_mhz) == (None, 2619)


def test_a_device_that_is_lost_midway_keeps_what_was_seen_before(play):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c"), STUB_LOST_AFTER="10", STUB_SM="1980")
    seen = look_at("GPU-1f0c", 3)
    assert (seen.looks[0].sm_mhz, seen.looks[2].sm_mhz) == (1980, None)
    assert seen.unknown["sm_mhz"] == "NVML: GPU is lost"
    assert clocks_of(seen, 0, 2**62).clocks == "SM 1,980 MHz, memory 2,619 MHz, 71 °C, 690 W"


def test_a_lost_device_is_not_resolved_and_named_with_what_is_there(play):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c"), STUB_LOST_AFTER="0")
    assert nvml.inventory().cards[0].unknown["id"] == "NVML: GPU is lost"
    with pytest.raises(RunError, match='"GPU-1f0c" is not on this machine'):
        resolve("GPU-1f0c")


async def test_a_device_that_is_gone_before_the_first_look_says_so(play):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c"))
    async with nvml_live.watched("GPU-77d2", 60) as seen:
        await _first_look(seen)
    assert seen.looks == []
    assert seen.unknown["looks"].startswith("GPU-77d2 is not found: NVML: ")
    assert own_process(seen, 1, None).unknown == seen.unknown["looks"]


async def test_nothing_is_looked_at_without_a_gpu():
    async with nvml_live.watched(None) as seen:
        pass
    assert (seen.looks, seen.unknown) == ([], {"looks": "no GPU was measured"})


async def test_looks_go_on_while_something_runs_and_end_with_it(play):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c"), STUB_SM="1980,1900,1755", STUB_REASONS="0x4")
    async with nvml_live.watched("GPU-1f0c", 0.001) as seen:
        while len(seen.looks) < 3:
            await asyncio.sleep(0)
    count = len(seen.looks)
    assert [one.sm_mhz for one in seen.looks[:3]] == [1980, 1900, 1755]
    await asyncio.sleep(0)
    assert len(seen.looks) == count


async def test_a_timed_child_on_a_gpu_is_looked_at_while_it_runs_and_others_are_not(play, tmp_path):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c"), STUB_SM="1980")
    made = replace(plan(tmp_path, "finishes"), device="cuda:GPU-1f0c")
    outcome = await child.measure(made, sys.executable, (), lambda event: None, boot=PLAYER)
    assert (outcome.word, outcome.watched.looks[0].sm_mhz) == ("done", 1980)
    assert outcome.pid not in (None, os.getpid())
    for other in (replace(made, id="p-2", task="traced"), replace(made, id="p-3", device="cpu")):
        other = replace(other, journal=str(tmp_path / f"{other.id}.jsonl"))
        outcome = await child.measure(other, sys.executable, (), lambda event: None, boot=PLAYER)
        assert (outcome.watched.looks, outcome.watched.unknown["looks"]) == ([], "no GPU was measured")


def test_a_board_whose_library_answers_nothing_is_a_gpu_with_the_hosts_memory(
    play,  # noqa: F811
    monkeypatch,
    tmp_path,
):
    """Case N04: it starts, the host's available memory is shown, device readings are n/a."""
    play(STUB_FAIL=f"init={NOT_SUPPORTED}")
    assert (resolve("auto").kind, resolve("auto").unknown["cuda"]) == (
        "cpu",
        "the NVIDIA management library answers nothing on this board",
    )
    (tmp_path / "proc/device-tree").mkdir(parents=True)
    (tmp_path / "proc/device-tree/compatible").write_text("nvidia,p3737\0nvidia,tegra234\0")
    (tmp_path / "proc/meminfo").write_text("MemTotal: 31457280 kB\nMemAvailable: 21504000 kB\n")
    for name in ("memory_total_bytes", "memory_available_bytes", "has_integrated_gpu"):
        monkeypatch.setattr(host, name, partial(getattr(host, name), tmp_path))
    found = resolve("auto")
    assert (found.kind, found.id, found.variables()) == ("cuda", INTEGRATED, {})
    assert (found.total_bytes, found.free_bytes) == (30 * GIB, 21000 * MIB)
    assert found.others_used_bytes is None
    assert found.unknown["others_used_bytes"].startswith("the GPU shares the host's memory")
    assert resolve(INTEGRATED) == found


def test_a_run_does_not_start_where_others_leave_less_than_the_budget(play):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c", used=31 * GIB))
    with pytest.raises(RunError, match=r"other processes hold 31\.000 GiB of GPU-1f0c and leave 48\.000"):
        refuse_if_busy(resolve("auto"), 60 * GIB)
    play(STUB_GPU_0=gpu("GPU-1f0c", used=5 * GIB))
    refuse_if_busy(resolve("auto"), 60 * GIB)


def listed(play, processes: str, pid: int | None, held: int | None = 640 * MIB):  # noqa: F811
    play(STUB_GPU_0=gpu("GPU-1f0c"), STUB_PROCESSES=processes)
    return own_process(look_at("GPU-1f0c"), pid, held)


def test_the_drivers_row_of_the_childs_pid_is_a_reading_of_its_own(play):  # noqa: F811
    own = os.getpid()
    found = listed(play, f"{os.getppid()}:{9 * GIB},{own}:{GIB}", own)
    assert (found.bytes, found.source) == (GIB, "NVML, row of the pid")


def test_pids_of_another_namespace_say_nothing_about_this_process(play):  # noqa: F811
    """Case N02: the driver lists a pid of the host, the container counts its own as 37."""
    nobody = 4_194_304 + 7  # above the largest pid that Linux gives
    found = listed(play, f"{nobody}:{1012 * MIB}", 37)
    assert (found.bytes, found.unknown.split(":")[0]) == (None, "pid namespace")
    # Nor is a pid believed that happens to be the same in both.
    found = listed(play, f"{nobody}:{GIB},{os.getpid()}:{GIB}", os.getpid())
    assert (found.bytes, found.unknown.split(":")[0]) == (None, "pid namespace")


def test_a_row_of_nothing_for_a_process_that_holds_tensors_is_unknown(play):  # noqa: F811
    """Case N09: a zero where 640 MiB are reserved is no reading."""
    found = listed(play, f"{os.getpid()}:0", os.getpid())
    assert found.bytes is None
    assert found.unknown == "the driver's row says 0 B, less than the 671,088,640 B that its allocator held"


def test_a_row_without_a_size_or_of_others_alone_is_unknown(play):  # noqa: F811
    assert (
        listed(play, f"{os.getpid()}", os.getpid()).unknown == "the driver lists the process without a size"
    )
    assert listed(play, f"{os.getppid()}:{GIB}", os.getpid()).unknown.startswith("the driver lists other")
    assert listed(play, "", os.getpid()).unknown == "the driver lists no process on this device"


def test_others_that_come_while_it_runs_are_seen_between_before_and_after():
    def seen(*sizes: int) -> Watched:
        return Watched([Look(at, processes={7: 5 * GIB, 8: size}) for at, size in enumerate(sizes)])

    def matters(low: int, high: int) -> bool:
        return high - low > GIB

    assert others_moved(seen(GIB, 4 * GIB, GIB), 7, matters)
    assert not others_moved(seen(GIB, GIB, GIB), 7, matters)
    assert not others_moved(seen(GIB, 4 * GIB), None, matters)


def at(*clocks: int, reasons: int | None = 0) -> Watched:
    return Watched([Look(1000 + place, sm_mhz=mhz, reasons=reasons) for place, mhz in enumerate(clocks)])


def test_clocks_that_fall_with_heat_are_told_from_first_to_last():
    """Case T07: 1,425 to 1,237 MHz is 13 % less."""
    found = clocks_of(at(1425, 1450, 1373, 1237, reasons=0x20), 0, 2000)
    assert (found.clocks, found.clock_ratio) == ("SM 1,425 to 1,237 MHz", round(1237 / 1425 - 1, 6))
    assert (found.throttled, found.throttle) == (True, "heat (driver) in 4 of 4 looks")


def test_only_looks_at_timed_iterations_count():
    seen = at(210, 210, 1980, 1980, 1980, 1980, 345)
    assert clocks_of(seen, 1002, 1005).clocks == "SM 1,980 MHz"
    assert clocks_of(seen, 3000, 4000).unknown["clocks"].endswith("between two looks at the clocks")
    assert clocks_of(seen, None, None).unknown["throttled"] == "no iteration was timed to its end"


@pytest.mark.parametrize(
    ("reasons", "throttled"), [(0x0, False), (0x1, False), (0x2, False), (0x44, True), (0x80, True)]
)
def test_an_idle_gpu_and_clocks_set_by_hand_are_not_throttling(reasons, throttled):
    assert clocks_of(at(1980, 1980, reasons=reasons), 0, 2000).throttled is throttled


def test_one_look_in_many_is_not_called_throttling():
    seen = at(*[1980] * 30)
    seen.looks[3] = replace(seen.looks[3], reasons=0x4)
    assert clocks_of(seen, 0, 2000).throttled is False
