"""The user's workload: one Python file, a configuration, or a built-in family, behind one set of functions.

Arguments are passed by name, and only those that a function declares.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import random
import sys
from typing import Any, Callable, Dict, Optional, Sequence

import torch
from torch.utils import _pytree as pytree

from . import families
from .faults import TaskError, is_out_of_memory, one_line, place

FUNCTIONS = ("build", "batch", "loss", "optimizer", "metric", "loader", "shard", "step")


class Workload:
    """``functions``: those of FUNCTIONS that the source defines; ``args``: ``workload.args``."""

    def __init__(
        self,
        functions: Dict[str, Callable[..., Any]],
        args: Dict[str, Any],
        origin: str,
        groups: Optional[Dict[str, str]] = None,
        experts: Optional[Dict[str, Any]] = None,
    ) -> None:
        self.functions = functions
        self.args = args
        self.origin = origin
        """What is named in sentences: ``workload.py``, ``decoder``."""
        self.groups = groups
        self.experts = experts
        """{"modules": dotted pattern of the routed experts, "total": experts of a layer, "used": those that a token is
        sent to}; None: not said.  A source that learns it from the model says it once ``build`` has been called."""
        self.unpacked = ""
        """Why weights that are asked to be low-bit are built as whole ones; "": none are asked to be."""

    def has(self, name: str) -> bool:
        """Whether the source defines this function itself."""
        return name in self.functions

    def call(self, name: str, **offered: Any) -> Any:
        """Call ``name`` with those of ``offered`` that it declares."""
        function = self.functions[name]
        return function(**accepted(function, offered))

    def build(self) -> torch.nn.Module:
        """A new model, as the user's ``build`` makes it."""
        model = self.call("build", cfg=self.args)
        if not isinstance(model, torch.nn.Module):
            raise TaskError(
                "workload",
                "build() gave %s, not a torch.nn.Module" % type(model).__name__,
                where=self._line("build"),
            )
        return model

    def batch(self, n: int, index: int, split: str, length: Optional[int], seed: int = 0) -> Any:
        """``n`` samples as a pytree of CPU tensors; the same for the same arguments.

        Random numbers that the user's function draws from the global generators are seeded by the arguments, and
        the generators are put back, so that a batch does not depend on what the model drew before it.
        """
        if length is None and _requires(self.functions["batch"], "length"):
            raise TaskError(
                "workload",
                "batch() takes a length, and the project says none",
                where=self._line("batch"),
                hint="set workload.batch.length, or give the argument a default",
            )
        with _seeded_by(seed, index, split):
            made = self.call("batch", n=n, index=index, split=split, length=length, cfg=self.args)
        leaves = [leaf for leaf in pytree.tree_leaves(made) if isinstance(leaf, torch.Tensor)]
        if not leaves:
            raise TaskError("workload", "batch(n=%d, ...) holds no tensor" % n, where=self._line("batch"))
        shaped = [leaf for leaf in leaves if leaf.dim()]
        if shaped and not _holds(shaped, n):
            raise TaskError(
                "workload",
                "batch(n=%d, ...) gave %d samples" % (n, shaped[0].shape[0]),
                where=self._line("batch"),
                hint="return n of them, or every figure would be for another batch than it says",
                observed_batch=shaped[0].shape[0],
            )
        return made

    def loss(self, model: torch.nn.Module, batch: Any) -> torch.Tensor:
        """The scalar to minimise."""
        own = self.has("loss")
        value = self.call("loss", model=model, batch=batch) if own else scalar_of(call_model(model, batch))
        if not isinstance(value, torch.Tensor) or value.numel() != 1:
            shape = tuple(value.shape) if isinstance(value, torch.Tensor) else type(value).__name__
            raise TaskError(
                "workload",
                "the loss is %s, not a scalar tensor" % (shape,),
                where=self._line("loss"),
                hint="return one number, such as its mean()"
                if own
                else "define loss(model, batch) in the workload",
            )
        if torch.is_grad_enabled() and not value.requires_grad:
            raise TaskError(
                "workload",
                "the loss depends on no parameter that needs a gradient, so there is no backward",
                where=self._line("loss"),
                hint="is it detached, made under no_grad, or is every parameter frozen?",
            )
        return value.reshape(())

    def _line(self, name: str) -> str:
        function = self.functions.get(name)
        code = getattr(function, "__code__", None)
        return "%s:%d" % (os.path.basename(code.co_filename), code.co_firstlineno) if code else self.origin


