"""Which tensors of a GPU's program are on the host: the fakes are all of the CPU, so it is the program that says it.

What a factory makes without a device is on the host; what it makes on the device of another tensor, or on "cuda", is
on the GPU, and so is what an operator makes of tensors that are not all on the host.  ``.to()``, ``.cuda()`` and
``.cpu()`` copy from one to the other.  Pinned memory is the host's.
"""

from __future__ import annotations

import contextlib
from typing import Any, Dict, Iterator, Optional

import torch
from torch.overrides import TorchFunctionMode

from .recorder import Recorder

_NAMES = """
arange as_tensor asarray empty empty_permuted empty_strided eye frombuffer from_numpy full linspace logspace ones rand
randint randn randperm range scalar_tensor tensor tril_indices triu_indices zeros bartlett_window blackman_window
hamming_window hann_window kaiser_window
"""
FACTORIES = frozenset(getattr(torch, name) for name in _NAMES.split() if hasattr(torch, name))
"""What makes a tensor of nothing, or of what is no tensor."""
_TENSOR = torch.Tensor


class Placing(TorchFunctionMode):
    """Active over a trace that stands for a GPU.

    Args:
        recorder: told which storages are on the host.
    """

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder
        self._trusted = False

    @contextlib.contextmanager
    def trusted(self) -> Iterator[None]:
        """A context in which factories make what they are told, wherever it is."""
        before, self._trusted = self._trusted, True
        try:
            yield
        finally:
            self._trusted = before

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Optional[Dict[str, Any]] = None
    ) -> Any:
        kwargs = kwargs or {}
        if self._trusted:
            return func(*args, **kwargs)
        if func in FACTORIES:
            return self._made(func, args, kwargs)
        special = _SPECIAL.get(func)
        return func(*args, **kwargs) if special is None else special(self, func, args, kwargs)

    def _made(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        device = kwargs.get("device")
        if device is not None:
            kwargs = {**kwargs, "device": torch.device("cpu") if not _is_meta(device) else device}
        kwargs.pop("pin_memory", None)
        made = func(*args, **kwargs)
        same = bool(args) and isinstance(args[0], _TENSOR)  # as_tensor of a tensor is that tensor
        if not same and (device is None or device == "cpu"):
            self._recorder.leave_out(made)
        return made

    def _moved(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        """``Tensor.to``: the first device among its arguments decides."""
        tensor, rest = args[0], list(args[1:])
        device: Any = kwargs.get("device")
        for place, one in enumerate(rest):
            if isinstance(one, (str, torch.device)) or (isinstance(one, int) and not isinstance(one, bool)):
                device, rest[place] = one, torch.device("cpu") if not _is_meta(one) else one
                break
            if isinstance(one, _TENSOR):
                return self._copied(func, tensor, rest, kwargs, self._recorder.on_host(one))
        if kwargs.get("device") is not None and not _is_meta(device):
            kwargs = {**kwargs, "device": torch.device("cpu")}
        if device is None or _is_meta(device):
            return func(tensor, *rest, **kwargs)
        return self._copied(func, tensor, rest, kwargs, device == "cpu")

    def _copied(self, func: Any, tensor: Any, rest: Any, kwargs: Dict[str, Any], to_host: bool) -> Any:
        if self._recorder.on_host(tensor) == to_host:
            return func(tensor, *rest, **kwargs)
        with self._recorder.making(to_host):
            moved = func(tensor, *rest, **kwargs)
            return moved.clone() if moved is tensor else moved

    def _to_gpu(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        return self._copied(_TENSOR.to, args[0], [torch.device("cpu")], {}, False)

    def _to_host(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        return self._copied(_TENSOR.to, args[0], [torch.device("cpu")], {}, True)

    def _same(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> Any:
        return args[0]

    def _says_gpu(self, func: Any, args: Any, kwargs: Dict[str, Any]) -> bool:
        return not self._recorder.on_host(args[0])


_SPECIAL = {
    _TENSOR.to: Placing._moved,
    _TENSOR.cuda: Placing._to_gpu,
    _TENSOR.cpu: Placing._to_host,
    _TENSOR.pin_memory: Placing._same,
    _TENSOR.is_cuda.__get__: Placing._says_gpu,  # type: ignore[attr-defined]
}


def _is_meta(device: Any) -> bool:
    return str(device).startswith("meta")
