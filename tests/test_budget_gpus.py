"""The table of GPUs: every figure has its source, and a name is found however it is written."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tui.budget import gpus
from tui.errors import UsageError

SETUP = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["tool"]["setuptools"]


@pytest.mark.parametrize("one", gpus.table(), ids=lambda one: one.name)
def test_every_figure_has_a_source_and_every_gap_a_reason(one):
    figures = {"total": one.total_bytes, "sm_count": one.sm_count, "context": one.context_bytes}
    for name, value in figures.items():
        assert bool(one.sources.get(name)) == (value is not None), name
        assert bool(one.unknown.get(name)) == (value is None), name
    assert one.threads_per_sm in (1024, 1536, 2048)
    assert one.context_bytes is None or 0 < one.context_bytes[0] < one.context_bytes[1]


def test_no_two_gpus_share_a_name():
    names = [called for one in gpus.table() for called in {one.name, *one.aliases}]
    found = [gpus.find(name).name for name in names]
    assert found == [one.name for one in gpus.table() for _ in {one.name, *one.aliases}]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("nvidia h100 80gb hbm3", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA-A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("rtx4090", "NVIDIA GeForce RTX 4090"),
        ("T4", "Tesla T4"),
        ("h200", "NVIDIA H200"),
        ("A10", "NVIDIA A10"),
        ("6000 ada", "NVIDIA RTX 6000 Ada Generation"),
    ],
)
def test_case_spaces_and_the_maker_do_not_matter(written, meant):
    assert gpus.parse(written).name == meant


def test_h100_is_as_nvml_and_cuda_show_it():
    found = gpus.find("H100 80GB HBM3")
    assert (found.total_bytes, found.capability, found.sm_count) == (85_520_809_984, (9, 0), 132)
    assert found.threads_per_sm == 2048


def test_a_name_of_several_gpus_is_refused_with_all_of_them():
    with pytest.raises(UsageError, match=r'GPU "a100" could be NVIDIA A100-SXM4-40GB, NVIDIA A100-SXM4-80GB'):
        gpus.parse("a100")


def test_an_unknown_name_is_refused_with_the_nearest():
    with pytest.raises(
        UsageError, match=r'GPU "RTX 4091" is not in the table; nearest: NVIDIA GeForce RTX 4090'
    ):
        gpus.parse("RTX 4091")


def test_bytes_alone_leave_all_but_the_size_unknown():
    found = gpus.parse("80GiB")
    assert (found.total_bytes, found.sm_count, found.bytes_alone) == (80 * 2**30, None, True)
    assert "no GPU of the table was named" in found.unknown["sm_count"]


@pytest.mark.parametrize("text", ["80 Gb", "0 GiB", "1.5 B"])
def test_sizes_that_mean_nothing_are_refused(text):
    with pytest.raises(UsageError, match="--gpu"):
        gpus.parse(text)


@pytest.mark.parametrize("text", ["80", "40", " 79.5 "])
def test_a_number_alone_is_taken_for_memory_without_its_unit(text):
    with pytest.raises(UsageError) as refused:
        gpus.parse(text)
    assert refused.value.message == f"--gpu: {text.strip()} has no unit"
    assert (refused.value.hint or "").startswith(f"write --gpu {text.strip()}GiB for its memory; or a name: ")


def test_a_number_that_is_no_memory_is_a_name():
    assert gpus.parse("4090").name == "NVIDIA GeForce RTX 4090"


def test_a_gpu_of_another_name_is_another():
    assert gpus.same("NVIDIA H100 80GB HBM3", "H100 SXM5")
    assert not gpus.same("NVIDIA H100 80GB HBM3", "NVIDIA H100 PCIe")
    assert not gpus.same("NVIDIA H100 80GB HBM3", "")
    assert gpus.same("NVIDIA Something New", "something new")


def test_the_table_is_installed_with_the_package():
    assert "gpus.toml" in SETUP["package-data"]["tui.budget"]