def _requires(function: Callable[..., Any], name: str) -> bool:
    """Whether ``function`` declares ``name`` without a default."""
    found = inspect.signature(function).parameters.get(name)
    return found is not None and found.default is found.empty and found.kind is not found.VAR_KEYWORD


def _holds(shaped: Sequence[torch.Tensor], n: int) -> bool:
    """Whether tensors hold ``n`` samples: along the first dimension, or all of them along the second (time first)."""
    if shaped[0].shape[0] == n:
        return True
    return all(one.shape[1 if one.dim() > 1 else 0] == n for one in shaped) and shaped[0].dim() > 1


def accepted(function: Callable[..., Any], offered: Dict[str, Any]) -> Dict[str, Any]:
    """Those of ``offered`` that ``function`` declares; a required one it cannot get is a TaskError."""
    parameters = inspect.signature(function).parameters
    if any(one.kind is one.VAR_KEYWORD for one in parameters.values()):
        return offered
    for one in parameters.values():
        if one.default is one.empty and one.kind is not one.VAR_POSITIONAL and one.name not in offered:
            code = getattr(function, "__code__", None)
            raise TaskError(
                "workload",
                "%s() wants an argument %r that does not exist" % (function.__name__, one.name),
                where="%s:%d" % (os.path.basename(code.co_filename), code.co_firstlineno) if code else "",
                hint="it can have %s" % ", ".join(sorted(offered)),
            )
    return {key: value for key, value in offered.items() if key in parameters}


def call_model(model: torch.nn.Module, batch: Any) -> Any:
    """The model on a batch: a mapping as keywords, a sequence as positions, anything else as the one argument."""
    if isinstance(batch, dict):
        return model(**batch)
    if isinstance(batch, (tuple, list)):
        return model(*batch)
    return model(batch)


def scalar_of(out: Any) -> torch.Tensor:
    """The loss in a model's output: ``.loss``, ``["loss"]``, a scalar, or the one scalar of a tuple that needs grad."""
    if isinstance(out, torch.Tensor):
        return out
    found = getattr(out, "loss", None)
    if isinstance(found, torch.Tensor):
        return found
    if isinstance(out, dict) and isinstance(out.get("loss"), torch.Tensor):
        return out["loss"]
    # Without gradients, as in validation, nothing needs one: then a floating-point scalar is the loss.
    wants_grad = torch.is_grad_enabled()
    scalars = [
        leaf
        for leaf in pytree.tree_leaves(out)
        if isinstance(leaf, torch.Tensor)
        and leaf.numel() == 1
        and (leaf.requires_grad if wants_grad else leaf.is_floating_point())
    ]
    if len(scalars) == 1:
        return scalars[0]
    raise TaskError(
        "workload",
        "the model's output (%s) has no loss: no .loss, no ['loss'], %d scalars that need a gradient"
        % (type(out).__name__, len(scalars)),
        hint="define loss(model, batch) in the workload",
    )


class _seeded_by:
    """Seeds the global generators from the arguments of a batch, and puts them back."""

    def __init__(self, seed: int, index: int, split: str) -> None:
        self._value = (seed * 1000003 + index * 7919 + (1 if split == "valid" else 0) * 104729) % (2**31)

    def __enter__(self) -> None:
        self._torch, self._python = torch.get_rng_state(), random.getstate()
        numpy = sys.modules.get("numpy")
        self._numpy = numpy.random.get_state() if numpy else None
        torch.default_generator.manual_seed(self._value)
        random.seed(self._value)
        if numpy:
            numpy.random.seed(self._value)

    def __exit__(self, *_: Any) -> None:
        torch.set_rng_state(self._torch)
        random.setstate(self._python)
        if self._numpy is not None:
            sys.modules["numpy"].random.set_state(self._numpy)


