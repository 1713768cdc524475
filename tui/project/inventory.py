"""What one count of the model's parameters found, as ``measured.inventory`` keeps it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Inventory:
    """The model's parameters as the framework's own objects, each counted once."""

    spec: str
    """Fingerprint of the spec it was taken from, ``sha256:`` and 8 or more hex digits."""
    unique_parameters: int
    """Elements of unique parameters, shared ones once."""
    tensors: int
    parameter_bytes: int
    trainable_parameters: int
    buffer_elements: int
    buffer_bytes: int
    state_entries: int
    state_entry_elements: int
    dtypes: dict[str, int] = field(default_factory=dict[str, int])
    """Elements by dtype name, such as {"float32": 1024}."""
    groups: dict[str, int] = field(default_factory=dict[str, int])
    """Unique elements by top-level part, in the model's order: {"wte": .., "blocks x 12": .., "head": 0}."""
    shared: tuple[str, ...] = ()
    """``"lm_head.weight = wte.weight"``: names of one tensor."""
    formula: str | None = None
    formula_parameters: int | None = None
    formula_parts: dict[str, int] = field(default_factory=dict[str, int])
    formula_text: str = ""
    """The arithmetic, as ``12 x 7,087,872 + 38,597,376``."""
    gradient_receiving: int | None = None
    """Elements that received a gradient in a real backward (from Verify or a probe)."""
    device: str = "meta"
    """Where the model was built for counting: meta, or cpu when it cannot be built on meta."""
    modules: int = 0
    trainable_tensors: int | None = None
    """Unique tensors that require a gradient; None: not counted."""
    state: str = "complete"
    """complete | partitioned (each rank holds a slice) | packed (low-bit)."""
    stored_elements: int | None = None
    """Elements as they are stored: fewer than unique_parameters where they are packed or partitioned."""
    storage_bytes: int | None = None
    """Bytes of the unique storages behind the parameters."""
    persistent_buffer_elements: int | None = None
    """Of buffer_elements: those that a checkpoint holds."""
    persistent_buffer_bytes: int | None = None
    active_parameters: int | None = None
    """Elements that work on one token: all of them without experts."""
    expert_parameters: int | None = None
    """Elements of all routed experts together; 0: there are none."""
    ranks: int = 1
    rank_parameters: int | None = None
    """Elements that the fullest rank holds under the placement."""
    rank_bytes: int | None = None
    rank_padding: int | None = None
    """Elements that all ranks together hold beyond the model's, because rows do not divide evenly."""
    rank_gathered_bytes: int | None = None
    """Most bytes of whole weights at once where a strategy gathers them: neighbouring groups and the root's."""
    rank_group_bytes: int | None = None
    """Of the largest group that is gathered together."""
    packed_parameters: int | None = None
    """Logical elements that are stored in low-bit form; 0: none."""
    packed_payload_bytes: int | None = None
    packed_metadata_bytes: int | None = None
    """Scales, zero points, code books."""
    shapes: dict[str, int] = field(default_factory=dict[str, int])
    """Tensors by shape and dtype, such as {"768x3072 float32": 12, "10 float32 frozen": 1}; packed ones apart."""
    unpacked: dict[str, int] = field(default_factory=dict[str, int])
    """Of a model with packed weights: elements that are not packed, such as {"LayerNorm.weight": 768}."""
    difference: str = ""
    """What explains the difference to the formula, as far as the tree allows."""
    model: str = ""
    """Fingerprint of what the count depends on, see ``fingerprint.model_hash``; "": only ``spec`` says it."""
    journal: str = ""
    """``runs/<id>.jsonl`` of the count; the module tree is beside it as ``runs/<id>.modules.json``."""
    unknown: dict[str, str] = field(default_factory=dict[str, str])
