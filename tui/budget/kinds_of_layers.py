"""Layers by name: their arguments, and their parameters line by line."""

from __future__ import annotations

from collections.abc import Callable

from tui.budget import layers
from tui.budget.arguments import Argument, Arguments
from tui.budget.family import attention_term
from tui.budget.worked import Term, Worked, term

LayerKind = tuple[str, tuple[Argument, ...], Callable[[Arguments], Worked]]
"""What it is, its arguments, and the calculation; a ValueError is one sentence."""

IN, OUT = Argument("in", "whole", required=True), Argument("out", "whole", required=True)
WIDTH = Argument("width", "whole", meaning="channels in and out", required=True)
BIAS = Argument("bias", "flag", True, "one for every output")


def worked(kind: str, given: Arguments, terms: list[Term], *further: Term, note: str = "") -> Worked:
    """A calculation in parameters."""
    return Worked(kind, given.values, "parameters", tuple(terms), further, note)


def dense(given: Arguments) -> Worked:
    """Weight and bias."""
    inputs, outputs = given.whole("in"), given.whole("out")
    weight = layers.dense(inputs, outputs, bias=False)
    terms = [term("weight", "out x in", weight, out=outputs, **{"in": inputs})]
    return worked("dense", given, [*terms, *_bias(given, outputs)])


def _bias(given: Arguments, outputs: int) -> list[Term]:
    return [term("bias", "out", outputs, out=outputs)] if given.flag("bias") else []


def conv(given: Arguments) -> Worked:
    """Weight and bias of a convolution, transposed or not."""
    inputs, outputs, groups = given.whole("in"), given.whole("out"), given.whole("groups")
    sides = given.wholes("kernel")
    if len(sides) > 3:
        raise ValueError(f"kernel must have 1, 2 or 3 sides, got {len(sides)}")
    names = [f"kernel_{place}" for place in range(1, len(sides) + 1)]
    if given.is_one("kernel"):
        sides = sides * given.whole("dims")
        names = ["kernel"] * len(sides)
    first, second = ("in", "out") if given.flag("transposed") else ("out", "in")
    weight = layers.conv(inputs, outputs, sides, groups=groups, bias=False)
    text = " x ".join([f"{first} x ({second} / groups)" if groups > 1 else f"{first} x {second}", *names])
    numbers = {"in": inputs, "out": outputs, "groups": groups, **dict(zip(names, sides, strict=True))}
    return worked("conv", given, [term("weight", text, weight, **numbers), *_bias(given, outputs)])


def embedding(given: Arguments) -> Worked:
    """A table."""
    entries, width = given.whole("entries"), given.whole("width")
    table = layers.embedding(entries, width)
    return worked("embedding", given, [term("table", "entries x width", table, entries=entries, width=width)])


def norm(given: Arguments) -> Worked:
    """A scale and a shift."""
    width, kind = given.whole("width"), given.word("kind")
    if kind == "rms" and given.flag("bias"):
        raise ValueError("an RMS norm has no bias")
    terms = [term("scale", "width", layers.rms_norm(width), width=width)]
    if given.flag("bias", kind != "rms"):
        terms.append(term("shift", "width", layers.layer_norm(width) - width, width=width))
    note = "running mean, variance and counter are buffers, not parameters" if kind == "batch" else ""
    return worked("norm", given, terms, note=note)


