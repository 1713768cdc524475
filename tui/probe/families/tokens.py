"""A token stream with something to learn, made from a fixed seed.

A second-order source: the next token depends on the current one through ``SUCCESSORS`` likely successors, and on
the one before through which of them is favoured.  Its unigram entropy is close to log(vocab); a model that has
learned the transitions is far below it, so a falling loss means that something was learned.
"""

from __future__ import annotations

import math

import torch

SUCCESSORS = 4
FAVOUR = 0.7
"""Probability of the favoured successor; the others share the rest."""


def transitions(vocab: int, seed: int = 1234) -> torch.Tensor:
    """Likely successors of every token: int64 of shape (vocab, SUCCESSORS)."""
    draw = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randperm(vocab, generator=draw)[:SUCCESSORS] for _ in range(vocab)])


def sequences(n: int, length: int, vocab: int, index: int, split: str) -> torch.Tensor:
    """``n`` sequences of ``length`` + 1 tokens, int64; a pure function of its arguments."""
    successors = transitions(vocab)
    draw = torch.Generator().manual_seed(7919 * index + (104729 if split == "valid" else 0) + 17)
    out = torch.empty(n, length + 1, dtype=torch.int64)
    out[:, :2] = torch.randint(0, vocab, (n, 2), generator=draw)
    chance = torch.rand(n, length + 1, generator=draw)
    other = torch.randint(0, SUCCESSORS, (n, length + 1), generator=draw)
    for t in range(2, length + 1):
        favoured = out[:, t - 2] % SUCCESSORS
        which = torch.where(chance[:, t] < FAVOUR, favoured, other[:, t])
        out[:, t] = successors[out[:, t - 1], which]
    return out


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
