"""A token stream with something to learn, made from a fixed seed.

A second-order source: the next token depends on the current one through ``SUCCESSORS`` likely successors, and on
the one before through which of them is favoured.  Its unigram entropy is close to log(vocab); a model that has
learned the transitions is far below it, so a falling loss means that something was learned.
"""

from __future__ import annotations

import functools
import math
from typing import Tuple

import torch

SUCCESSORS = 4
FAVOUR = 0.7
"""Probability of the favoured successor; the others share the rest."""


NO_LABEL = -100
"""The label of a place that is not to be predicted, which cross_entropy leaves out."""
LARGE = 4096
"""Tokens of a vocabulary from which on successors are drawn at once: a permutation for each would take minutes."""


@functools.lru_cache(maxsize=4)
def transitions(vocab: int, seed: int = 1234) -> torch.Tensor:
    """Likely successors of every token: int64 of shape (vocab, SUCCESSORS); a small vocabulary repeats some."""
    draw = torch.Generator().manual_seed(seed)
    if vocab >= LARGE or vocab < SUCCESSORS:
        return torch.randint(0, vocab, (vocab, SUCCESSORS), generator=draw)
    return torch.stack([torch.randperm(vocab, generator=draw)[:SUCCESSORS] for _ in range(vocab)])


FEW = 32
"""Samples up to which plain numbers are faster than operators on all of them."""


def sequences(n: int, length: int, vocab: int, index: int, split: str) -> torch.Tensor:
    """``n`` sequences of ``length`` + 1 tokens, int64; a pure function of its arguments."""
    successors = transitions(vocab)
    draw = torch.Generator().manual_seed(7919 * index + (104729 if split == "valid" else 0) + 17)
    out = torch.empty(n, length + 1, dtype=torch.int64)
    out[:, :2] = torch.randint(0, vocab, (n, 2), generator=draw)[:, : length + 1]
    chance = torch.rand(n, length + 1, generator=draw)
    other = torch.randint(0, SUCCESSORS, (n, length + 1), generator=draw)
    if n <= FEW:
        return _by_sample(out, chance < FAVOUR, other, successors)
    for t in range(2, length + 1):
        favoured = out[:, t - 2] % SUCCESSORS
        which = torch.where(chance[:, t] < FAVOUR, favoured, other[:, t])
        out[:, t] = successors[out[:, t - 1], which]
    return out


def _by_sample(
    out: torch.Tensor, favours: torch.Tensor, other: torch.Tensor, successors: torch.Tensor
) -> torch.Tensor:
    """The same as plain numbers: an operator takes longer than what it does for a few samples."""
    table = successors.tolist()
    rows = []
    for begun, favoured, others in zip(out[:, :2].tolist(), favours.tolist(), other.tolist()):
        row = begun
        for t in range(2, len(others)):
            row.append(table[row[t - 1]][row[t - 2] % SUCCESSORS if favoured[t] else others[t]])
        rows.append(row)
    return torch.tensor(rows, dtype=torch.int64).reshape(out.shape)


def masked(
    n: int, length: int, vocab: int, index: int, split: str, share: float = 0.15
) -> Tuple[torch.Tensor, torch.Tensor]:
    """Sequences to be completed, as BERT's (Devlin et al. 2019): ids and labels, int64 (n, length) each.

    ``share`` of the places of every sample, at least one, have a label, the others NO_LABEL.  Of those with a label
    80 % hold the last token of the vocabulary, which no sequence has, 10 % a random one, and 10 % the token itself.
    """
    ids = sequences(n, length - 1, max(1, vocab - 1), index, split)
    draw = torch.Generator().manual_seed(7919 * index + (104729 if split == "valid" else 0) + 23)
    places = torch.rand(n, length, generator=draw).topk(max(1, round(share * length)), dim=1).indices
    chosen = torch.zeros(n, length, dtype=torch.bool).scatter(1, places, True)
    labels = ids.masked_fill(~chosen, NO_LABEL)
    kind = torch.rand(n, length, generator=draw)
    other = torch.randint(0, max(1, vocab - 1), (n, length), generator=draw)
    shown = torch.where(kind < 0.8, vocab - 1, torch.where(kind < 0.9, other, ids))
    return torch.where(chosen, shown, ids), labels


def labelled(
    n: int, length: int, vocab: int, classes: int, index: int, split: str
) -> Tuple[torch.Tensor, torch.Tensor]:
    """ids, int64 (n, length), of which half are one of a class's SUCCESSORS favourites, and labels, int64 (n,).

    The first token is 0 in every sample: the place where a classifier looks.
    """
    favourites = torch.randint(0, vocab, (classes, SUCCESSORS), generator=torch.Generator().manual_seed(4321))
    draw = torch.Generator().manual_seed(7919 * index + (104729 if split == "valid" else 0) + 29)
    labels = torch.randint(0, classes, (n,), generator=draw)
    which = torch.randint(0, SUCCESSORS, (n, length), generator=draw)
    other = torch.randint(0, vocab, (n, length), generator=draw)
    ids = torch.where(torch.rand(n, length, generator=draw) < 0.5, favourites[labels].gather(1, which), other)
    ids[:, 0] = 0
    return ids, labels


def unigram_entropy(tokens: torch.Tensor, vocab: int) -> float:
    """Entropy of the token frequencies in nat: the loss of a model that knows nothing but those."""
    counts = torch.bincount(tokens.flatten(), minlength=vocab).double()
    share = counts[counts > 0] / counts.sum()
    return -float((share * share.log()).sum())


def floor(vocab: int) -> float:
    """Entropy of the source itself in nat: no model does better in the long run."""
    rest = (1 - FAVOUR) / SUCCESSORS
    favoured = FAVOUR + rest
    return -(favoured * math.log(favoured) + (SUCCESSORS - 1) * rest * math.log(rest)) if vocab else 0.0