def attention(given: Arguments) -> Worked:
    """Query, key, value and output projections in one line."""
    width, heads = given.whole("width"), given.whole("heads")
    kv_heads = given.whole("kv_heads", heads)
    if width % heads and "head_dim" not in given:
        raise ValueError(f"heads = {heads} must divide width = {width}, or head_dim must be given")
    head_dim = given.whole("head_dim", width // heads)
    found = attention_term(
        width,
        heads,
        kv_heads,
        head_dim,
        qkv_bias=given.flag("qkv_bias"),
        out_bias=given.flag("out_bias"),
        qk_norm=given.flag("qk_norm"),
    )
    return worked("attention", given, [found])


def feed_forward(given: Arguments) -> Worked:
    """Two matrices, or three with a gate."""
    width, gated, bias = given.whole("width"), given.flag("gated"), given.flag("bias")
    hidden = given.whole("hidden", 4 * width)
    numbers = {"width": width, "hidden": hidden}
    into = "hidden x width" + (" + hidden" if bias else "")
    up = layers.dense(width, hidden, bias)
    terms = [term("gate", into, up, **numbers)] if gated else []
    terms.append(term("up", into, up, **numbers))
    down = layers.dense(hidden, width, bias)
    terms.append(term("down", "width x hidden" + (" + width" if bias else ""), down, **numbers))
    return worked("feed_forward", given, terms)


def experts(given: Arguments) -> Worked:
    """Router, experts, shared ones; also what is active on one token."""
    width, hidden, count = given.whole("width"), given.whole("hidden"), given.whole("experts")
    top_k, shared = given.whole("top_k"), given.whole("shared")
    gated, bias, gate = given.flag("gated"), given.flag("bias"), given.flag("shared_gate")
    if gate and not shared:
        raise ValueError("shared_gate = true needs shared experts, which are 0")
    found = layers.experts(
        width, hidden, count, top_k, gated=gated, bias=bias, shared=shared, shared_gate=gate
    )
    numbers = {"width": width, "hidden": hidden, "experts": count, "shared": shared, "top_k": top_k}
    one = f"{3 if gated else 2} x width x hidden"
    one += f" + {'2 x ' if gated else ''}hidden + width" if bias else ""
    size = layers.mlp(width, hidden, gated, bias)
    terms = [
        term("router", "width x experts", width * count, **numbers),
        term("experts", f"experts x ({one})", count * size, **numbers),
    ]
    if shared:
        text = one.replace("hidden", "(shared x hidden)")
        terms.append(term("shared experts", text, layers.mlp(width, shared * hidden, gated, bias), **numbers))
    if gate:
        terms.append(term("shared gate", "width", width, **numbers))
    text = "total - (experts - top_k) x one"
    active = term("active on one token", text, found.active, total=found.total, one=size, **numbers)
    return worked("experts", given, terms, active)


def _recurrent(kind: str) -> Callable[[Arguments], Worked]:
    def work(given: Arguments) -> Worked:
        inputs, hidden, count = given.whole("in"), given.whole("hidden"), given.whole("layers")
        both, bias = given.flag("bidirectional"), given.flag("bias")
        proj_size = given.whole("proj_size") if kind == "lstm" else 0
        layers.recurrent(kind, inputs, hidden, count, bidirectional=both, bias=bias, proj_size=proj_size)
        return worked(
            kind, given, _recurrent_terms(layers.GATES[kind], inputs, hidden, count, both, bias, proj_size)
        )

    return work


def _recurrent_terms(
    gates: int, inputs: int, hidden: int, count: int, both: bool, bias: bool, proj_size: int
) -> list[Term]:
    """Weights of the input, of the state, biases and projections, each of all layers and directions."""
    directions, state, name = (2 if both else 1), proj_size or hidden, "proj_size" if proj_size else "hidden"
    every = ("directions x " if both else "") + (f"{gates} x " if gates > 1 else "") + "hidden"
    rows = directions * gates * hidden
    numbers = {
        "in": inputs,
        "hidden": hidden,
        "layers": count,
        "directions": directions,
        "proj_size": proj_size,
    }
    terms = [term("input, layer 1", f"{every} x in", rows * inputs, **numbers)]
    if count > 1:
        text = f"(layers - 1) x {every} x {'directions x ' if both else ''}{name}"
        terms.append(term("input, layers above", text, (count - 1) * rows * directions * state, **numbers))
    terms.append(term("state", f"layers x {every} x {name}", count * rows * state, **numbers))
    if bias:
        terms.append(term("biases", f"layers x 2 x {every}", count * 2 * rows, **numbers))
    if proj_size:
        text = f"layers x {'directions x ' if both else ''}proj_size x hidden"
        terms.append(term("projections", text, count * directions * proj_size * hidden, **numbers))
    return terms


def lora(given: Arguments) -> Worked:
    """The two matrices."""
    inputs, outputs, rank = given.whole("in"), given.whole("out"), given.whole("rank")
    numbers = {"in": inputs, "out": outputs, "rank": rank}
    terms = [
        term("A", "rank x in", layers.lora(rank, inputs, 0), **numbers),
        term("B", "out x rank", layers.lora(rank, 0, outputs), **numbers),
    ]
    frozen = term("frozen weight beside it", "out x in", layers.dense(inputs, outputs, bias=False), **numbers)
    return worked("lora", given, terms, frozen)


def weight_norm(given: Arguments) -> Worked:
    """Magnitude, direction and bias."""
    shape, dim = given.wholes("shape"), given.whole("dim")
    found = layers.weight_norm(shape, None if dim < 0 else dim)
    names = [f"shape_{place}" for place in range(len(shape))]
    numbers = dict(zip(names, shape, strict=True))
    magnitude = "1" if dim < 0 else names[dim]
    terms = [
        term("magnitude", magnitude, found.magnitude, **numbers),
        term("direction", " x ".join(names), found.direction, **numbers),
    ]
    if given.flag("bias"):
        terms.append(term("bias", names[0], shape[0], **numbers))
    return worked("weight_norm", given, terms, note="the weight itself is computed, so it is no parameter")


_RECURRENT = (
    IN,
    Argument("hidden", "whole", meaning="channels of the state", required=True),
    Argument("layers", "whole", 1),
    Argument("bidirectional", "flag", False),
    Argument("bias", "flag", True, "two for every gate"),
)

KINDS: dict[str, LayerKind] = {
    "dense": ("a linear layer", (IN, OUT, BIAS), dense),
    "conv": (
        "a convolution",
        (
            IN,
            OUT,
            Argument("kernel", "whole or wholes", meaning="side, or sides as 3,5", required=True),
            Argument("dims", "whole", 2, "1, 2 or 3, for one side", most=3),
            Argument("groups", "whole", 1),
            BIAS,
            Argument("transposed", "flag", False),
        ),
        conv,
    ),
    "embedding": ("a table of vectors", (Argument("entries", "whole", required=True), WIDTH), embedding),
    "norm": (
        "a normalisation",
        (
            WIDTH,
            Argument("kind", "choice", "layer", choices=("layer", "batch", "group", "instance", "rms")),
            Argument("bias", "flag", None, "a shift for every channel", "true but for rms"),
        ),
        norm,
    ),
    "attention": (
        "attention with multiple or grouped heads",
        (
            WIDTH,
            Argument("heads", "whole", meaning="query heads", required=True),
            Argument("kv_heads", "whole", None, "key and value heads", "heads"),
            Argument("head_dim", "whole", None, "channels of a head", "width / heads"),
            Argument("qkv_bias", "flag", True, "of query, key and value"),
            Argument("out_bias", "flag", True, "of the output projection"),
            Argument("qk_norm", "flag", False, "RMS norm of queries and of keys"),
        ),
        attention,
    ),
    "feed_forward": (
        "the MLP of a transformer block",
        (
            WIDTH,
            Argument("hidden", "whole", None, "channels inside", "4 x width"),
            Argument("gated", "flag", False, "a third matrix"),
            Argument("bias", "flag", True),
        ),
        feed_forward,
    ),
    "experts": (
        "a mixture of experts",
        (
            WIDTH,
            Argument("hidden", "whole", meaning="channels inside one expert", required=True),
            Argument("experts", "whole", required=True),
            Argument("top_k", "whole", 2, "experts that a token is sent to"),
            Argument("gated", "flag", True, "three matrices an expert"),
            Argument("bias", "flag", False, "in the experts"),
            Argument("shared", "whole", 0, "experts that every token is sent to", least=0),
            Argument("shared_gate", "flag", False, "a gate on the shared ones"),
        ),
        experts,
    ),
    "lstm": (
        "long short-term memory",
        (*_RECURRENT, Argument("proj_size", "whole", 0, "channels of projected outputs, 0: none", least=0)),
        _recurrent("lstm"),
    ),
    "gru": ("gated recurrent units", _RECURRENT, _recurrent("gru")),
    "rnn": ("a plain recurrent layer", _RECURRENT, _recurrent("rnn")),
    "lora": (
        "a low-rank adapter of a linear layer",
        (IN, OUT, Argument("rank", "whole", required=True)),
        lora,
    ),
    "weight_norm": (
        "a weight kept as magnitude and direction",
        (
            Argument("shape", "wholes", meaning="of the weight, as 8,4,3", required=True, least_items=1),
            Argument("dim", "whole", 0, "of the magnitudes, -1: one for all", least=-1),
            Argument("bias", "flag", False, "as many as shape begins with"),
        ),
        weight_norm,
    ),
}
