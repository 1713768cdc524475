"""A Hugging Face configuration as a workload: random weights, nothing is downloaded.

Needs ``transformers`` in the measured environment.  The batch is made of random inputs of the shapes that the
configuration says; its values have nothing to teach, so only memory and time mean something.  Keys and values of
attention are not kept for generation (``use_cache``), as transformers' own Trainer has it.
"""

from __future__ import annotations

import difflib
import json
import os
from typing import Any, Callable, Dict, List, Optional, Sequence

import torch

from . import experts
from .families.tokens import NO_LABEL
from .faults import TaskError, one_line
from .workload import Workload, attempt

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

HEADS = ("ForCausalLM", "LMHeadModel", "ForMaskedLM", "ForSequenceClassification", "ForImageClassification")
"""Ends of the names of model classes whose loss can be had from inputs that a configuration describes.

Those of sequence-to-sequence models end in ForConditionalGeneration, but so do others that need more than tokens.
"""
SHIFTED = (
    "roberta",
    "xlm-roberta",
    "camembert",
    "data2vec-text",
    "roberta-prelayernorm",
    "xlm-roberta-xl",
    "longformer",
)
"""Kinds that number positions from the padding token's id on, so that they have fewer than their table has rows."""
MASKED = 0.15
"""Share of the tokens of a masked language model that have a label (Devlin et al. 2019)."""
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
    _settle(config, cls, args)

    def build() -> torch.nn.Module:
        model = attempt(
            lambda: cls._from_config(config) if hasattr(cls, "_from_config") else cls(config),
            cls.__name__,
            shown,
        )
        made.experts = experts.of_configuration(config, model)
        return model

    def batch(n: int, length: Optional[int] = None) -> Dict[str, torch.Tensor]:
        return _inputs(config, cls, n, length)

    def loss(model: Callable[..., Any], batch: Dict[str, torch.Tensor]) -> torch.Tensor:
        return model(**batch).loss

    made = Workload({"build": build, "batch": batch, "loss": loss}, dict(args), shown)
    made.unpacked = _unpacked(config, shown)
    return made


def _unpacked(config: Any, shown: str) -> str:
    """Why weights that the configuration asks to have in low-bit form are not; "": it asks for none."""
    asked = getattr(config, "quantization_config", None)
    if not asked:
        return ""
    method = asked.get("quant_method") if isinstance(asked, dict) else getattr(asked, "quant_method", None)
    return (
        "%s asks for %s weights (quantization_config), which random ones are not: they are unpacked here"
        % (
            shown,
            getattr(method, "value", method) or "low-bit",
        )
    )


def _settle(config: Any, cls: Any, args: Dict[str, Any]) -> None:
    """Fill in what a training step needs and a configuration may leave open."""
    if hasattr(config, "use_cache") and "use_cache" not in args:
        config.use_cache = False
    padding = getattr(config, "pad_token_id", None)
    # Classifiers look for the last token that is not padding, and refuse to without one.
    if padding is None and (cls.__name__.endswith("ForSequenceClassification") or _of_sequences(config)):
        padding = config.pad_token_id = 0
    if _of_sequences(config) and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = padding


def _of_sequences(config: Any) -> bool:
    """Whether it is of an encoder and a decoder."""
    return bool(getattr(config, "is_encoder_decoder", False))


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
    kinds = transformers.CONFIG_MAPPING
    if kind not in kinds:
        near = difflib.get_close_matches(str(kind), list(kinds), 1)
        raise TaskError(
            "workload",
            "transformers %s has no model_type %r" % (transformers.__version__, kind),
            where=shown,
            hint="did you mean %s?" % near[0] if near else "correct it, or use the release that has it",
        )
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
    sequences = _found(transformers, "AutoModelForSeq2SeqLM", config)
    if name.endswith(HEADS) or (name and any(one.__name__ == name for one in sequences)):
        return getattr(transformers, name)
    if "For" in name:
        raise TaskError(
            "workload",
            "architectures names %s, whose labels cannot be made up from a configuration" % name,
            where=shown,
            hint="name one of %s, or write a FILE.py with build() and batch(n)"
            % ", ".join("..." + h for h in HEADS),
        )
    autos = ["AutoModelForSeq2SeqLM"] if _of_sequences(config) else _autos(config)
    for auto in autos:
        found = _found(transformers, auto, config)
        if found:
            return found[0]
    raise TaskError(
        "workload",
        "%s has no model class whose inputs and labels can be made up" % type(config).__name__,
        where=shown,
        hint="write a FILE.py with build() and batch(n)",
    )


def _found(transformers: Any, auto: str, config: Any) -> Sequence[Any]:
    """The model classes that an auto class knows for the configuration; the first is its choice."""
    found = getattr(transformers, auto)._model_mapping.get(type(config), ())
    return found if isinstance(found, (tuple, list)) else (found,)


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
        side = length or getattr(config, "image_size", None) or DEFAULT_SIDE
        high, wide = (side, side) if isinstance(side, int) else (side[0], side[-1])
        images = torch.randn(n, getattr(config, "num_channels", 3), high, wide)
        return {"pixel_values": images, "labels": _labels(config, n)}
    if name != "input_ids":
        raise TaskError(
            "workload",
            "%s takes %s, which cannot be made up from a configuration" % (cls.__name__, name),
            hint="write a FILE.py with build() and batch(n)",
        )
    steps = _steps(config, length)
    ids = _tokens(config, n, steps)
    if cls.__name__.endswith("ForSequenceClassification"):
        return {"input_ids": ids, "labels": _labels(config, n)}
    if cls.__name__.endswith("ForMaskedLM"):
        places = torch.rand(n, steps).topk(max(1, round(MASKED * steps)), dim=1).indices
        chosen = torch.zeros(n, steps, dtype=torch.bool).scatter(1, places, True)
        return {"input_ids": ids, "labels": ids.masked_fill(~chosen, NO_LABEL)}
    return {"input_ids": ids, "labels": _tokens(config, n, steps) if _of_sequences(config) else ids.clone()}


def _steps(config: Any, length: Optional[int]) -> int:
    """Tokens of a sample.

    Raises:
        TaskError: more than there are positions.
    """
    longest = getattr(config, "max_position_embeddings", None) or getattr(config, "n_positions", None)
    if longest and config.model_type in SHIFTED:
        longest -= (config.pad_token_id or 0) + 1
    if not longest or longest < 0:  # a kind without a table of positions may say -1
        return length or DEFAULT_LENGTH
    if length and length > longest:
        raise TaskError(
            "workload",
            "length %d is longer than the configuration's %d positions" % (length, longest),
            hint="lower workload.batch.length",
        )
    return length or min(longest, DEFAULT_LENGTH)


def _tokens(config: Any, n: int, steps: int) -> torch.Tensor:
    """Random ids (n, steps) without those that mean padding, of which a sample might have nothing else."""
    text = getattr(config, "text_config", config)
    last = text.vocab_size - 1
    ids = torch.randint(min(1, last), last + 1, (n, steps))
    padding = getattr(text, "pad_token_id", None)
    return (
        ids if padding is None else ids.masked_fill(ids == padding, last if padding != last else min(1, last))
    )


def _labels(config: Any, n: int) -> torch.Tensor:
    """Classes, or one number a sample where there is a single one, which transformers takes as regression."""
    if config.num_labels < 1:
        raise TaskError("workload", "num_labels is %d, so there is nothing to classify" % config.num_labels)
    return torch.randn(n) if config.num_labels == 1 else torch.randint(0, config.num_labels, (n,))
