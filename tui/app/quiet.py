"""Reading very many objects in a thread without the collector, which stands still for all threads when it runs."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def uncollected() -> Iterator[None]:
    """No collection inside; what was made there is passed over by later ones, and goes when nobody holds it."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
