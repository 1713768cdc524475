"""Parts of somebody's own model under the names of the formula that it is checked against."""

from __future__ import annotations

from tui.budget.alike import named
from tui.project.modules import ModuleRow, Modules, ParameterRow


def _tree(sizes: dict[str, int], also: dict[str, tuple[str, ...]] | None = None) -> Modules:
    """A tree of parameters by name; modules and their sums follow from the names."""
    paths = dict.fromkeys(["", *_above(sizes)])
    inside = {path: [n for n in sizes if not path or n.startswith(path + ".")] for path in paths}
    rows = tuple(
        ModuleRow(path, "M", sum(sizes[n] for n in held), 0, 0, 0, len(held), 0, None)
        for path, held in inside.items()
    )
    return Modules(
        rows,
        tuple(
            ParameterRow(name, (size,), "float32", size, 4 * size, True, None, (also or {}).get(name, ()))
            for name, size in sizes.items()
        ),
    )


def _above(sizes: dict[str, int]) -> list[str]:
    found: list[str] = []
    for name in sizes:
        parts = name.split(".")[:-1]
        found += [".".join(parts[: end + 1]) for end in range(len(parts))]
    return found


GPT = {
    "transformer.wte.weight": 60,
    "transformer.wpe.weight": 20,
    "transformer.h.0.ln.weight": 4,
    "transformer.h.0.mlp.weight": 40,
    "transformer.h.1.ln.weight": 4,
    "transformer.h.1.mlp.weight": 40,
    "transformer.ln_f.weight": 4,
}
PARTS = {"token embedding": 60, "position embedding": 20, "2 blocks": 88, "final norm": 4, "output head": 0}


def test_parts_inside_a_wrapper_are_found_by_their_sizes() -> None:
    tree = _tree(GPT, {"transformer.wte.weight": ("lm_head.weight",)})
    assert named(PARTS, tree, {"transformer": 172, "lm_head": 0}) == PARTS


def test_what_the_formula_does_not_have_stands_by_its_module() -> None:
    tree = _tree({**GPT, "lm_head.weight": 60, "value.fc.weight": 7, "value.fc.bias": 1})
    found = named(PARTS, tree, {"transformer": 172, "lm_head": 60, "value": 8})
    assert found == {
        "token embedding": 60,
        "position embedding": 20,
        "2 blocks": 88,
        "final norm": 4,
        "lm_head": 60,
        "value": 8,
    }
    assert sum(found.values()) == 240


def test_a_part_of_another_size_is_not_found_and_its_module_stands_by_itself() -> None:
    tree = _tree({**GPT, "transformer.wpe.weight": 24})
    found = named(PARTS, tree, {"transformer": 176})
    assert found["transformer.wpe"] == 24
    assert "position embedding" not in found
    assert sum(found.values()) == 176


def test_a_part_may_be_a_parameter_of_its_own() -> None:
    tree = _tree({"vit.cls": 8, "vit.patch.weight": 96, "vit.patch.bias": 8, "head.weight": 80})
    parts = {"patch embedding": 104, "class token": 8, "output head": 80}
    assert named(parts, tree, {"vit": 112, "head": 80}) == parts


def test_equal_sizes_are_given_out_in_order_and_once() -> None:
    tree = _tree({"a.wte.weight": 60, "lm_head.weight": 60})
    parts = {"token embedding": 60, "output head": 60}
    assert named(parts, tree, {"a": 60, "lm_head": 60}) == parts


def test_names_that_are_the_formulas_already_stay() -> None:
    groups = {"8 layers": 10}
    assert named({"8 layers": 12}, _tree({"x.weight": 10}), groups) == groups


def test_without_any_match_the_inventorys_own_names_stay() -> None:
    groups = {"body": 10}
    assert named({"3 layers": 12}, _tree({"body.weight": 10}), groups) == groups
