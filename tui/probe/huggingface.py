"""A Hugging Face configuration as a workload: random weights, nothing is downloaded.

Needs ``transformers`` in the measured environment.  The batch is made of random inputs of the shapes that the
configuration says; its values have nothing to teach, so only memory and time mean something.
"""

from __future__ import annotations

import difflib
import json
import os
from typing import Any, Callable, Dict, List, Optional

import torch

from .faults import TaskError, one_line
from .workload import Workload

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

HEADS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForSequenceClassification", "ForImageClassification")
"""Ends of the names of model classes whose loss can be had from inputs that a configuration describes."""
DEFAULT_LENGTH = 128
DEFAULT_SIDE = 224
"""Pixels of an image's side where the configuration has no ``image_size``, as a ResNet's has none."""


def load(path: str, args: Dict[str, Any]) -> Workload:
    """The workload of a ``config.json``; ``args`` override keys of the configuration.

    Raises:
        TaskError: no such file, not a configuration, no transformers, a task that has no training loss.
    """
    shown = os.path.basename(path)
    table = _read(path, shown)
    transformers = _import(shown)
    config = _config(transformers, table, args, shown)
    cls = _model_class(transformers, config, table.get("architectures"), shown)
    if cls.__name__.endswith("ForSequenceClassification") and getattr(config, "pad_token_id", None) is None:
        config.pad_token_id = (
            0  # decoders look for the last token that is not padding, and refuse to without one
        )

    def build() -> torch.nn.Module:
        try:
            return cls._from_config(config) if hasattr(cls, "_from_config") else cls(config)
        except (ValueError, TypeError, RuntimeError, AssertionError, ZeroDivisionError, KeyError) as error:
            raise TaskError(
                "workload", "%s cannot be built from it: %s" % (cls.__name__, one_line(error)), where=shown
            ) from error

    def batch(n: int, length: Optional[int] = None) -> Dict[str, torch.Tensor]:
        return _inputs(config, cls, n, length)

    def loss(model: Callable[..., Any], batch: Dict[str, torch.Tensor]) -> torch.Tensor:
        return model(**batch).loss

    return Workload({"build": build, "batch": batch, "loss": loss}, dict(args), shown)


def _read(path: str, shown: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as handle:
            table = json.load(handle)
    except OSError as error:
        raise TaskError("workload", "cannot be read: %s" % error.strerror, where=shown) from error
    except ValueError as error:
        raise TaskError("workload", "not valid JSON: %s" % error, where=shown) from error
    if not isinstance(table, dict) or "model_type" not in table:
        raise TaskError(
            "workload", "has no model_type, so it is not a Hugging Face configuration", where=shown
        )
    return table


def _import(shown: str) -> Any:
    try:
        import transformers
    except ImportError as error:
        raise TaskError(
            "workload",
            "needs transformers, which cannot be imported: %s" % error,
            where=shown,
            hint='install it there, or peakmark with the extra "hf"',
        ) from error
    transformers.logging.set_verbosity_error()
    return transformers


def _config(transformers: Any, table: Dict[str, Any], args: Dict[str, Any], shown: str) -> Any:
    kind = table["model_type"]
    rest = {key: value for key, value in table.items() if key != "model_type"}
    try:
        plain = transformers.AutoConfig.for_model(kind)
        known = [*dir(plain), *plain.attribute_map]
        config = transformers.AutoConfig.for_model(kind, **{**rest, **args})
    except Exception as error:  # its checks raise errors of many kinds, some of other packages
        said = "transformers %s refuses it: %s" % (transformers.__version__, one_line(error))
        raise TaskError("workload", said, where=shown) from error
    for key in args:
        if key not in known and key not in table:
            near = difflib.get_close_matches(key, [one for one in known if one[0] != "_"], 1)
            raise TaskError(
                "workload",
                "workload.args.%s is not a key of %s" % (key, type(config).__name__),
                hint="did you mean %s?" % near[0] if near else "",
            )
    return config


def _model_class(transformers: Any, config: Any, architectures: Any, shown: str) -> Any:
    """The class that ``architectures`` names; for a bare model, the one with the head it is trained with."""
    name = architectures[0] if isinstance(architectures, list) and architectures else ""
    if name and not hasattr(transformers, name):
        raise TaskError(
            "workload",
            "architectures names %s, which transformers %s does not have" % (name, transformers.__version__),
            where=shown,
            hint="correct it, or write a FILE.py with build() and batch(n)",
        )
    if name.endswith(HEADS):
        return getattr(transformers, name)
    if "For" in name:
        raise TaskError(
            "workload",
            "architectures names %s, whose labels cannot be made up from a configuration" % name,
            where=shown,
            hint="name one of %s, or write a FILE.py with build() and batch(n)"
            % ", ".join("..." + h for h in HEADS),
        )
    for auto in _autos(config):
        found = getattr(transformers, auto)._model_mapping.get(type(config), None)
        if found is not None:
            return found[0] if isinstance(found, (tuple, list)) else found
    raise TaskError(
        "workload",
        "%s has no model class with a training loss" % type(config).__name__,
        where=shown,
        hint="write a FILE.py with build() and batch(n)",
    )


def _autos(config: Any) -> List[str]:
    language = [
        "AutoModelForMaskedLM",
        "AutoModelForCausalLM",
    ]  # an encoder has both, and is trained as the first
    if getattr(config, "is_decoder", False):
        language.reverse()
    return [*language, "AutoModelForImageClassification", "AutoModelForSequenceClassification"]


def _inputs(config: Any, cls: Any, n: int, length: Optional[int]) -> Dict[str, torch.Tensor]:
    """Random inputs for ``n`` samples by the model's main input."""
    name = cls.main_input_name
    if name == "pixel_values":
        side = getattr(config, "image_size", None) or DEFAULT_SIDE
        high, wide = (side, side) if isinstance(side, int) else (side[0], side[-1])
        images = torch.randn(n, getattr(config, "num_channels", 3), high, wide)
        return {"pixel_values": images, "labels": _labels(config, n)}
    if name != "input_ids":
        raise TaskError(
            "workload",
            "%s takes %s, which cannot be made up from a configuration" % (cls.__name__, name),
            hint="write a FILE.py with build() and batch(n)",
        )
    longest = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    steps = length or min(longest or DEFAULT_LENGTH, DEFAULT_LENGTH)
    if longest and steps > longest:
        raise TaskError(
            "workload",
            "length %d is longer than the configuration's %d positions" % (steps, longest),
            hint="lower workload.batch.length",
        )
    text = getattr(config, "text_config", config)
    # Token 0 is left out: where it is padding, a sample might have nothing else.
    ids = torch.randint(min(1, text.vocab_size - 1), text.vocab_size, (n, steps))
    if cls.__name__.endswith("ForSequenceClassification"):
        return {"input_ids": ids, "labels": _labels(config, n)}
    return {"input_ids": ids, "labels": ids.clone()}


def _labels(config: Any, n: int) -> torch.Tensor:
    """Classes, or one number a sample where there is a single one, which transformers takes as regression."""
    if config.num_labels < 1:
        raise TaskError("workload", "num_labels is %d, so there is nothing to classify" % config.num_labels)
    return torch.randn(n) if config.num_labels == 1 else torch.randint(0, config.num_labels, (n,))
