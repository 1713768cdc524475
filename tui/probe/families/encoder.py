"""A transformer encoder of tokens (BERT-like) or of an image's patches (ViT-like), and data to train it on.

Shapes: B samples, T tokens or patches, C width, V vocabulary, S side of an image in pixels.
"""

from __future__ import annotations

from typing import Any, Dict, Optional

import torch
import torch.nn.functional as F
from torch import nn

from . import images, lora, norms, tokens
from .arguments import Arguments, refuse
from .blocks import MLP, Block, initialise

DEFAULTS = {
    "inputs": "tokens",
    "layers": 4,
    "heads": 4,
    "width": 128,
    "hidden": None,
    "vocab": 256,
    "context": 128,
    "segments": 2,
    "size": 32,
    "patch": 4,
    "in_channels": 3,
    "class_token": True,
    "norm_first": None,
    "embedding_norm": None,
    "pooler": False,
    "head": None,
    "classes": 10,
    "tied": True,
    "dropout": 0.0,
    "attention": "sdpa",
    "lora_rank": 0,
    "lora_targets": ["qkv", "proj"],
}
ARGUMENTS = Arguments(
    "encoder",
    DEFAULTS,
    optional={"hidden": int, "norm_first": bool, "embedding_norm": bool, "head": str},
    choices={
        "inputs": ("tokens", "patches"),
        "head": ("mlm", "classify"),
        "attention": ("sdpa", "eager"),
        "lora_targets": lora.TARGETS,
    },
    zero=("segments",),
)
BLOCK = {
    "gated": False,
    "norm": "layernorm",
    "positions": "learned",
    "rope_base": None,
    "bias": True,
    "qkv_bias": True,
    "qk_norm": False,
    "post_norms": False,
}
"""What the blocks of an encoder have where a decoder's have a choice."""


class Slot(nn.Module):
    """One learned vector (1, 1, C): the class token, put before the patches."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1, 1, width))

    def forward(self, n: int) -> torch.Tensor:
        """(n, 1, C)."""
        return self.weight.expand(n, -1, -1)


class MaskedTokens(nn.Module):
    """(B, T, C) to logits (B, T, V), as BERT's head: a dense layer, GELU, a norm, the vocabulary with a bias."""

    def __init__(self, width: int, vocab: int) -> None:
        super().__init__()
        self.dense, self.norm = nn.Linear(width, width), nn.LayerNorm(width)
        self.output = nn.Linear(width, vocab)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """See the class."""
        return self.output(self.norm(F.gelu(self.dense(x))))


