"""How many parameters one layer has.

Pure integers: sizes are elements, the result is the number of parameters.  Buffers (running means, counters)
are not parameters and are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod


def dense(inputs: int, outputs: int, bias: bool = True) -> int:
    """A linear layer: a weight of (outputs, inputs) and a bias of (outputs,).

    >>> dense(784, 256)
    200960
    """
    return inputs * outputs + (outputs if bias else 0)


def conv(
    inputs: int,
    outputs: int,
    kernel: int | Sequence[int],
    *,
    dims: int = 2,
    groups: int = 1,
    bias: bool = True,
) -> int:
    """A convolution, transposed or not; each group of output channels sees ``inputs / groups`` input channels.

    The weight is (outputs, inputs / groups, *kernel), of a transposed one (inputs, outputs / groups, *kernel): as
    many elements.

    Args:
        inputs: channels.
        outputs: channels.
        kernel: its sides; one number is for all ``dims`` of them.
        dims: 1, 2 or 3; not looked at when ``kernel`` has several sides.
        groups: of channels.
        bias: one for every output channel.

    Raises:
        ValueError: ``groups`` does not divide both channel counts.

    >>> conv(24, 24, 3, groups=24, bias=False)
    216
    """
    if inputs % groups or outputs % groups:
        raise ValueError(f"groups = {groups} must divide both {inputs} and {outputs} channels")
    sides = kernel**dims if isinstance(kernel, int) else prod(kernel)
    return outputs * (inputs // groups) * sides + (outputs if bias else 0)


def embedding(entries: int, width: int) -> int:
    """A table of ``entries`` vectors.

    >>> embedding(50257, 768)
    38597376
    """
    return entries * width


def layer_norm(width: int, bias: bool = True) -> int:
    """A scale and, with ``bias``, a shift for every channel; batch, group and instance norm have the same."""
    return 2 * width if bias else width


def rms_norm(width: int) -> int:
    """A scale for every channel."""
    return width


def attention(
    width: int,
    heads: int,
    kv_heads: int | None = None,
    head_dim: int | None = None,
    *,
    qkv_bias: bool = True,
    out_bias: bool = True,
    qk_norm: bool = False,
) -> int:
    """Query, key, value and output projections, and with ``qk_norm`` an RMS norm of queries and one of keys.

    Args:
        width: channels in and out.
        heads: of queries.
        kv_heads: of keys and values, None: as many (Ainslie et al. 2023, arXiv:2305.13245).
        head_dim: channels of a head, None: width / heads.
        qkv_bias: of the three projections.
        out_bias: of the output projection.
        qk_norm: over the channels of a head, shared by all heads.

    Raises:
        ValueError: ``kv_heads`` does not divide ``heads``, or ``heads`` does not divide ``width`` without ``head_dim``.

    >>> attention(768, 12)
    2362368
    """
    kv_heads = heads if kv_heads is None else kv_heads
    if heads % kv_heads:
        raise ValueError(f"kv_heads = {kv_heads} must divide heads = {heads}")
    if head_dim is None:
        if width % heads:
            raise ValueError(f"heads = {heads} must divide width = {width}, or head_dim must be given")
        head_dim = width // heads
    query_key_value = (heads + 2 * kv_heads) * head_dim
    projections = dense(width, query_key_value, qkv_bias) + dense(heads * head_dim, width, out_bias)
    return projections + (2 * rms_norm(head_dim) if qk_norm else 0)


def mlp(width: int, hidden: int, gated: bool = False, bias: bool = True) -> int:
    """The two projections of a block, or three when a gate multiplies the hidden channels.

    >>> mlp(768, 3072)
    4722432
    >>> mlp(4096, 14336, gated=True, bias=False)
    176160768
    """
    up = (2 if gated else 1) * dense(width, hidden, bias)
    return up + dense(hidden, width, bias)


@dataclass(frozen=True, slots=True)
class Experts:
    """A mixture of experts: what it holds, and what works on one token."""

    total: int
    active: int


def experts(
    width: int,
    hidden: int,
    count: int,
    top_k: int,
    *,
    gated: bool = True,
    bias: bool = False,
    shared: int = 0,
    shared_gate: bool = False,
) -> Experts:
    """A router without biases, ``count`` MLPs of which a token goes to ``top_k``, and shared ones for every token.

    Sources: Jiang et al. 2024 (arXiv:2401.04088), Dai et al. 2024 (shared experts, arXiv:2401.06066).

    Args:
        width: channels in and out.
        hidden: channels inside one expert, which is seldom that of a dense layer.
        count: experts to choose from.
        top_k: experts that a token is sent to.
        gated: three matrices an expert instead of two.
        bias: in the experts.
        shared: experts for every token, as one MLP of ``shared * hidden`` channels.
        shared_gate: a (width, 1) matrix that scales what the shared ones answer.

    Raises:
        ValueError: ``top_k`` is more than ``count``.

    >>> experts(4096, 14336, 8, 2)
    Experts(total=1409318912, active=352354304)
    """
    if top_k > count:
        raise ValueError(f"top_k = {top_k} must be at most experts = {count}")
    one = mlp(width, hidden, gated, bias)
    always = dense(width, count, bias=False)
    if shared:
        always += mlp(width, shared * hidden, gated, bias) + (width if shared_gate else 0)
    return Experts(always + count * one, always + top_k * one)


GATES = {"rnn": 1, "gru": 3, "lstm": 4}
"""Matrices of a recurrent layer, each for the input and for the state, as torch.nn.RNN, GRU and LSTM have them."""


def recurrent(
    kind: str,
    inputs: int,
    hidden: int,
    layers: int = 1,
    *,
    bidirectional: bool = False,
    bias: bool = True,
    proj_size: int = 0,
) -> int:
    """An RNN, GRU or LSTM; two biases a gate, one for the input and one for the state, as cuDNN has them.

    Args:
        kind: "rnn", "gru" or "lstm".
        inputs: channels of a step.
        hidden: channels of the state.
        layers: each after the first reads the outputs of the one below, of both directions.
        bidirectional: every layer twice.
        bias: of both kinds.
        proj_size: channels that an LSTM's outputs are projected to, 0: not projected (Sak et al. 2014).

    Raises:
        ValueError: a projection that is not smaller than the state, or not of an LSTM.

    >>> recurrent("lstm", 28, 128)
    80896
    """
    if proj_size and kind != "lstm":
        raise ValueError(f"proj_size is of an LSTM, not of a {kind.upper()}")
    if proj_size and proj_size >= hidden:
        raise ValueError(f"proj_size = {proj_size} must be less than hidden = {hidden}")
    rows, directions, state = GATES[kind] * hidden, 2 if bidirectional else 1, proj_size or hidden
    around = rows * state + (2 * rows if bias else 0) + proj_size * hidden
    above = (layers - 1) * (rows * directions * state + around)
    return directions * (rows * inputs + around + above)


def lora(rank: int, inputs: int, outputs: int) -> int:
    """The two matrices (rank, inputs) and (outputs, rank) beside a frozen linear layer.

    Source: Hu et al. 2021 (arXiv:2106.09685).

    >>> lora(16, 4096, 4096)
    131072
    """
    return rank * (inputs + outputs)


@dataclass(frozen=True, slots=True)
class WeightNorm:
    """What is stored of a weight that is computed as magnitude x direction / norm of direction."""

    magnitude: int
    direction: int

    @property
    def total(self) -> int:
        """Both; the weight itself is no parameter."""
        return self.magnitude + self.direction


def weight_norm(shape: Sequence[int], dim: int | None = 0) -> WeightNorm:
    """A weight of ``shape`` as a magnitude along ``dim`` (None: one for all) and a direction of its shape.

    Source: Salimans and Kingma 2016 (arXiv:1602.07868); torch.nn.utils.parametrizations.weight_norm.

    Raises:
        ValueError: the shape has no such dimension.

    >>> weight_norm((8, 4, 3))
    WeightNorm(magnitude=8, direction=96)
    """
    if dim is not None and not 0 <= dim < len(shape):
        raise ValueError(f"dim = {dim} is not a dimension of a shape of {len(shape)}")
    return WeightNorm(1 if dim is None else shape[dim], prod(shape))
