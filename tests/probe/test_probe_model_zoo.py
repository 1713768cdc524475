"""Models of timm and torchvision by name, with small packages in their place."""

import sys
from collections import namedtuple

import pytest
import torch
import torch.nn.functional as F

from tui.probe import model_zoo, workload
from tui.probe.faults import TaskError

TIMM = """
import torch
from torch import nn

made = []

def list_models():
    return ["resnet18", "resnet50", "vit_tiny_patch16_224"]

class Net(nn.Module):
    pretrained_cfg = {"input_size": (3, 24, 16), "num_classes": 1000}

    def __init__(self, num_classes=1000, in_chans=3, **unknown):
        if unknown:
            raise TypeError("unexpected keyword argument %r" % sorted(unknown)[0])
        super().__init__()
        self.num_classes = num_classes
        self.head = nn.Linear(in_chans, num_classes)

    def forward(self, x):
        return self.head(x.mean((2, 3)))

def create_model(name, pretrained=False, **args):
    made.append((name, pretrained))
    model = Net(**args)
    if name == "resnet50":
        model.scale = torch.ones(1).item()  # as many real models do: not possible on the meta device
    if name.endswith(".none_such"):
        raise RuntimeError("Invalid pretrained tag (none_such)")
    return model
"""
TORCHVISION = """
import enum
import functools
from collections import namedtuple

from torch import nn

Outputs = namedtuple("Outputs", ["logits", "aux_logits"])
made = []

class _Weights:
    def __init__(self, crop_size):
        self.transforms = functools.partial(print, crop_size=crop_size, resize_size=99)

class _Enum:
    DEFAULT = _Weights(30)

def list_models(module=None):
    return ["inception_v3", "vit_b_16"] + ([] if module else ["fasterrcnn_resnet50_fpn"])

def get_model_weights(name):
    if name == "vit_b_16":
        raise ValueError("no weights")
    return _Enum

class Net(nn.Module):
    def __init__(self, num_classes=1000, image_size=None):
        super().__init__()
        if image_size:
            self.image_size = image_size
        self.head, self.aux = nn.Linear(3, num_classes), nn.Linear(3, num_classes)

    def forward(self, x):
        seen = x.mean((2, 3))
        return Outputs(self.head(seen), self.aux(seen) if self.training else None)

def get_model(name, weights="DEFAULT", **args):
    made.append((name, weights))
    return Net(**args)
"""


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A package in the place of timm and one in that of torchvision, gone after the test."""
    (tmp_path / "timm.py").write_text(TIMM)
    (tmp_path / "torchvision").mkdir()
    (tmp_path / "torchvision/__init__.py").write_text("from . import models\n")
    (tmp_path / "torchvision/models.py").write_text(TORCHVISION)
    for name in ("timm", "torchvision", "torchvision.models"):
        monkeypatch.setitem(sys.modules, name, None)  # so that it is put back or taken away afterwards
        del sys.modules[name]
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def load(source, **args):
    return workload.load(source, args, ".")


def refused(source, **args):
    with pytest.raises(TaskError) as caught:
        load(source, **args).build()
    assert caught.value.kind == "workload"
    return caught.value


def shapes(batch):
    return {key: tuple(value.shape) for key, value in batch.items()}


def test_a_model_of_timm_is_trained_on_images_of_its_own_size_without_weights(zoo):
    found = load("timm:resnet18", num_classes=7)
    model, batch = found.build(), found.batch(4, 0, "train", None)
    assert sys.modules["timm"].made == [("resnet18", False)]
    assert shapes(batch) == {"images": (4, 3, 24, 16), "labels": (4,)}
    assert int(batch["labels"].max()) < 7
    loss = found.loss(model, batch)
    assert float(loss.detach()) == pytest.approx(
        float(F.cross_entropy(model(batch["images"]), batch["labels"]).detach())
    )
    loss.backward()
    assert model.head.weight.grad is not None


def test_arguments_and_a_length_change_the_images(zoo):
    found = load("timm:resnet18", in_chans=1)
    found.build()
    assert shapes(found.batch(2, 0, "train", 12)) == {"images": (2, 1, 12, 12), "labels": (2,)}


def test_a_name_of_timm_may_say_the_tag_of_weights(zoo):
    load("timm:resnet18.a1_in1k").build()
    assert sys.modules["timm"].made == [("resnet18.a1_in1k", False)]
    assert "Invalid pretrained tag" in refused("timm:resnet18.none_such").sentence


@pytest.mark.parametrize("source", ["timm:resnet18", "timm:resnet50", "torchvision:inception_v3"])
def test_a_batch_can_be_asked_for_before_the_model(zoo, source):
    assert load(source).batch(2, 0, "train", None)["images"].shape[0] == 2


def test_what_cannot_be_built_on_the_meta_device_says_so_there_and_is_built_elsewhere(zoo):
    found = load("timm:resnet50")
    with pytest.raises(RuntimeError, match="meta"), torch.device("meta"):
        found.build()
    assert found.build().scale == 1


def test_a_model_of_torchvision_has_its_auxiliary_classifier_trained_too(zoo):
    found = load("torchvision:inception_v3", num_classes=5)
    model, batch = found.build(), found.batch(3, 0, "train", None)
    assert sys.modules["torchvision.models"].made == [("inception_v3", None)]
    assert shapes(batch) == {"images": (3, 3, 30, 30), "labels": (3,)}
    logits, aux = model(batch["images"])
    expected = F.cross_entropy(logits, batch["labels"]) + 0.3 * F.cross_entropy(aux, batch["labels"])
    assert float(found.loss(model, batch).detach()) == pytest.approx(float(expected.detach()))
    model.eval()
    alone = F.cross_entropy(model(batch["images"]).logits, batch["labels"])
    assert float(found.loss(model, batch).detach()) == pytest.approx(float(alone.detach()))


def test_the_images_of_torchvision_are_of_the_models_own_size_before_that_of_the_weights(zoo):
    found = load("torchvision:inception_v3", image_size=20)
    found.build()
    assert found.batch(1, 0, "train", None)["images"].shape == (1, 3, 20, 20)
    plain = load("torchvision:vit_b_16")
    plain.build()
    assert plain.batch(1, 0, "train", None)["images"].shape == (1, 3, 224, 224)


@pytest.mark.parametrize(
    ("source", "args", "sentence", "hint"),
    [
        ("timm:resnet81", {}, "timm has no model resnet81", "did you mean resnet18"),
        ("timm:zzz", {}, "timm has no model zzz", "timm.list_models() names all 3"),
        ("torchvision:inception", {}, "torchvision has no model inception", "did you mean inception_v3?"),
        (
            "torchvision:fasterrcnn_resnet50_fpn",
            {},
            "torchvision:fasterrcnn_resnet50_fpn is not an image classifier, so its targets cannot be made up",
            "write a FILE.py",
        ),
        (
            "timm:resnet18",
            {"pretrained": True},
            "workload.args.pretrained: weights are never loaded",
            "remove it",
        ),
        (
            "torchvision:inception_v3",
            {"weights": "DEFAULT"},
            "workload.args.weights: weights are never loaded",
            "remove it",
        ),
        (
            "timm:resnet18",
            {"depth": 3},
            "timm:resnet18 cannot be built: TypeError: unexpected keyword argument 'depth'",
            "",
        ),
        (
            "timm:resnet18",
            {"num_classes": 0},
            "workload.args.num_classes is 0, so there is nothing to classify",
            "set it to 1 or more",
        ),
    ],
)
def test_a_mistake_is_one_sentence(zoo, source, args, sentence, hint):
    error = refused(source, **args)
    assert error.sentence.startswith(sentence)
    assert error.hint.startswith(hint)


@pytest.mark.parametrize("package", ["timm", "torchvision"])
def test_a_package_that_is_missing_is_named_with_the_way_to_install_it(zoo, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    error = refused(package + ":resnet18")
    assert error.sentence.startswith(f"workload.source = {package}:resnet18 needs {package}, which cannot")
    assert error.hint.endswith("-m pip install " + package)


def test_a_package_that_breaks_while_it_is_imported_is_told_in_its_own_words(zoo):
    (zoo / "timm.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')\n")
    error = refused("timm:resnet18")
    assert "operator torchvision::nms does not exist" in error.sentence
    assert error.hint == f"install releases that belong to torch {torch.__version__}"


LOGITS = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
AUX = torch.tensor([[0.5, 0.0], [0.0, 0.0]])
LABELS = torch.tensor([0, 1])
ONE, MORE = float(F.cross_entropy(LOGITS, LABELS)), float(F.cross_entropy(AUX, LABELS))


@pytest.mark.parametrize(
    ("out", "expected"),
    [
        (LOGITS, ONE),
        ((LOGITS, AUX), ONE + 0.3 * MORE),
        (namedtuple("Out", ["logits", "aux"])(LOGITS, AUX), ONE + 0.3 * MORE),
        ({"aux": AUX, "logits": LOGITS}, ONE + 0.3 * MORE),
        ({"features": torch.zeros(2, 8, 3), "out": LOGITS}, ONE),
        ((LOGITS, None, torch.zeros(2, 5)), ONE),
    ],
    ids=["tensor", "tuple", "named", "keys", "features", "other"],
)
def test_the_logits_are_found_in_what_a_model_gives(out, expected):
    assert float(model_zoo.cross_entropy(out, LABELS)) == pytest.approx(expected)


def test_an_output_without_logits_is_refused():
    with pytest.raises(TaskError, match=r"the model's output \(list\) holds no logits"):
        model_zoo.cross_entropy([torch.zeros(2, 8, 3, 3)], LABELS)
