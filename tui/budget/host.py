"""Host memory that batches take before they reach the device.  Pure; bytes."""

from __future__ import annotations


def prefetch_bytes(batch_bytes: int, workers: int = 0, prefetch_factor: int = 2) -> int:
    """Bytes of the batches that a loader's workers keep ready: ``batch_bytes x workers x prefetch_factor``.

    As torch.utils.data.DataLoader documents ``prefetch_factor``: that many batches are loaded in advance by each
    worker.  Without workers nothing is kept ready but the batch itself.

    >>> prefetch_bytes(4096 * 3 * 224 * 224 * 4, workers=8, prefetch_factor=2)
    39460012032
    """
    return batch_bytes * max(1, workers * prefetch_factor)


def most_samples(available_bytes: int, sample_bytes: int, batches: int = 1) -> int | None:
    """The largest micro-batch of which ``batches`` are on the host at once; None: samples take nothing there.

    >>> most_samples(10_000, 100, 4)
    25
    """
    return None if sample_bytes <= 0 else available_bytes // (sample_bytes * max(1, batches))
