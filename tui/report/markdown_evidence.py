"""The report's evidence beside memory: precision, speed, restore, environment, parameters."""

from __future__ import annotations

from tui import units
from tui.project.measured import Check, Environment, Inventory, Measured, Operating
from tui.report import sentences
from tui.report.envelope import Source
from tui.report.lines import clean
from tui.report.markdown_text import escaped, table
from tui.report.text_params import causes, params_word
from tui.report.text_precision import gain_text, loader_text, unit_of
from tui.report.text_probe import warnings
from tui.report.text_readings import batches_text, clocks_text


def precision(source: Source, found: Operating | None) -> list[str]:
    """The settings of the comparison side by side; nothing when none was made."""
    chosen = (found.precision if found else None) or max(source.measured.precision, default=None)
    if chosen is None or chosen not in source.measured.precision:
        return []
    made = source.measured.precision[chosen]
    unit, settings = unit_of(made), made.settings
    rows = [
        [
            f"validation loss (noise floor {units.number(made.noise_floor)})",
            *(units.number(one.validation_loss) for one in settings.values()),
        ],
        [
            f"first gradient, relative error (limit {units.number(made.gradient_limit)})",
            *(
                "reference" if name == made.reference else units.number(one.gradient_error)
                for name, one in settings.items()
            ),
        ],
        [f"requested {unit.name}", *(unit.cell(one.requested_bytes) for one in settings.values())],
        [
            "samples/s (95 %)",
            *(
                f"{units.rate(one.samples_per_s)} ({units.interval(one.samples_per_s_low, one.samples_per_s_high)})"
                for one in settings.values()
            ),
        ],
        ["seen inside", *(escaped(one.effective or "not seen") for one in settings.values())],
        ["verdict", *(gain_text(one) for one in settings.values())],
    ]
    seeds = f"{made.seeds} reference seed{'' if made.seeds == 1 else 's'}"
    head = f"## Precision ({chosen}: {made.steps} steps, same start and batches, {seeds})"
    why = [f"* {name}: {escaped(one.why)}" for name, one in settings.items() if one.why]
    return [head, "", *table(["", *settings], rows), *(["", *why] if why else [])]


def throughput(source: Source, found: Operating | None) -> list[str]:
    """How fast the configuration is, from which iterations, and what the data pipeline does."""
    if found is None:
        return []
    probe = source.measured.probe[found.probe]
    lines = [f"## Throughput and time ({found.probe})", ""]
    text = f"{escaped(sentences.rate(probe))}; median {units.milliseconds(probe.step_ms_median)} ms an iteration, "
    text += f"p90 {units.milliseconds(probe.step_ms_p90)} ms, first {units.milliseconds(probe.first_ms)} ms. "
    text += (
        f"From {probe.iterations} untraced iterations after {probe.warmup} of warm-up, at nice {probe.nice}; "
    )
    if probe.device == "cpu":
        text += f"{escaped(sentences.others_cpu(probe))}; "
    text += "drift over hours and other jobs are not in it."
    if probe.samples_per_s_low is not None and probe.samples_per_s_high is not None:
        low, high = 1e6 / probe.samples_per_s_high, 1e6 / probe.samples_per_s_low
        span = f"{units.long_duration(low)} to {units.long_duration(high)}"
        text += f" A million samples take {span}, without validation, saving, restarts and queueing."
    lines += [text, "", f"* loader: {escaped(batches_text(probe))}"]
    if probe.device != "cpu":
        lines.append(f"* clocks: {escaped(clocks_text(probe))}")
    lines += [f"* {escaped(one)}" for one in warnings(probe)]
    made = source.measured.precision.get(found.precision or "")
    if made:
        lines += ["", f"Data: {escaped(loader_text(made))} ({found.precision})."]
    return lines


def restore(source: Source, found: Operating | None) -> list[str]:
    """The rehearsal of a restore; nothing when there was none."""
    chosen = (found.restore if found else None) or max(source.measured.restore, default=None)
    if chosen is None or chosen not in source.measured.restore:
        return []
    made = source.measured.restore[chosen]
    story = (
        f"Saved after iteration {made.saved_after}, killed in {made.killed_in}, resumed to {made.iterations}"
    )
    word = "it restores" if made.outcome == "restores" else "**it does not restore**"
    size = (
        f"checkpoint {units.size(made.checkpoint_bytes)}, sha256 {escaped(made.checkpoint_sha256 or 'n/a')}"
    )
    what = "process" if made.restore_peak_of == "process" else f"{made.restore_peak_of} bytes"
    peak = f"peak of {what} while it was restored {units.size(made.restore_peak_bytes)}"
    lines = [
        f"## Restore ({chosen})",
        "",
        f"{story} in a new process: {word}. {size[0].upper()}{size[1:]}; {peak}; ",
    ]
    lines[-1] += f"recovery {units.long_duration(made.recovery_s)}."
    return [*lines, "", *(f"* {_check(one)}" for one in made.checks.values())]


