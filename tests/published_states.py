"""Published figures of model states, ours beside them, and the bytes that lie between: see docs/model-states.md.

Ours come from ``tui.budget.sharding``, ``declared`` and the allocator's model alone; a gap is arithmetic over what the
source says that it counts.  The figures are facts of the named sources.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_FLOOR, ROUND_HALF_UP, Decimal

from sample_project import CUDA_INVENTORY, CUDA_SPEC

from tui.budget.declared import Declared, declared, situation
from tui.budget.sharding import STATES, Groups, Options, Sheet, States, sheet
from tui.budget.sharding_estimates import older_zero2, older_zero3
from tui.probe.allocator import CachingAllocator
from tui.project.model import OptimizerSpec, PlacementSpec, PrecisionSpec

ZERO = "ZeRO, Rajbhandari et al. 2020 (arXiv:1910.02054)"
DEEPSPEED = "DeepSpeed documentation, Memory Requirements"
ANATOMY = "Transformers documentation, Model training anatomy"
ACCELERATE = "Accelerate documentation, Model memory estimator"
UNITS = {"GB": 10**9, "GiB": 2**30, "MiB": 2**20, "B a parameter": 10**9}
"""By the unit that a figure really is in; per-parameter figures are those of 10^9 parameters."""
BILLION = 10**9


@dataclass(frozen=True, slots=True)
class Row:
    """One published figure."""

    source: str
    case: str
    theirs: str
    unit: str
    """A key of ``UNITS``: several sources write GB and MB for binary units."""
    ours: int | None
    """Bytes; None: the product does not claim to know it."""
    gaps: tuple[tuple[int, str], ...] = ()
    """Bytes by which theirs is more than ours, each with its reason."""
    cut: bool = False
    """Published digits are cut off, not rounded."""
    estimate: int | None = None
    """What the product names beside its own figure as the source's."""
    unknown: str = ""

    def shown(self, size: int) -> str:
        """``size`` in the digits of the published figure."""
        step = Decimal(1).scaleb(-len(self.theirs.partition(".")[2]))
        found = (Decimal(size) / UNITS[self.unit]).quantize(step, ROUND_FLOOR if self.cut else ROUND_HALF_UP)
        return str(found)

    @property
    def explained(self) -> int:
        """Ours and all that lies between."""
        return (self.ours or 0) + sum(size for size, _ in self.gaps)


def mixed(count: int, strategy: str, ranks: int, options: Options | None = None, largest: int = 0) -> Sheet:
    """Mixed-precision Adam: half weights and gradients, fp32 copies and two fp32 moments.

    Args:
        count: parameters.
        strategy: see ``sharding.DIVIDED``.
        ranks: over which it divides.
        options: see ``sharding.Options``.
        largest: parameters of the layer that is gathered.
    """
    groups = Groups((2 * largest,), ahead=0) if largest else None
    return sheet(States(2 * count, 2 * count, 8 * count, 4 * count), strategy, ranks, options, groups)


STAGES = ("zero1", "zero2", "zero3")
TABLE: dict[tuple[str, int], dict[int, tuple[str, str, str]]] = {
    ("7.5B", 7_500_000_000): {
        1: ("120", "120", "120"),
        4: ("52.5", "41.3", "30"),
        16: ("35.6", "21.6", "7.5"),
        64: ("31.4", "16.6", "1.88"),
        256: ("30.4", "15.4", "0.47"),
        1024: ("30.1", "15.1", "0.12"),
    },
    ("128B", 128 * BILLION): {
        1: ("2048", "2048", "2048"),
        4: ("896", "704", "512"),
        16: ("608", "368", "128"),
        64: ("536", "284", "32"),
        256: ("518", "263", "8"),
        1024: ("513", "257", "2"),
    },
    ("1T", 1000 * BILLION): {
        1: ("16000", "16000", "16000"),
        4: ("7000", "5500", "4000"),
        16: ("4750", "2875", "1000"),
        64: ("4187", "2218", "250"),
        256: ("4046", "2054", "62.5"),
        1024: ("4011", "2013", "15.6"),
    },
}


def zero_figure() -> Iterator[Row]:
    """Figure 1 and the example of section 3.1."""
    for strategy, name, said in zip(
        ("ddp", *STAGES), ("no", "stage 1", "stage 2", "stage 3"), ("120", "31.4", "16.6", "1.9"), strict=True
    ):
        ours = mixed(7_500_000_000, strategy, 64).states_bytes
        yield Row(ZERO, f"7.5B, 64 ranks, K = 12, {name} partitioning", said, "GB", ours)
    gpt2 = mixed(1_500_000_000, "none", 1)
    yield Row(ZERO, "GPT-2 of 1.5B, half weights alone", "3", "GB", gpt2.share("weights").bytes)
    yield Row(ZERO, "GPT-2 of 1.5B, all model states", "24", "GB", gpt2.states_bytes)


