"""Recurrent layers on cuDNN, approximately.

Results, gradients and copies are those of ``aten/src/ATen/native/cudnn/RNN.cpp``.  What cuDNN keeps for the backward
is a size that only it tells; here it is the activated gates, cells and outputs of every position.

# T positions, B batch, F features, H hidden size: inputs are TBF, or BTF where the batch comes first.
"""

from __future__ import annotations

from typing import Any, Callable, List, NamedTuple, Optional, Tuple

import torch
from torch.library import Library

from .base import Assumptions

_ATEN = torch.ops.aten
_CUDNN = (torch.float16, torch.float32, torch.float64)
"""Types that cuDNN takes (``cudnn_is_acceptable``); others run as cells of plain operators."""


class Cell(NamedTuple):
    """A kind of recurrent layer: cuDNN's number of it, and values of H per position that are kept."""

    name: str
    mode: int
    kept: int


_CELLS = {
    "lstm": Cell("LSTM", 2, 6),  # four gates, the cell and the output
    "gru": Cell("GRU", 3, 5),  # three gates, the candidate's product and the output
    "rnn_tanh": Cell("RNN", 1, 2),
    "rnn_relu": Cell("RNN", 0, 2),
}

_own: Optional[Any] = None


class Reserve:
    """Bytes of the reserve space of the layer that runs now."""

    def __init__(self) -> None:
        self.nbytes = 0


def install(library: Any, assumptions: Assumptions, reserve: Reserve) -> None:
    """Register the layers with ``library``, one of ``torch.library`` for "aten"."""
    _define()
    for name, cell in _CELLS.items():
        library.impl("%s.input" % name, _layer(name, cell, assumptions, reserve), "AutogradCPU")


def _define() -> None:
    """The backward as an operator of its own; torch's has no fake kernel."""
    global _own
    if _own is None:
        _own = Library("peakmark", "FRAGMENT")
        _own.define(
            "cudnn_rnn_backward(Tensor input, Tensor hx, Tensor? cx, Tensor[] weight) "
            "-> (Tensor, Tensor, Tensor, Tensor)"
        )
        _own.impl("cudnn_rnn_backward", _backward, "Meta")


def _backward(
    input: torch.Tensor, hx: torch.Tensor, cx: Optional[torch.Tensor], weight: List[torch.Tensor]
) -> Tuple[torch.Tensor, ...]:
    """Gradients of the input, of the states, and of all weights in one buffer."""
    return (
        torch.empty_like(input),
        torch.empty_like(hx),
        hx.new_empty(0) if cx is None else torch.empty_like(cx),
        input.new_empty(sum(one.numel() for one in weight)),
    )


class Call(NamedTuple):
    """What a layer was called with beside its tensors."""

    cell: Cell
    has_biases: bool
    layers: int
    dropout: float
    train: bool
    bidirectional: bool
    batch_first: bool


def _layer(name: str, cell: Cell, assumptions: Assumptions, reserve: Reserve) -> Callable[..., Any]:
    func = getattr(_ATEN, name).input

    def layer(
        input: torch.Tensor, hx: Any, params: List[torch.Tensor], *rest: Any
    ) -> Tuple[torch.Tensor, ...]:
        call = Call(cell, *rest)
        states = list(hx) if isinstance(hx, (list, tuple)) else [hx]
        tensors = [input, *states, *params]
        if torch.is_autocast_enabled("cpu"):
            lower = torch.get_autocast_dtype("cpu")
            tensors = [one.to(lower) if one.dtype == torch.float32 else one for one in tensors]
        if tensors[0].dtype not in _CUDNN or not torch.backends.cudnn.enabled:
            assumptions.approximate(
                "%s in %s on CUDA: without cuDNN its cells run as plain operators here, as fused ones on a GPU"
                % (cell.name, str(tensors[0].dtype)[6:])
            )
            with torch.backends.mkldnn.flags(enabled=False):
                return func._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, input, hx, params, *rest)
        assumptions.approximate(
            "%s on CUDA: cuDNN's reserve space is taken to be %d values of the hidden size for every position, "
            "its workspace is left out" % (cell.name, cell.kept)
        )
        count = len(states)
        h, c = tensors[1], tensors[2] if count == 2 else None
        out = _Rnn.apply(call, reserve, tensors[0], h, c, *tensors[1 + count :])
        return tuple(out[: 1 + count])

    return layer


class _Rnn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, call: Call, reserve: Reserve, input: Any, hx: Any, cx: Any, *weights: Any) -> Any:
        positions, batch = (1, 0) if call.batch_first else (0, 1)
        contiguous = (input.transpose(0, 1) if call.batch_first else input).contiguous()
        hidden = (cx if cx is not None else hx).shape[2]
        projected = hx.shape[2] if cx is not None and hx.shape[2] != hidden else 0
        directions = 2 if call.bidirectional else 1
        values = call.cell.kept * hidden * input.shape[positions] * input.shape[batch]
        reserve.nbytes = values * call.layers * directions * input.element_size() if call.train else 0
        biases = (4 if call.has_biases else 2) + bool(projected)
        output, hy, cy, kept, _ = _ATEN._cudnn_rnn(
            contiguous, list(weights), biases, weights[0], hx, cx, call.cell.mode, hidden, projected, call.layers,
            False, call.dropout, call.train, call.bidirectional, [], None,
        )  # fmt: skip
        ctx.save_for_backward(input, hx, cx, output, kept, *weights)
        ctx.batch_first = call.batch_first
        ctx.set_materialize_grads(False)
        return output.transpose(0, 1) if call.batch_first else output, hy, cy

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        input, hx, cx, _, _, *weights = ctx.saved_tensors
        contiguous = (input.transpose(0, 1) if ctx.batch_first else input).contiguous()
        of_input, of_h, of_c, flat = torch.ops.peakmark.cudnn_rnn_backward(contiguous, hx, cx, weights)
        found: List[Any] = []
        place = 0
        for weight in weights:
            found.append(flat[place : place + weight.numel()].view(weight.shape))
            place += weight.numel()
        of_input = of_input.transpose(0, 1) if ctx.batch_first else of_input
        return (None, None, of_input, of_h, None if cx is None else of_c, *found)
