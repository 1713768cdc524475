"""Published parameter counts, by formula and by the framework's own objects on the meta device, each exactly."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.public_models import MODELS, Public
from tui.budget import configurations, params
from tui.probe import families, huggingface, inventory


def _family(model: Public) -> tuple[str, dict[str, Any]]:
    if model.configuration is None:
        return model.family, model.args or {}
    found = configurations.arguments_of(model.configuration)
    assert found is not None
    return found


@pytest.mark.parametrize("model", MODELS, ids=lambda one: one.name)
def test_the_formula_gives_the_published_count(model: Public) -> None:
    made = params.formula(*_family(model))
    assert made.total == model.total
    assert sum(made.parts.values()) == model.total
    assert (made.active or made.total) == (model.active or model.total)


@pytest.mark.parametrize("model", MODELS, ids=lambda one: one.name)
def test_the_built_in_family_has_the_published_count(model: Public) -> None:
    name, args = _family(model)
    module, cfg = families.load(name, args)
    with torch.device("meta"):
        built = module.build(cfg)
    found = inventory.take(built, module.GROUPS)
    assert found["unique_parameters"] == model.total
    made = params.formula(name, args)
    assert {part: size for part, size in found["groups"].items() if size} == {
        part: size for part, size in made.parts.items() if size
    }


@pytest.mark.parametrize(
    "model", [one for one in MODELS if one.configuration is not None], ids=lambda one: one.name
)
def test_transformers_own_model_has_the_published_count(model: Public, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    path = tmp_path / "config.json"
    path.write_text(json.dumps(model.configuration))
    source = huggingface.load(str(path), {})
    with torch.device("meta"):
        built = source.build()
    assert inventory.take(built)["unique_parameters"] == model.total


def test_the_table_is_of_many_kinds() -> None:
    assert len({one.name for one in MODELS}) == len(MODELS) >= 25
    assert all(one.source for one in MODELS)
