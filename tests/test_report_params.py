"""What a count prints, folds and writes as JSON."""

from dataclasses import replace

import pytest
from sample_project import CUDA, CUDA_INVENTORY, CUDA_SPEC

from tui.project.measured import Measured
from tui.project.model import PlacementSpec, Spec, WorkloadSpec
from tui.project.modules import ModuleRow, Modules, ParameterRow
from tui.report.documents_params import params_document
from tui.report.envelope import Source
from tui.report.json_values import unexplained
from tui.report.lines import columns
from tui.report.markdown_evidence import parameters
from tui.report.plain import plain_lines
from tui.report.text_params import causes, params_lines
from tui.report.text_tree import tree_lines
from tui.report.tree import branches, is_cut, name_of, shown


def row(path, cls, elements, own=None, calls=1):
    own = elements if own is None else own
    return ModuleRow(path, cls, elements, own, elements, 4 * elements, 1, 0, calls)


def block(place, size=30):
    return [
        row(f"h.{place}", "Block", size, 0),
        row(f"h.{place}.attn", "Attention", size - 10),
        row(f"h.{place}.mlp", "MLP", 10),
    ]


TREE = Modules(
    (
        row("", "GPT", 50 + 3 * 30 + 7, 7),
        row("wte", "Embedding", 50),
        row("drop", "Dropout", 0),
        row("h", "ModuleList", 90, 0, 0),
        *block(0),
        *block(1),
        *block(2),
        row("lm_head", "Linear", 0),
    ),
    (
        ParameterRow("scale", (7,), "float32", 7, 28, True, False),
        ParameterRow("wte.weight", (10, 5), "float32", 50, 200, True, True, ("lm_head.weight",)),
    ),
)


def counted(spec=CUDA_SPEC, **changes):
    return lambda **more: params_lines(
        spec, replace(CUDA, inventory=replace(CUDA_INVENTORY, **changes)), project="gpt.toml", **more
    )


def text(lines):
    return " ".join(" ".join(lines).split())


# --- the tree ------------------------------------------------------------------------------------------------


def test_equal_blocks_that_follow_each_other_are_one_row():
    assert tree_lines(TREE, depth=2, width=60) == [
        "module                            elements      bytes  calls",
        "GPT                                    147      588 B      1",
        "  wte Embedding                         50      200 B      1",
        "  h ModuleList                          90      360 B      0",
        "    h.0 ... h.2 (3 x) Block         3 x 30  3 x 120 B      1",
        "  lm_head Linear = wte                   0          0      1",
        "  (own)                                  7       28 B      -",
        "below a row of equal blocks: of one of them",
        "deeper modules are left out: --depth 3",
    ]


def test_a_block_of_another_size_ends_the_row():
    rows = (*TREE.modules[:4], *block(0), *block(1), *block(2, 31), *block(3), *TREE.modules[-1:])
    folded = [name_of(one) for _, one in shown(branches(Modules(rows, ())), 2)]
    assert folded == ["GPT", "wte", "drop", "h", "h.0 ... h.1 (2 x)", "2", "3", "lm_head", "(own)"]


def test_blocks_that_are_called_differently_are_not_equal():
    rows = tuple(replace(one, calls=5) if one.path == "h.2.mlp" else one for one in TREE.modules)
    assert "h.0 ... h.1 (2 x)" in [name_of(one) for _, one in shown(branches(Modules(rows, ())))]


def test_modules_of_equal_size_with_names_of_their_own_stay_apart():
    rows = (row("", "M", 8, 0), row("q", "Linear", 4), row("k", "Linear", 4))
    assert [name_of(one) for _, one in shown(branches(Modules(rows, ())))] == ["M", "q", "k"]


@pytest.mark.parametrize(
    ("order", "names"),
    [
        ("model", ["wte", "drop", "h", "lm_head", "(own)"]),
        ("elements", ["h", "wte", "(own)", "drop", "lm_head"]),
        ("bytes", ["h", "wte", "(own)", "drop", "lm_head"]),
        ("name", ["(own)", "drop", "h", "lm_head", "wte"]),
    ],
)
def test_a_level_is_sorted_as_asked(order, names):
    assert [name_of(one) for level, one in shown(branches(TREE), 1, order) if level == 1] == names


def test_the_rows_below_a_folded_row_add_up_to_one_of_the_blocks():
    for _, one in shown(branches(TREE)):
        if one.children:
            assert sum(child.elements for child in one.children) == one.row.elements


