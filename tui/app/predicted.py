"""Which of a project's predictions a screen is about.  Pure."""

from __future__ import annotations

from tui.project.measured import Measured, Probe
from tui.project.model import Spec
from tui.project.prediction import Prediction


def prediction_for(spec: Spec, measured: Measured, probe: Probe | None) -> tuple[str, Prediction] | None:
    """The newest prediction of what ``probe`` measured; without one, of what the spec asks for."""
    if not measured.prediction:
        return None
    from tui.budget.prediction import beside, of_spec  # with the table of GPUs: not for the first paint

    return beside(measured, probe) if probe is not None else of_spec(spec, measured)


def target_of(one: Prediction) -> str:
    """The device that was predicted for, for people."""
    return one.target.removeprefix("NVIDIA ") or ("a CUDA device" if one.semantics == "cuda" else "this CPU")
