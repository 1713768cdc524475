"""Ways of storing a tensor by name: their arguments, and what is stored line by line."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tui.budget import stored
from tui.budget.arguments import Argument, Arguments
from tui.budget.worked import Term, Worked, term

SCALES = {"fp32": 4, "fp16": 2, "bf16": 2}


def packed(given: Arguments) -> Worked:
    """Payload and metadata of a linear weight in few bits."""
    inputs, outputs, bits = given.whole("in"), given.whole("out"), given.whole("bits")
    block, double = given.whole("block"), given.whole("double")
    by_row = given.word("along") == "input"
    itemsize = SCALES[given.word("scale")]
    found = stored.packed(
        inputs,
        outputs,
        bits,
        block=block,
        along="input" if by_row else "flat",
        scale_itemsize=itemsize,
        zero_points=given.flag("zero_points"),
        double=double,
    )
    numbers = {"in": inputs, "out": outputs, "bits": bits, "block": block, "double": double}
    numbers |= {"blocks": found.blocks, "itemsize": 1 if double else itemsize}
    terms = [
        term("payload", "up(out x in x bits / 8)", found.payload_bytes, **numbers),
        term("scales", "blocks x itemsize", found.scale_bytes, **numbers),
    ]
    if given.flag("zero_points"):
        terms.append(term("zero points", "up(blocks x bits / 8)", found.zero_point_bytes, **numbers))
    if double:
        terms.append(term("scales of scales", "4 x up(blocks / double) + 4", found.second_bytes, **numbers))
    if not block:
        cut = term("blocks", "out", found.blocks, **numbers)
    elif by_row:
        cut = term("blocks", "out x up(in / block)", found.blocks, **numbers)
    else:
        cut = term("blocks", "up(out x in / block)", found.blocks, **numbers)
    logical = term("logical elements", "out x in", found.logical, **numbers)
    note = "up rounds up; leaves out code tables (64 B for 4 bits) and the bias, which stays as it is"
    return Worked("packed", given.values, "bytes", tuple(terms), (logical, cut), note)


def shard(given: Arguments) -> Worked:
    """What one rank stores of a tensor, and what of it is padding."""
    shape, ranks, rows = given.wholes("shape"), given.whole("ranks"), given.word("by") == "rows"
    found = stored.by_rows(shape, ranks) if rows else stored.flattened(prod(shape), ranks)
    numbers = {"rows": shape[0], "row": found.unit, "elements": found.logical, "ranks": ranks}
    text = "up(rows / ranks) x row" if rows else "up(elements / ranks)"
    names = [f"shape_{place}" for place in range(len(shape))]
    whole = term("logical elements", " x ".join(names), found.logical, **dict(zip(names, shape, strict=True)))
    size = found.slice
    further = [
        whole,
        term("padding over all ranks", "ranks x slice - elements", found.padding, slice=size, **numbers),
        Term("least of its own on a rank", "", "", found.own(ranks - 1)),
        Term("ranks with padding alone", "", "", found.empty_ranks),
    ]
    note = (
        "row-wise, as fully_shard: dimension 0 as torch.chunk cuts it, short slices padded to whole rows"
        if rows
        else "flattened and padded to a multiple of ranks, as FullyShardedDataParallel and ZeRO stage 3"
    )
    return Worked(
        "shard",
        given.values,
        "elements",
        (term("slice of every rank", text, size, **numbers),),
        tuple(further),
        note,
    )


def tied(given: Arguments) -> Worked:
    """Unique and resident elements of an embedding that several pipeline stages hold."""
    entries, width, held_by = given.whole("entries"), given.whole("width"), given.wholes("held_by")
    found = stored.tied_embedding(entries, width, held_by, given.whole("stages"))
    numbers = {"entries": entries, "width": width, "copies": len(held_by)}
    unique = term("unique", "entries x width", found.unique, **numbers)
    resident = term("resident over the stages", "copies x entries x width", found.resident, **numbers)
    note = "both are true: a model's size counts it once, the memory of all ranks as often as it is held"
    return Worked("tied", given.values, "parameters", (unique,), (resident,), note)


KINDS: dict[str, tuple[str, tuple[Argument, ...], Callable[[Arguments], Worked]]] = {
    "packed": (
        "a linear weight in few bits: payload and metadata",
        (
            Argument("in", "whole", required=True),
            Argument("out", "whole", required=True),
            Argument("bits", "whole", 4, "of an element", most=8),
            Argument("block", "whole", 64, "elements that share a scale, 0: a whole row", least=0),
            Argument(
                "along",
                "choice",
                "flat",
                "flat blocks, or groups along each row's input",
                "",
                ("flat", "input"),
            ),
            Argument("scale", "choice", "fp32", "dtype of a scale", choices=tuple(SCALES)),
            Argument("zero_points", "flag", False, "one of bits for every block"),
            Argument("double", "whole", 0, "scales that share a scale, as 256; 0: not quantised", least=0),
        ),
        packed,
    ),
    "shard": (
        "what one rank stores of a tensor",
        (
            Argument("shape", "wholes", meaning="of the tensor, as 4096,11008", required=True, least_items=1),
            Argument("ranks", "whole", required=True),
            Argument("by", "choice", "rows", "along dimension 0, or flattened", choices=("rows", "flat")),
        ),
        shard,
    ),
    "tied": (
        "an embedding that several pipeline stages hold",
        (
            Argument("entries", "whole", required=True),
            Argument("width", "whole", required=True),
            Argument("held_by", "wholes", (0, 1), "stages, from 0", least=0),
            Argument("stages", "whole", 2),
        ),
        tied,
    ),
}
