"""The table of docs/public-models.md: published parameter counts beside formula and inventory.

    python tests/bench/public_models.py > docs/public-models.md

Every model is built on the meta device: nothing is downloaded and no memory is used for weights.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

import torch

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.public_models import MODELS, Public  # noqa: E402
from tui.budget import configurations, params  # noqa: E402
from tui.probe import families, huggingface, inventory  # noqa: E402

HEAD = """# Public models, counted

Published: the sum of the tensors in the released weights, tied ones once, as the named source states it. Formula:
`peakmark params`' formula from the model's shape. Inventory: the framework's own unique parameter objects of the
built-in family and of the implementation in `transformers`, built on the meta device. Active: what one token uses.
Made by `python tests/bench/public_models.py`; the tests hold every figure exactly.

| model | published | formula | family's inventory | transformers' inventory | active | source |
| --- | ---: | ---: | ---: | ---: | ---: | --- |"""


def _family(model: Public) -> tuple[params.Formula, int]:
    name, args = model.family, model.args or {}
    if model.configuration is not None:
        found = configurations.arguments_of(model.configuration)
        assert found is not None
        name, args = found
    module, cfg = families.load(name, args)
    with torch.device("meta"):
        built = module.build(cfg)
    return params.formula(name, args), inventory.take(built, module.GROUPS)["unique_parameters"]


def _transformers(model: Public, folder: Path) -> int | None:
    if model.configuration is None:
        return None
    path = folder / "config.json"
    path.write_text(json.dumps(model.configuration))
    source = huggingface.load(str(path), {})
    with torch.device("meta"):
        return inventory.take(source.build())["unique_parameters"]


def main() -> int:
    """Print the table; 1 when a figure differs from what was published."""
    print(HEAD)
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for model in MODELS:
            made, counted = _family(model)
            theirs = _transformers(model, Path(folder))
            active = made.active if made.active not in (None, made.total) else None
            cells = [
                model.name,
                *(f"{one:,}" for one in (model.total, made.total, counted)),
                "not in transformers" if theirs is None else f"{theirs:,}",
                "all" if active is None else f"{active:,}",
                model.source,
            ]
            print(f"| {' | '.join(cells)} |")
            wrong += {made.total, counted, theirs or counted} != {model.total}
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