def environment(source: Source, found: Operating | None) -> list[str]:
    """What the figures hold for: device, versions, and the checks of Verify."""
    measured = source.measured
    chosen = (found.verify if found else None) or max(measured.verify, default=None)
    place_id = found.environment if found else _latest_environment(measured, chosen)
    if place_id is None or place_id not in measured.environment:
        return []
    lines = [f"## Environment ({', '.join(one for one in (place_id, chosen) if one)})", ""]
    lines.append(" · ".join(_facts(measured.environment[place_id])))
    if chosen is not None and chosen in measured.verify:
        verify = measured.verify[chosen]
        lines += ["", f"Verify: {verify.outcome}.", ""]
        lines += [f"* {_check(one)}" for one in verify.checks.values()]
    return lines


def parameters(source: Source) -> list[str]:
    """Formula and inventory, part by part where they differ."""
    inventory = source.measured.inventory
    if inventory is None:
        return []
    word = params_word(inventory)
    text = f"{inventory.unique_parameters:,} unique parameters in {inventory.tensors:,} tensors"
    text += f", {inventory.trainable_parameters:,} trainable, {inventory.parameter_bytes:,} B. "
    if inventory.formula_parameters is None:
        text += "No formula was checked."
    else:
        text += f"Formula {inventory.formula}: {inventory.formula_parameters:,} = {inventory.formula_text}: {word}."
    lines = ["## Parameters", "", escaped(text)]
    lines += [f"* {escaped(' '.join(one).strip())}" for one in causes(inventory.difference)]
    if further := _further(source, inventory):
        lines += ["", escaped(further)]
    if inventory.shared:
        lines.append(f"Shared, counted once: {escaped('; '.join(inventory.shared))}.")
    size = f"{inventory.state_entries:,} entries, {inventory.state_entry_elements:,} elements"
    return [*lines, f"A checkpoint has {size}; that is not the number of parameters."]


def _further(source: Source, found: Inventory) -> str:
    """Figures that are others than the unique parameters, where they are others."""
    said: list[str] = []
    if found.active_parameters not in (None, found.unique_parameters):
        said.append(f"{found.active_parameters:,} of them work on one token.")
    if found.packed_parameters:
        said.append(
            f"{found.packed_parameters:,} are stored in low-bit form: payload {found.packed_payload_bytes or 0:,} B, "
            f"scales, zero points and code books {found.packed_metadata_bytes or 0:,} B."
        )
    if found.state == "partitioned" and found.stored_elements is not None:
        said.append(f"The process that counted held {found.stored_elements:,} of them.")
    if found.ranks > 1 and found.rank_parameters is not None:
        strategy = source.spec.placement.strategy
        said.append(
            f"The fullest of {found.ranks} ranks ({strategy}) holds {found.rank_parameters:,}, "
            f"{found.rank_bytes or 0:,} B."
        )
    if found.buffer_elements:
        said.append(f"Beside them {found.buffer_elements:,} elements of buffers, {found.buffer_bytes:,} B.")
    if found.gradient_receiving is not None and found.gradient_receiving != found.trainable_parameters:
        missing = found.trainable_parameters - found.gradient_receiving
        said.append(f"{missing:,} trainable ones received no gradient in a real backward.")
    return " ".join(said)


def _check(check: Check) -> str:
    word = {"pass": "ok", "fail": "**FAILED**"}.get(check.outcome, check.outcome)
    return f"{word} {escaped(check.title)}: {escaped(check.text)}"


def _latest_environment(measured: Measured, verify: str | None) -> str | None:
    if measured.probe:
        return measured.probe[max(measured.probe)].environment
    return measured.verify[verify].environment if verify else None


def _facts(place: Environment) -> list[str]:
    facts = [place.device, place.device_id, f"{units.exact(place.device_total_bytes)} B"]
    facts += [f"driver {place.driver}"] if place.driver else []
    facts += [f"capability {place.capability}"] if place.capability else []
    facts += [f"torch {place.torch}", f"Python {place.python}"]
    facts += [f"{place.threads} threads"] if place.threads else []
    facts += [place.platform, place.container]
    return [escaped(clean(one)) for one in facts if one]