def test_only_a_depth_that_leaves_something_out_says_so():
    assert is_cut(branches(TREE), 2)
    assert not is_cut(branches(TREE), 3)
    assert not any("--depth" in line for line in tree_lines(TREE, depth=3))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_tree_of_long_names_fits_the_width(width):
    rows = (row("", "M", 10**11, 0), row("x" * 300, "日本" * 30, 10**11))
    assert all(columns(line) <= width for line in tree_lines(Modules(rows, ()), width=width))


def test_a_tree_as_deep_as_python_calls_is_no_obstacle():
    paths = [".".join(["m"] * depth) for depth in range(2000)]
    rows = tuple(row(path, "M", 1, int(depth == 1999)) for depth, path in enumerate(paths))
    assert sum(1 for _ in shown(branches(Modules(rows, ())))) == 2000


# --- text ----------------------------------------------------------------------------------------------------


def test_what_explains_a_difference_is_told_with_its_counts():
    lines = counted(
        unique_parameters=163_037_184,
        groups={},
        difference="explained 400 of 500: +400: head.weight is a tensor of its own: set tied = false or tie it",
    )()
    assert lines[4:7] == [
        "difference            +38,597,376",
        "  explained         400 of 500",
        "  +400              head.weight is a tensor of its own: set tied = false or tie",
    ]
    assert lines[-1] == "DISAGREE. Set tied = false, or change the model."


def test_packed_weights_have_rows_of_their_own():
    said = text(
        counted(
            state="packed",
            stored_elements=70_000_000,
            packed_parameters=100_000_000,
            packed_payload_bytes=50_000_000,
            packed_metadata_bytes=6_250_000,
        )()
    )
    assert "as stored 70,000,000 elements (packed)" in said
    assert (
        "100,000,000 elements low-bit: payload 50,000,000 B, scales, zero points and code books 6,250,000 B"
        in said
    )


def test_the_fullest_rank_and_its_padding_are_named_with_the_way_of_dividing():
    spec = replace(CUDA_SPEC, placement=PlacementSpec(ranks=4, strategy="fsdp2"))
    said = text(counted(spec, ranks=4, rank_parameters=31_109_968, rank_bytes=124_439_872, rank_padding=64)())
    assert "31,109,968 on the fullest of 4 ranks (fsdp2, rows of each parameter), 124,439,872 B" in said
    assert "padding 64 elements over all ranks" in said


def test_what_is_unknown_has_its_reason():
    unknown = {
        "rank_parameters": "fsdp2 takes no scalar",
        "active_parameters": "h.moe looks like experts",
        "gradient_receiving": "the workload has a step(run) of its own",
        "meta": "cannot be built on the meta device: TypeError",
    }
    said = text(counted(ranks=2, gradient_receiving=None, unknown=unknown)())
    assert "a rank n/a: fsdp2 takes no scalar" in said
    assert "active a token n/a: h.moe looks like experts" in said
    assert "gradients n/a: the workload has a step(run) of its own" in said
    assert "device: cannot be built on the meta device: TypeError" in said


def test_trainable_parameters_without_a_gradient_are_named_from_the_tree():
    said = text(counted(gradient_receiving=124_439_801)(tree=TREE))
    assert "7 received no gradient in a real backward: scale" in said


def test_a_shared_tensor_is_told_with_its_elements_where_the_tree_has_it():
    lines = counted(shared=("lm_head.weight = wte.weight",))
    assert "shared, counted once: lm_head.weight = wte.weight (50 elements)" in lines(tree=TREE)
    assert "shared, counted once: lm_head.weight = wte.weight" in lines()


def test_weights_that_are_asked_to_be_packed_and_are_not_say_so():
    why = "config.json asks for gptq weights"
    lines = counted(packed_parameters=None, unknown={"packed_parameters": why})()
    assert f"packed: {why}" in lines


def test_one_tensor_is_not_called_several():
    assert "1 tensor, " in text(counted(tensors=1)())


def test_experts_show_what_works_on_one_token():
    assert "active a token 30,000,000 without the experts" in text(counted(active_parameters=30_000_000)())


def test_storages_that_are_shared_by_views_are_told():
    said = text(counted(storage_bytes=CUDA_INVENTORY.parameter_bytes - 64)())
    assert "64 B less than the tensors: some are views of one storage" in said


@pytest.mark.parametrize("width", [60, 80])
def test_every_row_fits_the_width(width):
    lines = counted(
        ranks=2048,
        rank_parameters=10**12,
        rank_bytes=10**13,
        rank_padding=10**9,
        stored_elements=10**12,
        storage_bytes=10**13,
        packed_parameters=10**12,
        packed_payload_bytes=10**12,
        packed_metadata_bytes=10**11,
        active_parameters=10**11,
        difference="+5: " + "long-name" * 30 + "; -4: another",
        unique_parameters=10**12,
    )(width=width)
    assert all(columns(line) <= width for line in lines)