def zero_table() -> Iterator[Row]:
    """Table 1: three sizes, six degrees of data parallelism, three stages."""
    for (name, count), degrees in TABLE.items():
        for ranks, cells in degrees.items():
            for strategy, said in zip(STAGES, cells, strict=True):
                ours = mixed(count, strategy, ranks).states_bytes
                yield Row(
                    ZERO,
                    f"{name}, {ranks} rank{'s' if ranks > 1 else ''}, {strategy}",
                    said,
                    "GB",
                    ours,
                    cut=name != "7.5B",
                )


T5_3B = (2_851_598_336, 32_128 * 1024)
COLD = (2_851_000_000, 32_000_000)
"""The same with what was said by hand."""
T5_LARGE = (737_668_096, 32_128 * 1024)
BUFFER = "buffer factor of 1.5 on all of it"
FLOAT_GRADIENTS = "gradients counted in fp32"


def deepspeed_zero2(name: str, model: tuple[int, int], host: str, device: tuple[str, str]) -> Iterator[Row]:
    """The two lines of the stage 2 estimator at 8 ranks on one node."""
    count, _ = model
    away = Options(host=("gradients", "optimizer_state"))
    offloaded, whole = mixed(count, "zero2", 8, away), mixed(count, "zero2", 8)
    case = f"{name}, ZeRO-2, 8 ranks"
    yield Row(
        DEEPSPEED,
        f"{case}, optimizer on the host: device",
        device[0],
        "GiB",
        offloaded.states_bytes,
        estimate=older_zero2(count, 8, offload_optimizer=True).bytes,
    )
    gaps = (
        (2 * count - 2 * count // 8, "half gradients whole on every rank, the paper divides them"),
        (4 * count // 8, "gradients a second time, in fp32, divided"),
    )
    yield Row(
        DEEPSPEED,
        f"{case}, nothing on the host: device",
        device[1],
        "GiB",
        whole.states_bytes,
        gaps,
        estimate=older_zero2(count, 8).bytes,
    )
    yield from _at_start(f"{case}, optimizer on the host: host", host, count, offloaded)
    yield from _at_start(f"{case}, nothing on the host: host", host, count, whole)


def on_host(found: Sheet) -> int:
    """Bytes in main memory of all ranks together."""
    return found.ranks * sum(one.host_bytes for one in found.shares)


def _at_start(case: str, said: str, count: int, found: Sheet) -> Iterator[Row]:
    """Host figures that are the larger of the build and the state, and the build is it at 8 ranks."""
    ours = on_host(found)
    larger = 4 * 8 * count - ours
    gaps = (
        (larger, "the larger of build and state: 8 processes each build the model in fp32"),
        (2 * 8 * count, BUFFER),
    )
    yield Row(DEEPSPEED, case, said, "GiB", ours, gaps)


def deepspeed_zero3(
    name: str, model: tuple[int, int], host: tuple[str, str, str, str], device: tuple[str, str, str]
) -> Iterator[Row]:
    """The six lines of the stage 3 estimator at 8 ranks on one node; ``host`` ends with that of zero_init=0."""
    count, largest = model
    everything, optimizer, nothing = (
        mixed(count, "zero3", 8, Options(host=rests), largest)
        for rests in (("weights", "gradients", "optimizer_state"), ("gradients", "optimizer_state"), ())
    )
    layer = (2 * largest, "half gradients of the largest layer beside its weights")
    wide = (2 * count // 8, FLOAT_GRADIENTS)
    for label, found, said, gaps, flags in (
        ("all on the host", everything, device[0], (), (True, True)),
        ("optimizer on the host", optimizer, device[1], (), (True, False)),
        ("nothing on the host", nothing, device[2], (wide, layer), (False, False)),
    ):
        ours = (found.states_bytes or 0) + (found.share("unsharded_weights").bytes or 0)
        estimate = older_zero3(count, 8, largest, offload_optimizer=flags[0], offload_params=flags[1]).bytes
        yield Row(
            DEEPSPEED, f"{name}, ZeRO-3, 8 ranks, {label}: device", said, "GiB", ours, gaps, estimate=estimate
        )
    for label, found, said, each in (
        ("all on the host", everything, host[0], 18),
        ("optimizer on the host", optimizer, host[1], 16),
    ):
        gaps = ((2 * count, FLOAT_GRADIENTS), (each * count // 2, BUFFER))
        yield Row(DEEPSPEED, f"{name}, ZeRO-3, {label}, zero_init=1: host", said, "GiB", on_host(found), gaps)
    build = (4 * 8 * largest, "8 processes each build the largest layer in fp32")
    gaps = (build, (2 * 8 * largest, BUFFER))
    yield Row(
        DEEPSPEED,
        f"{name}, ZeRO-3, nothing on the host, zero_init=1: host",
        host[2],
        "GiB",
        on_host(nothing),
        gaps,
    )
    for label, found in (
        ("all on the host", everything),
        ("optimizer on the host", optimizer),
        ("nothing on the host", nothing),
    ):
        yield from _at_start(f"{name}, ZeRO-3, {label}, zero_init=0: host", host[3], count, found)


def deepspeed() -> Iterator[Row]:
    """The documented runs and the worked example of t5-large."""
    yield from deepspeed_zero2("t5-3b", T5_3B, "127.48", ("5.31", "15.93"))
    yield from deepspeed_zero2("2851e6 by hand", COLD, "127.45", ("5.31", "15.93"))
    yield from deepspeed_zero3("t5-3b", T5_3B, ("71.71", "63.74", "1.47", "127.48"), ("0.12", "0.79", "6.10"))
    yield from deepspeed_zero3(
        "2851e6 by hand", COLD, ("71.69", "63.72", "1.43", "127.45"), ("0.12", "0.78", "6.09")
    )
    count, largest = T5_LARGE
    layer = (2 * largest, "half gradients of the largest layer beside its weights")
    for label, rests, said, gaps in (
        ("nothing on the host", (), "3291", ((2 * count // 4, FLOAT_GRADIENTS), layer)),
        ("all on the host", ("weights", "gradients", "optimizer_state"), "125", ()),
        ("optimizer on the host", ("gradients", "optimizer_state"), "477", ()),
    ):
        found = mixed(count, "zero3", 4, Options(host=rests), largest)
        ours = (found.states_bytes or 0) + (found.share("unsharded_weights").bytes or 0)
        yield Row(DEEPSPEED, f"t5-large, ZeRO-3, 4 ranks, {label}: device", said, "MiB", ours, gaps, cut=True)
    half = mixed(11 * BILLION, "zero2", 8).share("weights").bytes
    yield Row(DEEPSPEED, "half weights of 11B", "22", "GB", half)


def spec_rows(
    count: int, precision: str, optimizer: OptimizerSpec | None = None, *, master: bool = False
) -> dict[str, Declared]:
    """The ledger's declared column on one GPU for ``count`` fp32 parameters."""
    workload = replace(CUDA_SPEC.workload, optimizer=optimizer or OptimizerSpec())
    spec = replace(
        CUDA_SPEC,
        workload=workload,
        precision=PrecisionSpec(use=precision),
        placement=PlacementSpec(master_weights=master),
    )
    inventory = replace(
        CUDA_INVENTORY,
        unique_parameters=count,
        trainable_parameters=count,
        parameter_bytes=4 * count,
        dtypes={"float32": count},
    )
    return declared(spec, inventory, situation(spec, "cuda"))


def total(rows: dict[str, Declared], *keys: str) -> int:
    """Sum of the rows ``keys``.

    Raises:
        TypeError: one is not known.
    """
    return sum(rows[key].bytes for key in keys)  # type: ignore[misc]


def anatomy() -> Iterator[Row]:
    """Bytes a parameter, and the measured weights of BERT large."""
    unit = "B a parameter"
    fp32, autocast = spec_rows(BILLION, "fp32"), spec_rows(BILLION, "bf16-autocast")
    master = spec_rows(BILLION, "bf16", master=True)
    sgd = spec_rows(BILLION, "fp32", OptimizerSpec("torch.optim.SGD", args={"momentum": 0.9}))
    eight = spec_rows(BILLION, "fp32", OptimizerSpec("bitsandbytes.optim.AdamW8bit"))
    copies = (2 * BILLION, "half copies of autocast, which live for one iteration: a row of temporaries")
    yield Row(ANATOMY, "weights, fp32", "4", unit, total(fp32, "weights"))
    yield Row(
        ANATOMY,
        "weights, mixed, fp32 copies declared",
        "6",
        unit,
        total(master, "weights", "master_weights"),
    )
    yield Row(
        ANATOMY,
        "weights, mixed, autocast",
        "6",
        unit,
        total(autocast, "weights", "master_weights"),
        (copies,),
    )
    yield Row(ANATOMY, "optimizer state, AdamW", "8", unit, total(fp32, "optimizer_state"))
    why = eight["optimizer_state"].unknown
    yield Row(ANATOMY, "optimizer state, 8-bit AdamW", "2", unit, eight["optimizer_state"].bytes, unknown=why)
    yield Row(ANATOMY, "optimizer state, SGD with momentum", "4", unit, total(sgd, "optimizer_state"))
    yield Row(ANATOMY, "gradients, fp32", "4", unit, total(fp32, "gradients"))
    yield Row(ANATOMY, "gradients, autocast", "4", unit, total(autocast, "gradients"))
    wide = (2 * BILLION, FLOAT_GRADIENTS + ", those of half weights are half")
    yield Row(ANATOMY, "gradients, mixed, half weights", "4", unit, total(master, "gradients"), (wide,))
    yield Row(ANATOMY, "training, mixed AdamW, autocast", "18", unit, total(autocast, *STATES), (copies,))
    yield Row(
        ANATOMY, "training, mixed AdamW, half and fp32 weights", "18", unit, total(master, *STATES), (wide,)
    )
    large = bert(30_522, 1024, 24)
    shapes = [*large, 2 * 1024, 2]
    found, before = CachingAllocator(), CachingAllocator()
    for one in (found, before):
        one.malloc("the tensor that was there before", 4)
    for number, size in enumerate(shapes):
        found.malloc(number, 4 * size)
    weights = total(spec_rows(sum(shapes), "fp32"), "weights")
    rest = found.reserved - before.reserved - weights
    gap = (rest, "theirs is read from the driver: whole segments of the allocator, our model of it")
    yield Row(
        ANATOMY, "BERT large for sequences, on the device (2631 - 1343)", "1288", "MiB", weights, (gap,)
    )


def bert(vocabulary: int, width: int, layers: int) -> list[int]:
    """Elements of each tensor of BERT with its pooler, in the order of its modules (Devlin et al. 2019)."""
    layer = 4 * [width * width, width] + 2 * [width]
    layer += [4 * width * width, 4 * width, 4 * width * width, width] + 2 * [width]
    return [vocabulary * width, 512 * width, 2 * width, width, width, *layers * layer, width * width, width]


def accelerate() -> Iterator[Row]:
    """bert-base-cased and ResNet-50: parameters and buffers, and four times both."""
    cased = sum(bert(28_996, 768, 12))
    yield Row(
        ACCELERATE,
        "bert-base-cased, largest layer, fp32",
        "84.95",
        "MiB",
        total(spec_rows(28_996 * 768, "fp32"), "weights"),
    )
    models = (
        ("bert-base-cased", cased, 8192, ("413.18", "1.61", "GiB", "206.59", "826.36")),
        ("timm ResNet-50", 25_557_032, 4 * 53_120 + 8 * 53, ("97.7", "390.78", "MiB", "48.85", "195.39")),
    )
    for name, count, buffers, (whole, trained, unit, half, trained_half) in models:
        fp32, pure = spec_rows(count, "fp32"), spec_rows(count, "bf16")
        held = (buffers, "buffers, a row of their own with us")
        times = (4 * buffers, "buffers, four times as if they had gradients and state")
        halved = (buffers // 2, "buffers, as if integers were halved too")
        both = (2 * buffers, "buffers, halved, four times")
        yield Row(ACCELERATE, f"{name}, total, fp32", whole, "MiB", total(fp32, "weights"), (held,))
        yield Row(
            ACCELERATE, f"{name}, training with Adam, fp32", trained, unit, total(fp32, *STATES), (times,)
        )
        yield Row(ACCELERATE, f"{name}, total, float16", half, "MiB", total(pure, "weights"), (halved,))
        yield Row(
            ACCELERATE,
            f"{name}, training with Adam, float16",
            trained_half,
            "MiB",
            total(pure, *STATES),
            (both,),
        )
    yield Row(
        ACCELERATE,
        "bert-base-cased, total, fp32, first table of the page",
        "418.18",
        "MiB",
        total(spec_rows(cased, "fp32"), "weights"),
        ((8192, "buffers"), (5 * 2**20, "digits of the page: its second table and its text say 413.18")),
    )
