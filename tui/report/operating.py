"""Which configuration was validated: the ids of the measurements that passed, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Protocol, TypeVar

from tui.budget.ledger import probe_verdict
from tui.project.measured import Measured, Operating, Precision, Probe, Restore, Verify
from tui.project.model import Spec

LEAST_DIGITS = len("sha256:") + 8


class _Evidence(Protocol):
    @property
    def spec(self) -> str: ...
    @property
    def environment(self) -> str: ...


Found = TypeVar("Found", bound=_Evidence)


def operating(
    spec: Spec, measured: Measured, fingerprint: str, accepted_at: datetime | None = None
) -> Operating | None:
    """The operating configuration that the measurements of this spec prove, or None.

    It needs a probe that fits with the reserve, uncontended, in the precision that is used, and a Verify of
    the same environment.  Of every batch, and of Verify, the latest run that ended counts: an earlier success
    does not outweigh a later failure.  The batch that the spec asks for comes first, then the latest one; a probe
    with phases comes before one of which only was asked whether it fits.

    Args:
        spec: as it is now.
        measured: everything below the marker.
        fingerprint: of the spec as it is now; measurements of another one do not count.
        accepted_at: None: the moment of the latest evidence.
    """
    chosen = _best_probe(spec, measured, fingerprint)
    if chosen is None:
        return None
    probe = measured.probe[chosen]
    place = probe.environment
    verify = _latest(measured.verify, fingerprint, place, lambda one: True)
    if verify is None or measured.verify[verify].outcome != "verified":
        return None
    precision = _latest(measured.precision, fingerprint, place, lambda one: one.outcome == "done")
    restore = _latest(measured.restore, fingerprint, place, lambda one: True)
    if restore is not None and measured.restore[restore].outcome != "restores":
        restore = None
    fallback = _fallback(spec, measured, fingerprint, probe)
    evidence: list[Probe | Verify | Precision | Restore] = [probe, measured.verify[verify]]
    evidence += [measured.precision[precision]] if precision else []
    evidence += [measured.restore[restore]] if restore else []
    return Operating(
        probe=chosen,
        verify=verify,
        spec=probe.spec,
        environment=place,
        accepted_at=accepted_at or max(one.at for one in evidence),
        micro_batch_tested=batches_run(spec, measured, fingerprint),
        precision=precision,
        restore=restore,
        fallback=fallback,
    )


def batches_run(spec: Spec, measured: Measured, fingerprint: str) -> tuple[int, ...]:
    """Micro-batches of this spec that fit, smallest first."""
    return tuple(sorted({measured.probe[one].micro_batch for one in _fitting(spec, measured, fingerprint)}))


def is_current(measured_spec: str, fingerprint: str) -> bool:
    """Whether a measurement is of the spec with ``fingerprint``; a shortened one counts from 8 digits on.

    >>> is_current("sha256:4be14be1", "sha256:4be14be17777"), is_current("sha256:4be1", "sha256:4be17777")
    (True, False)
    """
    if measured_spec == fingerprint:
        return True
    return len(measured_spec) >= LEAST_DIGITS and fingerprint.startswith(measured_spec)


def _latest(
    table: Mapping[str, Found], fingerprint: str, environment: str, passes: Callable[[Found], bool]
) -> str | None:
    """Id of the latest one of this spec and environment that ``passes``; ids sort by time."""
    found = [
        id
        for id, one in table.items()
        if is_current(one.spec, fingerprint) and one.environment == environment and passes(one)
    ]
    return max(found, default=None)


def _fitting(spec: Spec, measured: Measured, fingerprint: str) -> list[str]:
    """Ids of uncontended probes that fit, the latest that ended of every batch, oldest first."""
    last: dict[tuple[object, ...], str] = {}
    for id in sorted(measured.probe):
        probe = measured.probe[id]
        if is_current(probe.spec, fingerprint) and probe.outcome != "cancelled" and not probe.contended:
            key = (probe.micro_batch, probe.accumulate, probe.length, probe.precision, probe.environment)
            last[key] = id
    return [
        id
        for id in sorted(last.values())
        if probe_verdict(spec, measured.probe[id]).word == "FITS"
        and measured.probe[id].precision == spec.precision.use
    ]


def _best_probe(spec: Spec, measured: Measured, fingerprint: str) -> str | None:
    fitting = _fitting(spec, measured, fingerprint)
    asked = (spec.workload.batch.micro, spec.workload.batch.accumulate)
    same = [id for id in fitting if (measured.probe[id].micro_batch, measured.probe[id].accumulate) == asked]
    whole = [
        id for id in fitting if measured.probe[id].phases
    ]  # not of a search, which asked no more than whether
    return max([id for id in same if id in whole] or whole or same or fitting, default=None)


def _fallback(spec: Spec, measured: Measured, fingerprint: str, probe: Probe) -> str | None:
    """The largest smaller micro-batch of the same global batch, the latest run of it."""
    total = probe.micro_batch * probe.accumulate
    found = [
        (one.micro_batch, id)
        for id in _fitting(spec, measured, fingerprint)
        if (one := measured.probe[id]).micro_batch < probe.micro_batch
        and one.micro_batch * one.accumulate == total
        and (one.length, one.environment) == (probe.length, probe.environment)
    ]
    return max(found)[1] if found else None
