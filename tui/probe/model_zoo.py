"""Image classifiers of timm and torchvision by name: random weights, nothing is downloaded.

Needs the package in the measured environment.  Images are of the size that the package says for the model; what is on
them is made from a fixed seed and can be learned.
"""

from __future__ import annotations

import difflib
import importlib
import os
import sys
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

from .families import images
from .faults import TaskError, one_line
from .workload import Workload, attempt

Shape = Tuple[int, int, int]
"""Channels, height and width of an image in pixels."""

AUXILIARY = 0.3
"""Weight of the losses of auxiliary classifiers (Szegedy et al. 2014, section 5)."""
SIDE = 224
CLASSES = 1000


def load(source: str, args: Dict[str, Any]) -> Workload:
    """The workload of ``timm:NAME`` or ``torchvision:NAME``; ``args`` are given to the model.

    Raises:
        TaskError: the package cannot be imported, has no such classifier, or ``args`` ask for weights.
    """
    package, _, name = source.partition(":")
    zoo = ZOOS[package](_import(package, source))
    for key in args:
        if key in zoo.weights:
            raise TaskError(
                "workload",
                "workload.args.%s: weights are never loaded, since only memory and time are measured" % key,
                hint="remove it",
            )
    if args.get("num_classes") == 0:
        raise TaskError(
            "workload",
            "workload.args.num_classes is 0, so there is nothing to classify",
            hint="set it to 1 or more",
        )
    _check_name(zoo, name, source)
    return _Classifier(zoo, name, dict(args), source).workload()


class Timm:
    """What is asked of timm."""

    weights = ("pretrained", "checkpoint_path")
    """Arguments that would load some."""

    def __init__(self, package: Any) -> None:
        self._package = package

    def names(self) -> List[str]:
        """Every model that it can make."""
        return list(self._package.list_models())

    def others(self) -> List[str]:
        """Models that are not classifiers."""
        return []

    def create(self, name: str, args: Dict[str, Any]) -> torch.nn.Module:
        """The model with random weights."""
        return self._package.create_model(name, pretrained=False, **args)

    def shape(self, name: str, model: Any, args: Dict[str, Any]) -> Shape:
        """Of an image, as the model's configuration says unless the arguments do."""
        config = getattr(model, "pretrained_cfg", None) or getattr(model, "default_cfg", None) or {}
        channels, high, wide = config.get("input_size") or (3, SIDE, SIDE)
        side = args.get("img_size") or (high, wide)
        return (args.get("in_chans") or channels, *_sides(side))

    def classes(self, model: Any, args: Dict[str, Any]) -> int:
        """Outputs of the classifier."""
        return args.get("num_classes", getattr(model, "num_classes", CLASSES))


class Torchvision:
    """What is asked of torchvision."""

    weights = ("weights", "weights_backbone", "pretrained", "pretrained_backbone")
    """Arguments that would load some."""

    def __init__(self, package: Any) -> None:
        self._models = package.models

    def names(self) -> List[str]:
        """Classifiers: the others need targets that are no labels, and some would load a backbone's weights."""
        return list(self._models.list_models(module=self._models))

    def others(self) -> List[str]:
        """Models that are not classifiers."""
        return sorted({*self._models.list_models()} - {*self.names()})

    def create(self, name: str, args: Dict[str, Any]) -> torch.nn.Module:
        """The model with random weights."""
        return self._models.get_model(name, weights=None, **args)

    def shape(self, name: str, model: Any, args: Dict[str, Any]) -> Shape:
        """Of an image: what the model was made for, else what its published weights were trained on."""
        side = args.get("image_size") or getattr(model, "image_size", None) or self._crop(name) or SIDE
        return (3, *_sides(side))

    def _crop(self, name: str) -> Any:
        try:
            return self._models.get_model_weights(name).DEFAULT.transforms.keywords["crop_size"]
        except (AttributeError, KeyError, ValueError):
            return None

    def classes(self, model: Any, args: Dict[str, Any]) -> int:
        """Outputs of the classifier."""
        return args.get("num_classes", CLASSES)


ZOOS = {"timm": Timm, "torchvision": Torchvision}


