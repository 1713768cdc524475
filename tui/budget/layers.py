"""How many parameters one layer has.

Pure integers: sizes are elements, the result is the number of parameters.  Buffers (running means, counters)
are not parameters and are not counted.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    """A scale and, with ``bias``, a shift for every channel; batch and group norm have the same."""
    return 2 * width if bias else width


def rms_norm(width: int) -> int:
    """A scale for every channel."""
    return width


def attention(
    width: int, heads: int, kv_heads: int, head_dim: int, qkv_bias: bool = True, out_bias: bool = True
) -> int:
    """Query, key, value and output projections; keys and values have ``kv_heads`` heads only.

    >>> attention(768, 12, 12, 64)
    2362368
    """
    query_key_value = (heads + 2 * kv_heads) * head_dim
    return dense(width, query_key_value, qkv_bias) + dense(heads * head_dim, width, out_bias)


def mlp(width: int, hidden: int, gated: bool = False, bias: bool = True) -> int:
    """The two projections of a block, or three when a gate multiplies the hidden channels.

    >>> mlp(768, 3072)
    4722432
    >>> mlp(4096, 14336, gated=True, bias=False)
    176160768
    """
    up = (2 if gated else 1) * dense(width, hidden, bias)
    return up + dense(hidden, width, bias)


def lora(rank: int, inputs: int, outputs: int) -> int:
    """The two matrices (rank, inputs) and (outputs, rank) beside a frozen linear layer.

    >>> lora(16, 4096, 4096)
    131072
    """
    return rank * (inputs + outputs)
