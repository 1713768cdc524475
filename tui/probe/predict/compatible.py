"""What must be otherwise about torch and transformers while tensors have no values.

Each change is undone at the end, but for that of transformers, which is only ever asked about fakes.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any, Iterator

import torch

from .recorder import Recorder


@contextlib.contextmanager
def patched(recorder: Recorder, stands_for: str) -> Iterator[None]:
    """A context in which what torch does behind the operators' back is recorded too."""
    resize, get_state = torch.UntypedStorage.resize_, torch.get_rng_state

    def resize_(storage: Any, size: int) -> Any:
        out = resize(storage, size)
        recorder.resized(storage)
        return out

    def get_rng_state() -> torch.Tensor:
        state = get_state()
        recorder.take(state, None, "get_rng_state")  # of the CPU's generator, by no operator
        return state

    library = _linear()
    torch.UntypedStorage.resize_ = resize_  # type: ignore[method-assign]
    if stands_for == "cpu":
        torch.get_rng_state = get_rng_state
        torch.random.get_rng_state = get_rng_state
    try:
        yield
    finally:
        library._destroy()
        torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign]
        torch.get_rng_state = torch.random.get_rng_state = get_state


def scaler(found: Any) -> None:
    """Let a gradient scaler step: whether gradients are finite is a value, and a step that is skipped shows nothing."""
    if found is None:
        return

    def step(optimizer: Any, state: Any, *args: Any, **kwargs: Any) -> Any:
        return optimizer.step(*args, **kwargs)

    found._maybe_opt_step = step


def after_build() -> None:
    """Let transformers take fakes for tensors, not for a tracer's, for which it makes masks that it else leaves out."""
    masks = sys.modules.get("transformers.masking_utils")
    for name in ("is_tracing", "is_torchdynamo_compiling"):
        if masks is not None and hasattr(masks, name):
            setattr(masks, name, lambda *args, **kwargs: False)


def _linear() -> Any:
    """Let ``linear`` add its bias in place where it does so for tensors with values.

    For inputs of three and more dimensions with holes it multiplies first; then it adds in place, but for subclasses
    of tensors makes another one (aten/src/ATen/native/Linear.cpp).  That one may be the logits.
    """
    library = torch.library.Library("aten", "IMPL")
    default = torch.ops.aten.linear.default

    def linear(input: Any, weight: Any, bias: Any = None) -> Any:
        if bias is None or input.dim() <= 2 or input.is_contiguous():
            return default.decompose(input, weight, bias)
        return torch.matmul(input, weight.t()).add_(bias)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overriding is what is meant
        library.impl("linear", linear, "AutogradCPU")
    return library
