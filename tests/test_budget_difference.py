"""A difference between formula and inventory is explained in exact numbers, or as far as the tree goes."""

from math import prod

import pytest

from tui.budget.difference import explain
from tui.budget.params import formula
from tui.project.modules import ModuleRow, Modules, ParameterRow

GPT = {"layers": 2, "heads": 2, "width": 8, "vocab": 50, "context": 10}
NORMS = ("ln_1", "ln_2", "ln_f", "norm", "q_norm", "k_norm")


def tree(shapes, also=None):
    """A module tree of parameters by name and shape; the class of a module follows from its name."""
    also = also or {}
    parameters = [
        ParameterRow(name, shape, "float32", prod(shape), 4 * prod(shape), True, None, also.get(name, ()))
        for name, shape in shapes.items()
    ]
    paths = {""}
    for name in [*shapes, *(name for names in also.values() for name in names)]:
        parts = name.split(".")[:-1]
        paths |= {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    rows = []
    for path in sorted(paths):
        inside = [one for one in parameters if not path or one.name.startswith(path + ".")]
        own = [one for one in inside if one.name.rpartition(".")[0] == path]
        size = sum(one.elements for one in inside)
        held = sum(one.elements for one in own)
        rows.append(ModuleRow(path, cls_of(path), size, held, size, 4 * size, len(inside), 0, None))
    return Modules(tuple(rows), tuple(parameters))


def cls_of(path):
    last = path.rpartition(".")[2]
    if last in ("wte", "wpe"):
        return "Embedding"
    if last in NORMS:
        return "LayerNorm"
    return "Block" if last.isdigit() else "Linear"


def gpt(layers=2, width=8, vocab=50, context=10, bias=True):
    """Names and shapes of a GPT-2 with a tied head, as OpenAI's are."""
    shapes = {"wte.weight": (vocab, width), "wpe.weight": (context, width)}
    for place in range(layers):
        for name, shape in {
            "ln_1.weight": (width,),
            "ln_1.bias": (width,),
            "attn.c_attn.weight": (width, 3 * width),
            "attn.c_attn.bias": (3 * width,),
            "attn.c_proj.weight": (width, width),
            "attn.c_proj.bias": (width,),
            "ln_2.weight": (width,),
            "ln_2.bias": (width,),
            "mlp.c_fc.weight": (width, 4 * width),
            "mlp.c_fc.bias": (4 * width,),
            "mlp.c_proj.weight": (4 * width, width),
            "mlp.c_proj.bias": (width,),
        }.items():
            shapes[f"h.{place}.{name}"] = shape
    shapes |= {"ln_f.weight": (width,), "ln_f.bias": (width,)}
    return {name: shape for name, shape in shapes.items() if bias or not name.endswith("bias")}


TIED = {"wte.weight": ("lm_head.weight",)}
GPT2 = formula("decoder", GPT)


def sentence(made, wanted=GPT2, args=GPT, **more):
    found = explain(wanted, made, args=args, **more)
    assert found.difference == sum(one.elements for one in made.parameters) - wanted.total
    return found.sentence


def test_the_stand_in_is_what_the_formula_counts():
    assert explain(GPT2, tree(gpt(), TIED)).sentence == ""


def test_a_head_of_its_own_is_named_with_its_shape():
    said = sentence(tree({**gpt(), "lm_head.weight": (50, 8)}))
    assert said == "+400: lm_head.weight is a tensor of its own, 50 x 8: set tied = false or tie it"


def test_a_shared_head_that_the_formula_counts_is_named_with_what_it_is():
    untied = {**GPT, "tied": False}
    said = sentence(tree(gpt(), TIED), formula("decoder", untied), untied)
    assert said == "-400: lm_head.weight is wte.weight: counted once, so set tied = true"


def test_a_block_less_is_counted_in_blocks():
    # 12 x 8 x 8 + 13 x 8 elements in a GPT-2 block of width 8
    assert sentence(tree(gpt(layers=1), TIED)) == "-872: 1 block, the formula counts 2 of 872 each"


def test_a_padded_vocabulary_is_counted_in_rows():
    assert sentence(tree(gpt(vocab=64), TIED)) == "+112: wte.weight has 64 rows, the formula 50"


def test_two_causes_are_told_each_with_its_count():
    said = sentence(tree({**gpt(layers=3), "lm_head.weight": (50, 8)}))
    assert said == (
        "+872: 3 blocks, the formula counts 2 of 872 each; "
        "+400: lm_head.weight is a tensor of its own, 50 x 8: set tied = false or tie it"
    )


def test_biases_that_are_not_there_are_an_argument():
    # 8 + 24 + 8 + 8 + 32 + 8 in each of 2 blocks, 8 in the final norm
    assert sentence(tree(gpt(bias=False), TIED)) == "-184: exactly what bias = false changes"


def test_biases_that_are_there_are_named_with_the_argument_to_set():
    plain = {**GPT, "bias": False}
    said = sentence(tree(gpt(), TIED), formula("decoder", plain), plain)
    assert said == "+184: 13 biases such as h.0.ln_1.bias hold exactly as many: set bias = true"


def test_biases_are_named_without_knowing_the_arguments():
    said = sentence(tree(gpt(), TIED), formula("decoder", {**GPT, "bias": False}), None)
    assert said == "+184: 13 biases such as h.0.ln_1.bias hold exactly as many"


def test_an_inner_width_is_found_among_the_lengths_of_the_tree():
    shapes = gpt()
    for place in range(2):
        shapes |= {f"h.{place}.mlp.c_fc.weight": (8, 24), f"h.{place}.mlp.c_fc.bias": (24,)}
        shapes[f"h.{place}.mlp.c_proj.weight"] = (24, 8)
    assert sentence(tree(shapes, TIED)) == "-272: exactly what hidden = 24 changes"


def test_a_missing_position_table_is_told_as_one():
    shapes = {name: shape for name, shape in gpt().items() if name != "wpe.weight"}
    assert sentence(tree(shapes, TIED)) == (
        "-80: no tensor is named like the position embedding of 80 in the formula"
    )


@pytest.mark.parametrize("name", ["pos", "posn.weight", "body.positions", "position_table"])
def test_a_position_table_of_another_name_is_not_called_missing(name):
    shapes = {key: shape for key, shape in gpt().items() if key != "wpe.weight"}
    said = sentence(tree({**shapes, name: (12, 8)}, TIED))
    assert said == f"+16: position embedding: {name}, 12 x 8, the formula 80"


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (
            {"h.0.attn.lora_A": (2, 8), "h.0.attn.lora_B": (24, 2)},
            "+64: 2 tensors such as h.0.attn.lora_A, 64 elements: adapters that the formula does not count",
        ),
        (
            {"h.0.attn.q_norm.weight": (4,), "h.0.attn.k_norm.weight": (4,)},
            "+8: 2 tensors such as h.0.attn.q_norm.weight, 8 elements: norms of queries and keys",
        ),
        ({"pooler.dense.weight": (8, 9)}, "+72: pooler.dense.weight, 8 x 9: the formula has no pooler"),
        ({"v_head.weight": (1, 8)}, "+8: v_head.weight, 1 x 8: a head that the formula does not count"),
        ({"token_type_embeddings.weight": (2, 8)}, "+16: token_type_embeddings.weight, 2 x 8"),
    ],
)
def test_parts_that_the_formula_has_not_are_told_by_what_they_are(extra, said):
    assert sentence(tree({**gpt(), **extra}, TIED)).startswith(said)


