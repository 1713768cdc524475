"""What must be otherwise about torch and transformers while tensors have no values.

Each change is undone at the end, but for that of transformers, which is only ever asked about fakes.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from typing import Any, Iterator

import torch

from .fake import is_fake
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

    with contextlib.ExitStack() as stack:
        stack.callback(_composites(recorder, stands_for)._destroy)
        stack.enter_context(_nothing_compiled())
        stack.enter_context(_replaced(torch.Tensor, "__format__", _formatted))
        stack.enter_context(_replaced(torch.UntypedStorage, "resize_", resize_))
        inference = _Inference()
        for owner, name, value in (
            (torch.inference_mode, "__enter__", lambda mode: inference.enter(mode)),
            (torch.inference_mode, "__exit__", lambda mode, *exc: inference.leave(mode, *exc)),
            (torch, "set_autocast_cache_enabled", inference.enable_cache),
        ):
            stack.enter_context(_replaced(owner, name, value))
        if stands_for == "cpu":
            stack.enter_context(_replaced(torch, "get_rng_state", get_rng_state))
            stack.enter_context(_replaced(torch.random, "get_rng_state", get_rng_state))
        yield


def _nothing_compiled() -> Any:
    """A context in which a compiled function raises as it is called, where torch can (from 2.6 on)."""
    stance = getattr(torch.compiler, "set_stance", None)
    return contextlib.nullcontext() if stance is None else stance("fail_on_recompile")


_FORMAT = torch.Tensor.__format__


def _formatted(self: torch.Tensor, spec: str) -> str:
    """``Tensor.__format__``, which asks only plain tensors for their value."""
    if self.dim() == 0 and is_fake(self):
        return self.item().__format__(spec)
    return _FORMAT(self, spec)


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class _Inference:
    """Inference mode as ``no_grad`` in which autocast keeps no casts of weights: what it makes is as large.

    In inference mode itself composite operators reach a dispatch mode whole, and overrides of them do not act.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._enable_cache: Any = torch.set_autocast_cache_enabled

    def enter(self, mode: Any) -> None:
        """``torch.inference_mode.__enter__``."""
        mode._before = (torch.is_grad_enabled(), torch.is_autocast_cache_enabled())
        torch.set_grad_enabled(mode._before[0] and not mode.mode)
        self._depth += bool(mode.mode)
        self.enable_cache(mode._before[1])

    def leave(self, mode: Any, *exc: Any) -> None:
        """``torch.inference_mode.__exit__``."""
        self._depth -= bool(mode.mode)
        torch.set_grad_enabled(mode._before[0])
        self._enable_cache(mode._before[1])

    def enable_cache(self, enabled: bool) -> None:
        """``torch.set_autocast_cache_enabled``, which every autocast calls as it begins."""
        self._enable_cache(enabled and not self._depth)


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


def _composites(recorder: Recorder, stands_for: str) -> Any:
    """Let composite operators write in place where they do so for tensors with values.

    For subclasses of tensors they make another one.  ``linear`` adds its bias in place to a product of inputs of three
    and more dimensions with holes, which may be the logits (aten/src/ATen/native/Linear.cpp); the CPU's ``dropout``
    scales its noise (Dropout.cpp), and its attention adds its mask to the scores (transformers/attention.cpp).
    """
    library = torch.library.Library("aten", "IMPL")
    aten = torch.ops.aten

    def linear(input: Any, weight: Any, bias: Any = None) -> Any:
        if bias is None or input.dim() <= 2 or input.is_contiguous():
            return _composite(aten.linear.default, input, weight, bias)
        return torch.matmul(input, weight.t()).add_(bias)

    def dropout(input: Any, p: float, train: bool) -> Any:
        if not train or p in (0, 1) or not input.numel():
            return _composite(aten.dropout.default, input, p, train)
        noise = torch.empty_like(input, memory_format=torch.contiguous_format).bernoulli_(1 - p)
        return input * noise.div_(1 - p)

    def attention(*args: Any, **kwargs: Any) -> Any:
        with recorder.in_place.masking():
            return _composite(aten._scaled_dot_product_attention_math.default, *args, **kwargs)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # overriding is what is meant
        library.impl("linear", linear, "AutogradCPU")
        if stands_for == "cpu":
            library.impl("dropout", dropout, "AutogradCPU")
            library.impl("_scaled_dot_product_attention_math", attention, "AutogradCPU")
    return library


def _composite(operator: Any, *args: Any, **kwargs: Any) -> Any:
    """The operator's own C++ kernel, which is made of others."""
    return operator._op_dk(torch._C.DispatchKey.CompositeImplicitAutograd, *args, **kwargs)
