"""Saving and loading everything that a run needs to go on as if it had never stopped.

One file by ``torch.save``: model, optimizer, scaler, scheduler, random number generators, data position and a
manifest; its SHA-256 stands in a file beside it and is checked before anything is loaded, because a flipped byte
of a tensor loads without a word.  Loading is ``weights_only=True``, never relaxed.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import sys
from typing import TYPE_CHECKING, Any, Dict, Iterable, List, Set, Tuple

import torch

from . import packed
from .faults import TaskError

if TYPE_CHECKING:
    from .session import Session

FORMAT = "peakmark-checkpoint-1"


def save(session: Session, path: str) -> Tuple[Dict[str, int], int, str]:
    """Write the session's state; returns (bytes by part, total bytes, sha256)."""
    parts: Dict[str, Any] = {"model": entries(session.model), "optimizer": session.optimizer.state_dict()}
    four_bit = low_bit(session.model)
    if four_bit:
        parts["low_bit"] = four_bit
    if session.setting.scaler is not None:
        parts["scaler"] = session.setting.scaler.state_dict()
    if session.scheduler is not None:
        parts["scheduler"] = session.scheduler.state_dict()
    parts["rng"] = _rng()
    parts["manifest"] = {
        "format": FORMAT,
        "torch": torch.__version__.split("+")[0],
        "precision": session.setting.name,
        "next_batch": session.index,
        "parameters": sum(one.numel() for one in session.model.parameters()),
    }
    os.makedirs(os.path.dirname(path), exist_ok=True)
    partial = path + ".partial"
    with open(partial, "wb") as handle:
        torch.save(parts, handle)
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(partial, path)
    digest = sha256(path)
    with open(path + ".sha256", "w", encoding="ascii") as handle:
        handle.write(digest + "\n")
    sizes = {
        name: tensor_bytes(part) for name, part in parts.items() if name in ("model", "optimizer", "rng")
    }
    sizes["model"] += tensor_bytes(four_bit)
    return sizes, os.path.getsize(path), digest


def entries(model: torch.nn.Module) -> Dict[str, Any]:
    """The state dictionary of ``model`` without 4-bit weights, which ``low_bit`` has.

    Their modules do not take back the entries that they give (bitsandbytes).
    """
    apart = set(low_bit(model))
    state = model.state_dict()
    return {key: one for key, one in state.items() if not _is_of(key, apart)} if apart else state


def low_bit(model: torch.nn.Module) -> Dict[str, List[torch.Tensor]]:
    """{name of a 4-bit parameter: the tensors that it and its scales are stored in}, those of the model themselves."""
    found = {}
    for name, one in model.named_parameters(remove_duplicate=False):
        form = packed.four_bit(one)
        if form is not None:
            found[name] = [*form.payload, *form.metadata]
    return found


def _is_of(key: str, names: Set[str]) -> bool:
    """Whether ``key`` is one of ``names`` or an entry below it, as ``weight.absmax`` is below ``weight``."""
    parts = key.split(".")
    return any(".".join(parts[:count]) in names for count in range(1, len(parts) + 1))


def load(session: Session, path: str) -> None:
    """Put the saved state into a freshly built session.

    Raises:
        TaskError: kind ``checkpoint``: missing, damaged, not ours, or of another model.
    """
    shown = os.path.basename(path)
    try:
        with open(path + ".sha256", encoding="ascii") as handle:
            wanted = handle.read().strip()
        found = sha256(path)
    except OSError as error:
        raise TaskError("checkpoint", "cannot be read: %s" % error.strerror, where=shown) from error
    if found != wanted:
        raise TaskError(
            "checkpoint",
            "sha256 is %s…, the one written beside it says %s…: damaged or replaced"
            % (found[:4], wanted[:4]),
            where=shown,
            hint="restore from an earlier one, this was not loaded",
        )
    try:
        parts = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise TaskError(
            "checkpoint",
            "cannot be loaded with weights_only=True: %s" % _first_line(error),
            where=shown,
            hint="this was not loaded",
        ) from error
    manifest = parts.get("manifest", {}) if isinstance(parts, dict) else {}
    if manifest.get("format") != FORMAT:
        raise TaskError("checkpoint", "is not a checkpoint written by peakmark", where=shown)
    _apply(session, parts, shown)