def test_tensors_of_one_name_that_are_exactly_the_difference_are_named():
    extra = {f"h.{place}.gamma_1": (7,) for place in range(2)}
    said = sentence(tree({**gpt(), **extra}, TIED))
    assert said == "+14: 2 tensors h.*.gamma_1 hold exactly as many"


def test_two_sets_that_are_exactly_the_difference_are_named():
    assert sentence(tree({**gpt(), "a.u": (101,), "b.v": (37,)}, TIED)) == (
        "+101: a.u, 101, holds as many; +37: b.v, 37, holds as many"
    )


def test_what_is_not_explained_is_said_to_be_so():
    extra = {"lm_head.weight": (50, 8), "a.one": (101,), "b.two": (37,), "c.three": (53,)}
    found = explain(GPT2, tree({**gpt(), **extra}), args=GPT)
    assert (found.difference, found.explained) == (591, 400)
    assert found.sentence.startswith("explained 400 of 591: +400: lm_head.weight is a tensor of its own")


def test_a_difference_that_nothing_comes_to_says_that():
    extra = {"a.one": (101,), "b.two": (37,), "c.three": (53,)}
    assert sentence(tree({**gpt(), **extra}, TIED)) == (
        "explained 0 of 191: no argument and no tensors of one name come to it"
    )


def test_parts_of_the_same_names_are_compared_when_nothing_else_is_known():
    extra = {"a.one": (101,), "b.two": (37,), "c.three": (53,)}
    said = sentence(tree({**gpt(), **extra}, TIED), groups={**GPT2.parts, "others": 191})
    assert said == "+191: others: formula 0, inventory 191"


def test_several_arguments_add_up_to_the_difference():
    gated = {**GPT, "gated": True, "positions": "rotary"}
    shapes = {name: shape for name, shape in gpt().items() if name != "wpe.weight"}
    for place in range(2):
        shapes |= {f"h.{place}.mlp.gate.weight": (8, 32), f"h.{place}.mlp.gate.bias": (32,)}
    made = tree(shapes, TIED)
    assert sum(one.elements for one in made.parameters) == formula("decoder", gated).total
    found = explain(GPT2, made, args=GPT)
    assert found.explained == found.difference == 2 * (256 + 32) - 80


def test_two_wrong_numbers_of_an_image_model_are_read_from_its_tensors():
    right = {"inputs": "patches", "layers": 1, "heads": 2, "width": 8, "size": 8, "patch": 2, "classes": 5}
    shapes = {
        "patch_embed.weight": (8, 3, 2, 2),
        "patch_embed.bias": (8,),
        "cls": (1, 1, 8),
        "pos": (1, 17, 8),
        **{f"blocks.0.{name}.weight": (8,) for name in ("norm1", "norm2")},
        **{f"blocks.0.{name}.bias": (8,) for name in ("norm1", "norm2")},
        "blocks.0.qkv.weight": (24, 8),
        "blocks.0.qkv.bias": (24,),
        "blocks.0.proj.weight": (8, 8),
        "blocks.0.proj.bias": (8,),
        "blocks.0.up.weight": (32, 8),
        "blocks.0.up.bias": (32,),
        "blocks.0.down.weight": (8, 32),
        "blocks.0.down.bias": (8,),
        "norm.weight": (8,),
        "norm.bias": (8,),
        "fc.weight": (5, 8),
        "fc.bias": (5,),
    }
    assert sentence(tree(shapes), formula("encoder", right), right) == ""
    wrong = {**right, "patch": 4, "classes": 100}
    said = sentence(tree(shapes), formula("encoder", wrong), wrong)
    assert "what patch = 2 changes" in said
    assert "what classes = 5 changes" in said
    assert not said.startswith("explained")
