"""Samples, tokens and steps that a batch means, its remainder and its scheduler."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tui.budget.semantics import Dealt, Lengths, deal, epoch, of
from tui.project.model import BatchSpec, LengthSpec, PlacementSpec, SchedulerSpec, Spec, WorkloadSpec
from tui.report.batch_text import batch_semantics

BATCH = BatchSpec(micro=8, accumulate=4)


def spec(ranks=1, scheduler=None, **batch):
    work = WorkloadSpec("decoder", batch=replace(BATCH, **batch), scheduler=scheduler)
    return Spec(work, placement=PlacementSpec(ranks=ranks))


def test_a_step_has_the_samples_of_all_ranks_and_their_tokens():
    found = of(spec(ranks=3, length=LengthSpec(1024, 128, 900)))
    assert found.samples == 96
    assert found.length == Lengths(128, 900, 1024)
    assert found.tokens == Lengths(12_288, 86_400, 98_304)


def test_what_is_not_said_is_none():
    found = of(spec(length=LengthSpec(1024)))
    assert found.tokens == Lengths(None, None, 32_768)
    assert (found.epoch, found.scheduler_steps) == (None, None)
    assert of(spec()).tokens is None
    assert of(spec(length=LengthSpec(224), length_of="pixels a side")).tokens is None


def test_dropped_samples_are_never_seen():
    found = epoch(BATCH, 84)
    assert (found.steps, found.left, found.dropped, found.padded, found.last) == (2, 20, 20, 0, ())
    assert found.largest_micro == 8


def test_padding_fills_the_last_step():
    found = epoch(replace(BATCH, remainder="pad"), 84)
    assert (found.steps, found.dropped, found.padded, found.last) == (3, 0, 12, ())


def test_a_kept_remainder_is_a_smaller_last_step_and_the_peak_is_that_of_the_others():
    found = epoch(replace(BATCH, remainder="keep"), 84)
    assert (found.steps, found.dropped, found.padded) == (3, 0, 0)
    assert found.last == (Dealt(1, (8, 8, 4)),)
    assert found.largest_micro == 8


def test_a_data_set_smaller_than_a_micro_batch_peaks_at_its_own_size():
    assert epoch(replace(BATCH, remainder="keep"), 5).largest_micro == 5
    assert epoch(replace(BATCH, remainder="pad"), 5).largest_micro == 8
    assert epoch(BATCH, 5).largest_micro == 0


def test_a_whole_number_of_steps_leaves_nothing_whatever_the_policy():
    for remainder in ("drop", "pad", "keep"):
        found = epoch(replace(BATCH, remainder=remainder), 96)
        assert (found.steps, found.left, found.dropped, found.padded, found.last) == (3, 0, 0, 0, ())


def test_ranks_share_the_last_step_and_some_may_have_no_sample():
    found = epoch(replace(BATCH, remainder="keep"), 66, ranks=2)
    assert found.last == (Dealt(2, (1,)),)
    found = epoch(replace(BATCH, remainder="keep"), 65, ranks=2)
    assert found.last == (Dealt(1, (1,)), Dealt(1, ()))
    assert found.empty_ranks == 1
    assert deal(21, 8, 2) == (Dealt(1, (8, 3)), Dealt(1, (8, 2)))


def test_a_scheduler_steps_with_every_optimizer_step_of_the_epoch():
    found = of(spec(scheduler=SchedulerSpec("a:B", steps=3), dataset=84))
    assert found.scheduler_steps == 3
    assert found.epoch is not None
    assert found.epoch.scheduler_steps == 6


sizes = st.integers(1, 9)


@given(sizes, sizes, sizes, st.integers(1, 2000), st.sampled_from(["drop", "pad", "keep"]))
def test_no_sample_is_lost_or_made_unless_it_says_so(micro, accumulate, ranks, dataset, remainder):
    batch = BatchSpec(micro=micro, accumulate=accumulate, remainder=remainder)
    found = epoch(batch, dataset, ranks)
    step = micro * accumulate * ranks
    smaller = sum(one.ranks * one.samples for one in found.last)
    whole = found.steps - bool(found.last)
    assert whole * step + smaller == dataset - found.dropped + found.padded
    for one in found.last:
        assert len(one.micro_batches) <= accumulate
        assert all(0 < size <= micro for size in one.micro_batches)
    assert sum(one.ranks for one in found.last) in (0, ranks)
    assert not (found.dropped and found.padded)


# --- as sentences -------------------------------------------------------------------------------


def test_the_batch_is_told_in_full_with_tokens_epoch_and_weights():
    told = batch_semantics(
        spec(
            ranks=2,
            scheduler=SchedulerSpec("torch.optim.lr_scheduler.StepLR", {}, 2),
            length=LengthSpec(1024, 128, 900),
            dataset=1000,
            remainder="keep",
            weight_by="tokens",
            tokens="labels",
        )
    )
    assert told == [
        "An optimizer step takes 8 x 4 x 2 ranks = 64 samples: 8,192 to 65,536 tokens, typically 57,600; "
        "memory is measured at the longest, 1,024.",
        "Accumulated losses are weighted by the labels that count (labels), as in one large batch.",
        "An epoch of 1,000 samples is 16 steps; the last one keeps 40 samples: 8, 8 and 4 on each of 2 ranks, "
        "and needs no more memory than the others.",
        "The learning rate follows torch.optim.lr_scheduler.StepLR, 2 scheduler steps an optimizer step, "
        "32 an epoch.",
    ]


def test_what_was_not_said_is_not_told():
    assert batch_semantics(spec(accumulate=1)) == [
        "An optimizer step takes 8 x 1 x 1 rank = 8 samples of the shape that the workload knows."
    ]


def test_every_policy_for_the_remainder_has_its_sentence():
    def last(**batch):
        return batch_semantics(spec(**batch))[-1]

    assert last(dataset=96) == "An epoch of 96 samples is 3 steps; no sample is left over."
    assert (
        last(dataset=84)
        == "An epoch of 84 samples is 2 steps; the 20 left over are dropped, never seen in it."
    )
    assert last(dataset=84, remainder="pad") == (
        "An epoch of 84 samples is 3 steps; 12 samples are added to fill the last one."
    )
    assert last(dataset=65, ranks=2, remainder="keep") == (
        "An epoch of 65 samples is 2 steps; the last one keeps 1 sample: 1 on 1 rank and none on 1 rank, "
        "and needs no more memory than the others."
    )
    assert last(dataset=33, remainder="keep") == (
        "An epoch of 33 samples is 2 steps; the last one keeps 1 sample: 1, "
        "and needs no more memory than the others."
    )


def test_equal_weights_of_unequal_micro_batches_are_said():
    told = batch_semantics(spec(dataset=84, remainder="keep", length=LengthSpec(64)))
    assert (
        told[1] == "The losses of 4 accumulated micro-batches count the same, whatever labels count in each."
    )
