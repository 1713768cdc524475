"""A Hugging Face configuration as a workload: random weights, nothing is downloaded.

Needs ``transformers`` in the measured environment.  The batch is made of random inputs of the shapes that the
configuration says; its values have nothing to teach, so only memory and time mean something.
"""

import json
import os

import torch

from .faults import TaskError
from .workload import Workload

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")


def load(path, args):
    """The workload of a ``config.json``; ``args`` override keys of the configuration.

    Raises:
        TaskError: no such file, not a configuration, no transformers, a task that has no training loss.
    """
    shown = os.path.basename(path)
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
    kind = table.pop("model_type")
    try:
        config = transformers.AutoConfig.for_model(kind, **{**table, **args})
    except (ValueError, TypeError, KeyError) as error:
        raise TaskError(
            "workload", "transformers %s refuses it: %s" % (transformers.__version__, error), where=shown
        ) from error
    cls = _model_class(transformers, config, table.get("architectures"), shown)

    def build():
        return cls._from_config(config) if hasattr(cls, "_from_config") else cls(config)

    def batch(n, length):
        return _inputs(config, cls, n, length)

    def loss(model, batch):
        return model(**batch).loss

    return Workload({"build": build, "batch": batch, "loss": loss}, dict(args), shown)


def _model_class(transformers, config, architectures, shown):
    named = getattr(transformers, (architectures or [""])[0], None)
    if (named is not None and "For" in named.__name__) or getattr(named, "__name__", "").endswith(
        "LMHeadModel"
    ):
        return named
    for auto in (
        "AutoModelForCausalLM",
        "AutoModelForMaskedLM",
        "AutoModelForImageClassification",
        "AutoModelForSequenceClassification",
    ):
        found = getattr(transformers, auto)._model_mapping.get(type(config), None)
        if found is not None:
            return found[0] if isinstance(found, (tuple, list)) else found
    raise TaskError(
        "workload",
        "%s has no model class with a training loss" % type(config).__name__,
        where=shown,
        hint="write a FILE.py with build() and batch(n)",
    )


def _inputs(config, cls, n, length):
    """Random inputs for ``n`` samples by the model's main input."""
    name = cls.main_input_name
    if name == "pixel_values":
        side = config.image_size if isinstance(config.image_size, int) else config.image_size[0]
        return {
            "pixel_values": torch.randn(n, getattr(config, "num_channels", 3), side, side),
            "labels": torch.randint(0, config.num_labels, (n,)),
        }
    if name != "input_ids":
        raise TaskError(
            "workload",
            "%s takes %s, which cannot be made up from a configuration" % (cls.__name__, name),
            hint="write a FILE.py with build() and batch(n)",
        )
    longest = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    steps = length or min(longest or 128, 128)
    if longest and steps > longest:
        raise TaskError(
            "workload",
            "length %d is longer than the configuration's %d positions" % (steps, longest),
            hint="lower workload.batch.length",
        )
    text = getattr(config, "text_config", config)
    ids = torch.randint(0, text.vocab_size, (n, steps))
    if cls.__name__.endswith("ForSequenceClassification"):
        return {"input_ids": ids, "labels": torch.randint(0, config.num_labels, (n,))}
    return {"input_ids": ids, "labels": ids.clone()}