def test_causes_come_apart_as_they_were_put_together():
    assert causes("") == []
    assert causes("+1: a; -2,000: b") == [("+1", "a"), ("-2,000", "b")]
    assert causes("explained 0 of 9: no argument comes to it") == [
        ("explained", "0 of 9"),
        ("", "no argument comes to it"),
    ]


# --- documents -----------------------------------------------------------------------------------------------

GPU = Source(CUDA_SPEC, CUDA, "gpt.toml", CUDA_INVENTORY.spec)


def test_the_document_has_every_module_and_parameter():
    document = params_document(GPU, tree=TREE)
    assert unexplained(document) == []
    assert [one["name"] for one in document["modules"]] == [one.path or "(model)" for one in TREE.modules]
    assert document["parameters"][1]["also"] == ["lm_head.weight"]
    assert document["inventory"]["without_gradient"] == ["scale"]
    assert "modules.h.0.attn.elements_count 20" in plain_lines(document)


def test_the_document_has_the_elements_of_shared_tensors_once():
    shared = replace(CUDA_INVENTORY, shared=("lm_head.weight = wte.weight",))
    source = Source(CUDA_SPEC, replace(CUDA, inventory=shared), "gpt.toml", "sha256:0")
    found = params_document(source, tree=TREE)["inventory"]
    assert (found["shared_elements_count"], found["without_gradient"]) == (50, ["scale"])
    none = params_document(source)
    assert none["inventory"]["shared_elements_count"] is None
    assert unexplained(none) == []


def test_the_document_does_not_say_that_every_gradient_came_where_no_backward_was_run():
    unseen = replace(TREE, parameters=tuple(replace(one, received=None) for one in TREE.parameters))
    why = "the model is too large"
    left = replace(CUDA_INVENTORY, gradient_receiving=None, unknown={"gradient_receiving": why})
    found = params_document(Source(CUDA_SPEC, replace(CUDA, inventory=left), "gpt.toml", "s"), tree=unseen)
    assert found["inventory"]["without_gradient"] is None
    assert found["unknown"]["inventory.without_gradient"] == why


def test_the_document_says_why_it_has_no_tree():
    document = params_document(GPU, no_tree="it is gone")
    assert (document["modules"], document["unknown"]["modules"]) == (None, "it is gone")
    assert "modules" not in params_document(GPU)


def test_a_tree_that_is_not_listed_still_tells_its_figures():
    document = params_document(GPU, tree=TREE, listed=False)
    assert "modules" not in document
    assert document["inventory"]["without_gradient"] == ["scale"]


def test_the_document_says_why_it_has_no_formula():
    unchecked = replace(CUDA, inventory=replace(CUDA_INVENTORY, formula_parameters=None))
    found = params_document(Source(Spec(workload=WorkloadSpec(source="a.py")), unchecked, "a.toml", "s"))
    assert found["unknown"]["formula.family"] == "this source has none; set workload.formula"
    assert found["unknown"]["difference_count"] == found["unknown"]["formula.family"]


def test_figures_that_an_older_version_did_not_record_are_null_with_that_reason():
    document = params_document(GPU)
    assert document["inventory"]["rank_bytes"] is None
    assert document["unknown"]["inventory.rank_bytes"] == "not recorded by the version that counted"
    assert unexplained(document) == []


def test_the_formula_tells_embedding_and_active_parameters():
    mixed = Spec(workload=WorkloadSpec(source="decoder", args={"experts": 4, "top_k": 1, "gated": True}))
    formula = params_document(Source(mixed, Measured(), "a.toml", "x"))["formula"]
    assert formula["embedding_count"] + formula["non_embedding_count"] == formula["parameters_count"]
    # 3 of 4 experts of 3 x 128 x 512 and their biases do not work on a token, in 4 layers
    idle = 4 * 3 * (3 * 128 * 512 + 2 * 512 + 128)
    assert formula["active_parameters_count"] == formula["parameters_count"] - idle


def test_the_report_has_the_figures_that_are_not_the_unique_parameters():
    spec = replace(CUDA_SPEC, placement=PlacementSpec(ranks=4, strategy="fsdp2"))
    inventory = replace(
        CUDA_INVENTORY,
        ranks=4,
        rank_parameters=31,
        rank_bytes=124,
        active_parameters=17,
        difference="+1: a_b",
    )
    said = "\n".join(parameters(Source(spec, replace(CUDA, inventory=inventory), "gpt.toml", "x")))
    assert "The fullest of 4 ranks (fsdp2) holds 31, 124 B." in said
    assert "17 of them work on one token." in said
    assert "* +1 a" in said