class _Classifier:
    """One model by name, and the images that it takes."""

    def __init__(self, zoo: Any, name: str, args: Dict[str, Any], source: str) -> None:
        self.zoo, self.name, self.args, self.source = zoo, name, args, source
        self._takes: Optional[Tuple[Shape, int]] = None

    def workload(self) -> Workload:
        functions = {"build": self.build, "batch": self.batch, "loss": self.loss}
        return Workload(functions, self.args, self.source)

    def build(self) -> torch.nn.Module:
        model = attempt(lambda: self.zoo.create(self.name, self.args), self.source)
        self._takes = self._looked_at(model)
        return model

    def batch(self, n: int, index: int, split: str, length: Optional[int] = None) -> Dict[str, torch.Tensor]:
        """Images (n, C, H, W), ``length`` pixels a side where it is given, and labels int64 (n,)."""
        if self._takes is None:
            self._build_on_meta()
        assert self._takes is not None
        (channels, high, wide), classes = self._takes
        side = (length, length) if length else (high, wide)
        return images.labelled(n, channels, side, classes, index, split)

    @staticmethod
    def loss(model: Any, batch: Dict[str, torch.Tensor]) -> torch.Tensor:
        return cross_entropy(model(batch["images"]), batch["labels"])

    def _build_on_meta(self) -> None:
        try:
            with torch.device("meta"):
                self.build()
        except TaskError:
            raise
        except Exception:  # what cannot be built there is built for real, or says why not
            self.build()

    def _looked_at(self, model: Any) -> Tuple[Shape, int]:
        return self.zoo.shape(self.name, model, self.args), self.zoo.classes(model, self.args)


def _import(package: str, source: str) -> Any:
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    try:
        return importlib.import_module(package)
    except Exception as error:  # built for another torch, it fails in its own ways
        missing = isinstance(error, ModuleNotFoundError)
        hint = "install it there: %s -m pip install %s" % (sys.executable or "python", package)
        raise TaskError(
            "workload",
            "workload.source = %s needs %s, which cannot be imported: %s"
            % (source, package, one_line(error)),
            hint=hint if missing else "install releases that belong to torch %s" % torch.__version__,
        ) from error


def _check_name(zoo: Any, name: str, source: str) -> None:
    names = zoo.names()
    if name.partition(".")[0] in names:  # timm's names may end in the tag of some weights
        return
    if name in zoo.others():
        raise TaskError(
            "workload",
            "%s is not an image classifier, so its targets cannot be made up" % source,
            hint="write a FILE.py with build() and batch(n)",
        )
    near = difflib.get_close_matches(name, names, 3)
    package = source.partition(":")[0]
    raise TaskError(
        "workload",
        "%s has no model %s" % (package, name),
        hint="did you mean %s?" % " or ".join(near)
        if near
        else "%s.list_models() names all %d"
        % (package if package == "timm" else package + ".models", len(names)),
    )


def _sides(side: Any) -> Tuple[int, int]:
    """Height and width of one number or of several."""
    return (side, side) if isinstance(side, int) else (side[0], side[-1])


def cross_entropy(out: Any, labels: torch.Tensor) -> torch.Tensor:
    """The mean cross-entropy of a model's output: logits (n, classes), or something that holds them.

    The first logits in a tuple or dictionary count fully, those of auxiliary classifiers after them AUXILIARY.

    Raises:
        TaskError: there are none.
    """
    first = out if isinstance(out, torch.Tensor) else getattr(out, "logits", None)
    if isinstance(out, dict):
        first = out.get("logits", out.get("out"))
    leaves = [first, *(one for one in pytree.tree_leaves(out) if one is not first)]
    found = [
        one
        for one in leaves
        if isinstance(one, torch.Tensor)
        and one.is_floating_point()
        and one.dim() == 2
        and len(one) == len(labels)
    ]
    if not found:
        raise TaskError(
            "workload",
            "the model's output (%s) holds no logits of shape (samples, classes)" % type(out).__name__,
            hint="write a FILE.py with build(), batch(n) and loss(model, batch)",
        )
    loss = F.cross_entropy(found[0].float(), labels)
    for one in found[1:]:
        if one.shape == found[0].shape:
            loss = loss + AUXILIARY * F.cross_entropy(one.float(), labels)
    return loss
