"""What `peakmark params` says below a difference between formula and inventory."""

from __future__ import annotations

from dataclasses import replace

from sample_project import CUDA, CUDA_INVENTORY

from tui.project.model import Spec, WorkloadSpec
from tui.report.text_params import params_lines

PARTS = {
    "formula_parameters": CUDA_INVENTORY.unique_parameters + 20,
    "formula_parts": {"2 blocks": 60, "final norm": 4},
    "groups": {"h.0.mlp": 40, "final norm": 4},
}


def told(work: WorkloadSpec, difference: str) -> str:
    inventory = replace(CUDA_INVENTORY, difference=difference, **PARTS)
    lines = params_lines(Spec(work), replace(CUDA, inventory=inventory), project="net.toml")
    return " ".join(" ".join(lines).split())


def test_parts_are_not_compared_where_causes_explain_all_of_the_difference():
    work = WorkloadSpec("net.py", formula="decoder", formula_args={"layers": 2})
    assert "-20 1 block, the formula counts 2" in told(work, "-20: 1 block, the formula counts 2 of 20 each")
    assert "h.0.mlp" not in told(work, "-20: 1 block, the formula counts 2 of 20 each")
    assert "h.0.mlp formula n/a, inventory 40" in told(work, "explained 10 of 20: -10: a head")


def test_a_formula_whose_arguments_were_never_written_asks_for_them():
    said = told(WorkloadSpec("net.py", formula="encoder"), "")
    assert "The encoder formula has all arguments at their defaults" in said
    assert said.endswith("write this model's in workload.formula_args (peakmark calc params --list encoder).")


def test_a_formula_with_arguments_asks_to_correct_them():
    said = told(WorkloadSpec("net.py", formula="encoder", formula_args={"layers": 2}), "")
    assert said.endswith(
        "DISAGREE. Correct workload.formula or its arguments (formula_args, else args), or the model."
    )


def test_the_arguments_that_would_agree_are_what_to_set():
    work = WorkloadSpec("net.py", formula="encoder", formula_args={"layers": 2})
    assert told(work, "-20: exactly what classes = 10 changes").endswith(
        "DISAGREE. Set classes = 10, or change the model."
    )
    said = told(work, "-15: what patch = 4 changes; -5: what classes = 10 changes")
    assert said.endswith("DISAGREE. Set patch = 4 and classes = 10, or change the model.")