def load(source: str, args: Dict[str, Any], folder: str) -> Workload:
    """The workload that ``source`` names, relative to ``folder``.

    Raises:
        TaskError: no such file or function, a file that fails at import, arguments that the source refuses.
    """
    if source in families.NAMES:
        return _family(source, args)
    path, _, name = source.partition(":")
    full = os.path.join(folder, path)
    if path.endswith(".py"):
        return _python_file(full, name or None, args)
    if path.endswith(".json"):
        from . import huggingface

        return huggingface.load(full, args)
    if path in ("timm", "torchvision"):
        from . import model_zoo

        return model_zoo.load(source, args)
    raise TaskError(
        "workload",
        "workload.source = %r is not a FILE.py, a CONFIG.json, timm:NAME, torchvision:NAME or a family (%s)"
        % (source, ", ".join(families.NAMES)),
    )


def attempt(make: Callable[[], torch.nn.Module], what: str, where: str = "") -> torch.nn.Module:
    """The module that ``make`` gives; what a package's own code refuses is the workload's fault, not ours.

    On the meta device errors are left as they are: there they may mean no more than that it needs values.

    Raises:
        TaskError: it cannot be built, with the package's own words.
    """
    try:
        return make()
    except Exception as error:
        if isinstance(error, TaskError) or is_out_of_memory(error) or torch.empty(0).is_meta:
            raise
        said = "%s cannot be built: %s: %s" % (what, type(error).__name__, one_line(error))
        raise TaskError("workload", said, where=where) from error


def _family(name: str, args: Dict[str, Any]) -> Workload:
    family, cfg = families.load(name, args)

    def build() -> torch.nn.Module:
        return family.build(cfg)

    def batch(n: int, index: int, split: str, length: Optional[int] = None) -> Any:
        return family.batch(n, index, split, length, cfg)

    return Workload({"build": build, "batch": batch}, cfg, name, family.GROUPS, families.routed(family, cfg))


def _python_file(path: str, name: Optional[str], args: Dict[str, Any]) -> Workload:
    shown = os.path.basename(path)
    if not os.path.isfile(path):
        raise TaskError("workload", "no such file", where=shown)
    folder = os.path.dirname(os.path.abspath(path))
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as if it were run as a script: it may import its neighbours
    module_name = os.path.splitext(shown)[0]
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise TaskError(
            "workload",
            "it calls exit(%r) while it is imported" % (error.code,),
            where=place(error, [os.path.realpath(path)]) or shown,
        ) from error
    holder = module
    if name:
        holder = getattr(module, name, None)
        if holder is None:
            raise TaskError(
                "workload", "has no %r" % name, where=shown, hint="workload.source names it after the colon"
            )
        if not hasattr(holder, "batch"):
            holder = _Named(module, name)
    functions = {key: getattr(holder, key) for key in FUNCTIONS if callable(getattr(holder, key, None))}
    for needed in ("build", "batch"):
        if needed not in functions:
            raise TaskError(
                "workload", "defines no %s()" % needed, where=shown, hint="build() and batch(n) are required"
            )
    return Workload(functions, dict(args), shown)


class _Named:
    """A module whose ``build`` is the function or class that the source names after the colon."""

    def __init__(self, module: Any, name: str) -> None:
        for key in FUNCTIONS:
            if hasattr(module, key):
                setattr(self, key, getattr(module, key))
        made = getattr(module, name)
        if isinstance(made, type) and issubclass(made, torch.nn.Module):
            self.build = lambda cfg: made(**cfg)
        else:
            self.build = made