class Encoder(nn.Module):
    """Ids (B, T) or images (B, 3, S, S), and labels (B, T) or (B,), to the mean cross-entropy.

    Without labels the logits: (B, T, V) of the masked-token head, (B, classes) of the classifier, which looks at the
    first token, or at the mean of the patches where there is no class token.
    """

    def __init__(self, cfg: Dict[str, Any]) -> None:
        super().__init__()
        width, of_tokens = cfg["width"], cfg["inputs"] == "tokens"
        self.grid = cfg["size"] // cfg["patch"]
        places = cfg["context"] if of_tokens else self.grid**2 + cfg["class_token"]
        self.wte = nn.Embedding(cfg["vocab"], width) if of_tokens else None
        self.wpe = nn.Embedding(places, width)
        self.segments = nn.Embedding(cfg["segments"], width) if of_tokens and cfg["segments"] else None
        self.patches = None if of_tokens else nn.Conv2d(cfg["in_channels"], width, cfg["patch"], cfg["patch"])
        self.cls = Slot(width) if cfg["class_token"] and not of_tokens else None
        self.embedding_norm = nn.LayerNorm(width) if cfg["embedding_norm"] else None
        self.drop = nn.Dropout(cfg["dropout"])
        inner = {**cfg, **BLOCK, "kv_heads": cfg["heads"], "head_dim": width // cfg["heads"]}
        self.blocks = nn.ModuleList(
            Block(inner, MLP(inner, cfg["hidden"]), causal=False) for _ in range(cfg["layers"])
        )
        self.norm = norms.make(inner) if cfg["norm_first"] else None
        self.pooler = nn.Linear(width, width) if cfg["pooler"] else None
        self.head = (
            MaskedTokens(width, cfg["vocab"]) if cfg["head"] == "mlm" else nn.Linear(width, cfg["classes"])
        )
        self.apply(initialise)
        if isinstance(self.head, MaskedTokens) and self.wte is not None and cfg["tied"]:
            self.head.output.weight = self.wte.weight

    def forward(
        self,
        inputs: torch.Tensor,
        segments_BT: Optional[torch.Tensor] = None,
        labels: Optional[torch.Tensor] = None,
    ) -> torch.Tensor:
        """See the class."""
        x = self._of_tokens(inputs, segments_BT) if self.patches is None else self._of_patches(inputs)
        if self.embedding_norm is not None:
            x = self.embedding_norm(x)
        x = self.drop(x)
        for block in self.blocks:
            x = block(x)
        if self.norm is not None:
            x = self.norm(x)
        logits = self.head(x if isinstance(self.head, MaskedTokens) else self._one(x))
        if labels is None:
            return logits
        return F.cross_entropy(logits.flatten(0, -2).float(), labels.flatten(), ignore_index=tokens.NO_LABEL)

    def _of_tokens(self, ids_BT: torch.Tensor, segments_BT: Optional[torch.Tensor]) -> torch.Tensor:
        assert self.wte is not None
        x = self.wte(ids_BT) + self.wpe(torch.arange(ids_BT.shape[1], device=ids_BT.device))
        if self.segments is not None:
            x = x + self.segments(torch.zeros_like(ids_BT) if segments_BT is None else segments_BT)
        return x

    def _of_patches(self, images_BCSS: torch.Tensor) -> torch.Tensor:
        assert self.patches is not None
        x_BCGG = self.patches(images_BCSS)
        places = self.wpe.weight
        if x_BCGG.shape[-2:] != (self.grid, self.grid):
            places = self._resized(places, x_BCGG.shape[-2:])
        x = x_BCGG.flatten(2).transpose(1, 2)
        if self.cls is not None:
            x = torch.cat((self.cls(len(x)), x), dim=1)
        return x + places

    def _resized(self, places: torch.Tensor, grid: torch.Size) -> torch.Tensor:
        """Positions of another number of patches: those of the first image's grid, interpolated."""
        own = 0 if self.cls is None else 1
        square = places[own:].T.reshape(1, -1, self.grid, self.grid)
        square = F.interpolate(square, size=tuple(grid), mode="bicubic", align_corners=False)
        return torch.cat((places[:own], square[0].flatten(1).T))

    def _one(self, x_BTC: torch.Tensor) -> torch.Tensor:
        """(B, C): what the classifier looks at."""
        seen = x_BTC[:, 0] if self.patches is None or self.cls is not None else x_BTC.mean(dim=1)
        return self.drop(seen if self.pooler is None else torch.tanh(self.pooler(seen)))


def resolve(cfg: Dict[str, Any]) -> Dict[str, Any]:
    """``cfg`` with the defaults that depend on other arguments filled in; impossible shapes are refused.

    Raises:
        TaskError: arguments that contradict one another.
    """
    cfg = dict(cfg)
    of_tokens = cfg["inputs"] == "tokens"
    if cfg["width"] % cfg["heads"]:
        refuse(
            "workload.args.width (%d) is not a multiple of heads (%d)" % (cfg["width"], cfg["heads"]),
            "change one of them",
        )
    cfg["hidden"] = cfg["hidden"] or 4 * cfg["width"]
    cfg["norm_first"] = not of_tokens if cfg["norm_first"] is None else cfg["norm_first"]
    cfg["embedding_norm"] = of_tokens if cfg["embedding_norm"] is None else cfg["embedding_norm"]
    cfg["head"] = cfg["head"] or ("mlm" if of_tokens else "classify")
    if not of_tokens and cfg["head"] == "mlm":
        refuse(
            'workload.args.head = "mlm" completes tokens, and inputs are patches',
            'set head = "classify", or inputs = "tokens"',
        )
    if not of_tokens:
        _check_side(cfg["size"], "workload.args.size", cfg)
    return cfg


def _check_side(side: int, what: str, cfg: Dict[str, Any]) -> None:
    if side % cfg["patch"]:
        refuse(
            "%s (%d) is not a multiple of workload.args.patch (%d)" % (what, side, cfg["patch"]),
            "change one of them",
        )


def build(cfg: Dict[str, Any]) -> Encoder:
    """The model of a resolved ``cfg``; with lora_rank only its adapters are trained."""
    model = Encoder(cfg)
    if cfg["lora_rank"]:
        lora.adapt(model, cfg["lora_rank"], cfg["lora_targets"])
    return model


def batch(
    n: int, index: int, split: str, length: Optional[int], cfg: Dict[str, Any]
) -> Dict[str, torch.Tensor]:
    """Masked tokens, labelled texts or labelled images; ``length`` is in tokens, or pixels a side for patches.

    inputs (n, length) or (n, in_channels, length, length), labels (n, length) or (n,), and the segments of tokens,
    the first half of a sample being one and the rest the other.
    """
    if cfg["inputs"] == "patches":
        side: int = length or cfg["size"]
        _check_side(side, "workload.batch.length", cfg)
        made = images.labelled(n, cfg["in_channels"], (side, side), cfg["classes"], index, split)
        return {"inputs": made["images"], "labels": made["labels"]}
    steps: int = length or cfg["context"]
    if steps > cfg["context"]:
        refuse(
            "length %d is longer than workload.args.context (%d)" % (steps, cfg["context"]),
            "lower workload.batch.length or raise the context",
        )
    if cfg["head"] == "mlm":
        ids, labels = tokens.masked(n, steps, cfg["vocab"], index, split)
    else:
        ids, labels = tokens.labelled(n, steps, cfg["vocab"], cfg["classes"], index, split)
    made = {"inputs": ids, "labels": labels}
    if cfg["segments"]:
        second = min(1, cfg["segments"] - 1)
        made["segments_BT"] = (torch.arange(steps) >= (steps + 1) // 2).long().mul(second).repeat(n, 1)
    return made


GROUPS = {
    "wte": "token embedding",
    "wpe": "position embedding",
    "segments": "segment embedding",
    "patches": "patch embedding",
    "cls": "class token",
    "embedding_norm": "embedding norm",
    "blocks": "{n} blocks",
    "norm": "final norm",
    "pooler": "pooler",
    "head": "output head",
}
