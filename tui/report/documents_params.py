"""The parameters as a JSON document."""

from __future__ import annotations

from tui.budget.params import Formula
from tui.project.measured import Inventory
from tui.project.modules import Modules
from tui.report.envelope import Document, Source, enveloped
from tui.report.json_values import Missing, known
from tui.report.text_params import (
    causes,
    no_formula,
    params_word,
    shared_elements,
    spec_formula,
    without_gradient,
)

MAYBE = {
    "active_parameters": "active_parameters_count",
    "gradient_receiving": "gradient_receiving_count",
    "stored_elements": "stored_elements_count",
    "storage_bytes": "storage_bytes",
    "trainable_tensors": "trainable_tensors_count",
    "persistent_buffer_elements": "persistent_buffer_elements_count",
    "persistent_buffer_bytes": "persistent_buffer_bytes",
    "rank_parameters": "rank_parameters_count",
    "rank_bytes": "rank_bytes",
    "rank_padding": "rank_padding_count",
    "rank_gathered_bytes": "rank_gathered_bytes",
    "rank_group_bytes": "rank_group_bytes",
    "packed_parameters": "packed_parameters_count",
    "packed_payload_bytes": "packed_payload_bytes",
    "packed_metadata_bytes": "packed_metadata_bytes",
}
"""Fields of an inventory that may be unknown, with their keys."""


def params_document(
    source: Source,
    *,
    formula: Formula | None = None,
    tree: Modules | None = None,
    listed: bool = True,
    no_tree: str = "",
) -> Document:
    """Formula against unique inventory.

    Args:
        source: the project.
        formula: of the spec as it is now; None: what can be told from the spec alone.
        tree: of the last count.
        listed: put it in as ``modules`` and ``parameters``.
        no_tree: why there is none; "": nobody asked for it.
    """
    inventory, declared = source.measured.inventory, formula or spec_formula(source.spec)
    body: Document = {
        "verdict": {"word": params_word(inventory).lower()},
        "formula": _formula(
            declared, "no formula is asked for" if inventory is None else no_formula(inventory)
        ),
    }
    if inventory is None:
        body["inventory"] = Missing("the parameters were not counted yet")
        body["difference_count"] = Missing("the parameters were not counted yet")
        return enveloped("params", source, None, body)
    difference = None
    if inventory.formula_parameters is not None:
        difference = inventory.unique_parameters - inventory.formula_parameters
    body["inventory"] = _inventory(inventory, tree)
    body["difference_count"] = known(difference, no_formula(inventory))
    body["difference_causes"] = [{"name": word, "text": text} for word, text in causes(inventory.difference)]
    body |= _tree(tree) if tree is not None and listed else {}
    if tree is None and listed and no_tree:
        body |= {"modules": Missing(no_tree), "parameters": Missing(no_tree)}
    return enveloped("params", source, None, body)


def _formula(declared: Formula | None, why: str) -> Document:
    if declared is None:
        names = ("parameters_count", "active_parameters_count", "embedding_count", "non_embedding_count")
        return {
            "family": Missing(why),
            **{name: Missing("no formula") for name in names},
            "parts": {},
            "text": "",
        }
    return {
        "family": declared.family,
        "parameters_count": declared.total,
        "active_parameters_count": declared.total if declared.active is None else declared.active,
        "embedding_count": declared.embedding,
        "non_embedding_count": declared.total - declared.embedding,
        "parts": dict(declared.parts),
        "text": declared.text,
    }


def _inventory(inventory: Inventory, tree: Modules | None) -> Document:
    old = "not recorded by the version that counted"
    reasons = {"gradient_receiving": "no backward was run yet"}
    maybe = {
        key: known(getattr(inventory, name), inventory.unknown.get(name) or reasons.get(name, old))
        for name, key in MAYBE.items()
    }
    return {
        "spec": inventory.spec,
        "device": inventory.device,
        "state": inventory.state,
        "unique_parameters_count": inventory.unique_parameters,
        "trainable_parameters_count": inventory.trainable_parameters,
        "tensors_count": inventory.tensors,
        "parameter_bytes": inventory.parameter_bytes,
        "buffer_elements_count": inventory.buffer_elements,
        "buffer_bytes": inventory.buffer_bytes,
        "state_entries_count": inventory.state_entries,
        "state_entry_elements_count": inventory.state_entry_elements,
        "ranks_count": inventory.ranks,
        "modules_count": inventory.modules,
        **maybe,
        "dtypes": dict(inventory.dtypes),
        "parts": dict(inventory.groups),
        "shared": list(inventory.shared),
        "shared_elements_count": _shared_count(inventory, tree),
        "without_gradient": _without_gradient(inventory, tree),
        "notes": dict(inventory.unknown),
    }


def _shared_count(inventory: Inventory, tree: Modules | None) -> int | Missing:
    """Elements of the tensors that go by several names, each once."""
    if not inventory.shared:
        return 0
    return Missing("the module tree is not at hand") if tree is None else sum(shared_elements(tree).values())


def _without_gradient(inventory: Inventory, tree: Modules | None) -> list[str] | Missing:
    """Names; none only where a backward was seen."""
    if tree is None:
        return Missing("the module tree is not at hand")
    if all(one.received is None for one in tree.parameters):
        return Missing(inventory.unknown.get("gradient_receiving") or "no backward was run yet")
    return without_gradient(tree)


def _tree(tree: Modules) -> Document:
    return {  # what no forward or backward told is left out of a row, not null in thousands of them
        "modules": [
            {
                "name": row.path or "(model)",
                "class": row.cls,
                "elements_count": row.elements,
                "own_elements_count": row.own,
                "trainable_count": row.trainable,
                "bytes": row.bytes,
                "tensors_count": row.tensors,
                "buffer_elements_count": row.buffers,
                **({} if row.calls is None else {"calls_count": row.calls}),
            }
            for row in tree.modules
        ],
        "parameters": [
            {
                "name": one.name,
                "shape": list(one.shape),
                "dtype": one.dtype,
                "elements_count": one.elements,
                "bytes": one.bytes,
                "trainable": one.trainable,
                **({} if one.received is None else {"received_gradient": one.received}),
                "also": list(one.also),
            }
            for one in tree.parameters
        ],
    }