def _apply(session: Session, parts: Dict[str, Any], shown: str) -> None:
    try:
        _refuse_another(session, parts)  # torch copies what fits before it complains about the rest
        four_bit = low_bit(session.model)
        session.model.load_state_dict(parts["model"], strict=not four_bit)  # they were compared just now
        for name, tensors in four_bit.items():
            for mine, theirs in zip(tensors, parts["low_bit"][name]):
                mine.detach().copy_(theirs)
        session.optimizer.load_state_dict(parts["optimizer"])
        if session.setting.scaler is not None:
            session.setting.scaler.load_state_dict(parts["scaler"])
        if session.scheduler is not None:
            session.scheduler.load_state_dict(parts["scheduler"])
    except (KeyError, RuntimeError, ValueError) as error:
        raise TaskError(
            "checkpoint", "is of another model, optimizer or precision: %s" % _first_line(error), where=shown
        ) from error
    session.index = parts["manifest"]["next_batch"]
    _restore_rng(parts["rng"])


def _refuse_another(session: Session, parts: Dict[str, Any]) -> None:
    """Raise a ValueError or KeyError when anything in ``parts`` does not fit the session."""
    mine = _by_name(entries(session.model), low_bit(session.model))
    theirs = _by_name(parts["model"], parts.get("low_bit", {}))
    apart = sorted(set(mine) ^ set(theirs))
    if apart:
        raise ValueError("%s is in only one of them" % apart[0])
    for name, one in mine.items():
        if isinstance(one, torch.Tensor) and one.shape != theirs[name].shape:
            raise ValueError("%s is %s there, %s here" % (name, tuple(theirs[name].shape), tuple(one.shape)))
    groups = [
        [len(group["params"]) for group in state["param_groups"]]
        for state in (session.optimizer.state_dict(), parts["optimizer"])
        if "param_groups" in state
    ]
    if len(groups) == 2 and groups[0] != groups[1]:
        raise ValueError("the optimizer has %s parameters there, %s here" % (groups[1], groups[0]))
    for name, wanted in (("scaler", session.setting.scaler), ("scheduler", session.scheduler)):
        if (name in parts) != (wanted is not None):
            raise ValueError("only one of them has a %s" % name)


def _by_name(state: Dict[str, Any], four_bit: Dict[str, List[torch.Tensor]]) -> Dict[str, Any]:
    """Every entry by its name, those of a 4-bit weight by their places."""
    places = {"%s[%d]" % (name, at): one for name, many in four_bit.items() for at, one in enumerate(many)}
    return {**state, **places}


def _rng() -> Dict[str, Any]:
    state = {"torch": torch.get_rng_state(), "python": random.getstate()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        name, keys, place, has_gauss, gauss = numpy.random.get_state()
        state["numpy"] = {
            "alg": name,
            "keys": torch.from_numpy(keys.astype("int64")),
            "pos": place,
            "has_gauss": has_gauss,
            "gauss": gauss,
        }
    return state


def _restore_rng(state: Dict[str, Any]) -> None:
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        saved = state["numpy"]
        numpy.random.set_state(
            (
                saved["alg"],
                saved["keys"].numpy().astype("uint32"),
                saved["pos"],
                saved["has_gauss"],
                saved["gauss"],
            )
        )


def sha256(path: str) -> str:
    """Hex digest of a file, read in pieces."""
    digest = hashlib.sha256()
    with open(path, "rb") as handle:
        for piece in iter(lambda: handle.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def tensor_bytes(value: Any) -> int:
    """Bytes of the tensors in a nested structure."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        return sum(tensor_bytes(one) for one in value.values())
    if isinstance(value, (list, tuple)):
        return sum(tensor_bytes(one) for one in value)
    return 0


def tensor_digest(tensors: Iterable[torch.Tensor]) -> str:
    """SHA-256 over the bytes of tensors, in order: equal only when every bit is."""
    digest = hashlib.sha256()
    for tensor in tensors:
        for _, one in packed.inner_tensors(tensor.detach()):  # a wrapper has no bytes of its own to read
            flat = one.detach().to("cpu").contiguous()
            # string_at, because a storage's own iteration makes a Python integer of every byte
            digest.update(ctypes.string_at(flat.data_ptr(), flat.numel() * flat.element_size()))
    return digest.hexdigest()


def parameter_digest(session: Session) -> str:
    """Digest of every parameter and buffer of the session's model."""
    return tensor_digest([*session.model.parameters(), *session.model.buffers()])


def _first_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
