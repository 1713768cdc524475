"""Precision settings as they are applied, and as they turn out inside.

What is asked for and what happens differ: the first layer's output dtype, the autocast state, the scaler and the
matmul precision are read from inside a running forward.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager

import torch
from torch.utils import _pytree as pytree

from .faults import TaskError

_SHORT = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16", torch.float64: "fp64"}
LAYERS = (torch.nn.Linear, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)


def short(dtype: torch.dtype) -> str:
    """``bf16`` for torch.bfloat16; other types by their own names."""
    return _SHORT.get(dtype, str(dtype).replace("torch.", ""))


def weight_dtype(name: str) -> torch.dtype:
    """The dtype of floating-point weights under a setting."""
    return {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name, torch.float32)


def convert(model: torch.nn.Module, dtype: torch.dtype) -> torch.nn.Module:
    """``model`` with its real floating-point parameters and buffers in ``dtype``; complex ones stay as they are.

    Raises:
        TaskError: modules hold each other in a circle or lie too deep in each other for torch.
    """
    try:
        return model._apply(lambda one: one.to(dtype) if one.is_floating_point() else one)
    except RecursionError as error:
        raise TaskError(
            "workload",
            "torch cannot go through the model's modules: some hold each other in a circle, or they lie too deep "
            "in each other",
            hint="keep a module's parent out of its attributes, in a list or a weak reference",
        ) from error


class Setting:
    """One of protocol.SETTINGS on one kind of device ("cpu" or "cuda")."""

    def __init__(self, name: str, device_type: str) -> None:
        self.name = name
        self.device_type = device_type
        self.autocast_dtype = {"bf16-autocast": torch.bfloat16, "fp16-autocast": torch.float16}.get(name)
        self.weight_dtype = weight_dtype(name)
        self.scaler = None
        self.seen = {}
        if name not in ("fp32", "tf32", "bf16-autocast", "fp16-autocast", "bf16", "fp16"):
            raise TaskError("unsupported", "precision %r is not a setting that can be measured" % name)
        if name == "tf32" and not _has_tf32(device_type):
            raise TaskError(
                "unsupported",
                "tf32 needs an NVIDIA GPU of compute capability 8.0 or newer; "
                "this is %s" % _device_words(device_type),
            )

    def prepare(self, model: torch.nn.Module) -> torch.nn.Module:
        """Set the process's switches and convert the model's floating-point weights to what the setting says.

        Also for fp32: a model that was built in bf16 or fp64, by its configuration or torch's default dtype, would
        otherwise be measured under a name that is not its own.
        """
        torch.set_float32_matmul_precision("high" if self.name == "tf32" else "highest")
        if self.device_type == "cuda":
            torch.backends.cudnn.allow_tf32 = self.name == "tf32"
        convert(model, self.weight_dtype)
        if self.name == "fp16-autocast":
            self.scaler = torch.amp.GradScaler(self.device_type)
        return model

    def context(self) -> ContextManager[Any]:
        """Entered around every forward and loss."""
        if self.autocast_dtype is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device_type, dtype=self.autocast_dtype)

    def batch(self, batch: Any) -> Any:
        """The batch with its floating-point tensors in the weights' dtype."""
        return pytree.tree_map_only(
            torch.Tensor, lambda leaf: leaf.to(self.weight_dtype) if leaf.is_floating_point() else leaf, batch
        )

    def watch(self, model: torch.nn.Module) -> Callable[[], None]:
        """Record what one forward really does; returns a function that stops watching."""

        def look(module: Any, args: Any, out: Any) -> None:
            if isinstance(out, torch.Tensor):
                self.seen.setdefault("layer", type(module).__name__.lower())
                self.seen.setdefault("output", out.dtype)
                self.seen.setdefault("weight", module.weight.dtype)

        hooks = [one.register_forward_hook(look) for one in model.modules() if isinstance(one, LAYERS)]

        def stop() -> None:
            for hook in hooks:
                hook.remove()

        return stop

    def effective(self) -> str:
        """What was seen, in words: "bf16 linear, fp32 weights, emulated: ..."."""
        words = []
        if self.seen:
            words.append("%s %s" % (short(self.seen["output"]), self.seen["layer"]))
            words.append("%s weights" % short(self.seen["weight"]))
        else:
            words.append("no linear or convolution layer was seen")
        if self.scaler is not None:
            words.append("scaler %s" % ("on" if self.scaler.is_enabled() else "off"))
        if self.device_type == "cuda":
            words.append("TF32 %s" % ("on" if torch.backends.cuda.matmul.allow_tf32 else "off"))
        if self.is_emulated():
            words.append("emulated: no native instructions here")
        return ", ".join(words)

    def is_emulated(self) -> bool:
        """Whether the low-precision arithmetic of this setting has no native support on the device."""
        low = self.autocast_dtype or (self.weight_dtype if self.weight_dtype != torch.float32 else None)
        if low is None:
            return False
        if self.device_type == "cuda":
            return low == torch.bfloat16 and torch.cuda.get_device_capability()[0] < 8
        try:
            native = (
                torch.ops.mkldnn._is_mkldnn_bf16_supported()
                if low == torch.bfloat16
                else torch.ops.mkldnn._is_mkldnn_fp16_supported()
            )
        except (AttributeError, RuntimeError):
            return False
        return not native


def _has_tf32(device_type: str) -> bool:
    return device_type == "cuda" and torch.cuda.get_device_capability()[0] >= 8


def _device_words(device_type: str) -> str:
    return torch.cuda.get_device_name() if device_type == "cuda" else "a CPU"
