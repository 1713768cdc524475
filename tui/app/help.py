"""What ``?`` shows over each screen: its figures first, then its keys."""

from __future__ import annotations

QUESTIONS = {
    "spec": "is it the workload that is meant, every parameter counted?",
    "verify": "can figures from this machine and this model be trusted?",
    "ledger": "does it fit, and where does every byte go?",
    "probe": "what does an iteration take, how large may the batch be?",
    "precision": "which setting is worth it, what does it cost in learning?",
    "report": "what is run, what if it breaks, and is it still true?",
    "first": "where to begin",
    "snapshot": "what did a recorded run hold, when, and in which pieces?",
}

_BYTES = (
    ("requested", "bytes as the program asked for them"),
    ("tensor-allocated", "after rounding and unsplit tails; on the CPU the same"),
    ("reserved", "what the allocator (CUDA) or the heap (CPU) holds"),
    ("process", "charged to the run by device or kernel: plan with it"),
)

FIGURES: dict[str, tuple[tuple[str, str], ...]] = {
    "spec": (
        ("formula", "parameters by arithmetic, from the spec alone"),
        ("inventory", "the framework's own objects, each counted once"),
        ("shared", "two names of one tensor: counted under the first"),
        ("active", "what one token uses, without the other experts"),
        ("~", "counted for another spec than the one that is shown"),
        ("!", "may not be so: nothing is saved before it is mended"),
        ("► 22 more", "arguments that the file leaves at their defaults"),
    ),
    "verify": (
        ("●  pass", "confirmed, with the evidence beside it"),
        ("×  fail", "expected and found; figures cannot be trusted"),
        ("!  note", "true, and worth knowing; nothing failed"),
        ("-  n/a", "does not apply here, with why"),
    ),
    "ledger": (
        *_BYTES,
        ("≥", "a sum with rows left out: at least this much"),
        ("-   0   n/a", "not said; exactly none; unknown, with its reason"),
        ("m - d", "measured minus declared: nothing is predicted"),
        ("within", "what was measured lies in the predicted range"),
        ("*", "off from the prediction by more than 1 MiB and 1 %"),
    ),
    "probe": (
        *_BYTES,
        ("step time", "a whole iteration: every micro-batch and the step"),
        ("samples/s", "of untraced iterations; memory has a run of its own"),
        ("95 %", "the interval of the mean of those iterations"),
        ("timeline", "one traced iteration, an event an allocation or a free"),
        ("held", "weights, optimizer state, buffers: there all the time"),
        ("· line", "predicted; or through batches: an aid, no proof"),
    ),
    "precision": (
        ("reference", "the setting that the others are compared with"),
        ("is noise", "how far seeds of the reference differ by themselves"),
        ("usable", "learns like the reference, within that noise"),
        ("gain", "usable, and less memory or more samples/s"),
        ("gradient", "error of the first step's, relative to the reference"),
    ),
    "report": (
        ("operating", "the configuration that was measured and accepted"),
        ("fallback", "a smaller one, measured as well"),
        ("evidence", "ids of the measurements behind each figure"),
        ("~", "must be measured again: something has changed"),
    ),
    "snapshot": (
        ("requested", "bytes as the program asked for them"),
        ("allocated", "after rounding and tails: by replay, block by block"),
        ("reserved", "segments that the allocator holds from the driver"),
        ("█  ▒", "always then, and at times: a column is many events"),
        ("split", "free bytes beside blocks in use: no one gets them back"),
        ("what if", "the same requests under other settings"),
    ),
    "first": (("a project", "one TOML file: your words above, measurements below"),),
}

_EVERYWHERE = (
    ("1 to 6", "steps"),
    ("Tab", "next pane"),
    (":", "all actions"),
    ("Esc", "back"),
    ("q", "quit"),
)
_COMMON = (("r", "run this step"), ("x", "stop the run"), ("b", "exact bytes"), ("c", "copy the row"))

KEYS: dict[str, tuple[tuple[str, str], ...]] = {
    "spec": (
        ("↑ ↓ ← →", "field"),
        ("Enter", "change, save"),
        ("Esc", "give up"),
        ("u", "undo the edit"),
        ("t", "module tree"),
        ("p", "predict"),
        ("o  /  n", "sort, search it"),
        *_COMMON,
        ("e", "edit the file"),
        *(one for one in _EVERYWHERE if one[0] not in ("Esc", "Tab")),
    ),
    "verify": (*_COMMON, ("e", "edit the file"), *_EVERYWHERE),
    "ledger": (
        ("Enter", "fold, unfold"),
        ("← →", "phase"),
        ("v", "whose ledger"),
        ("w", "what if"),
        ("u", "use what-if"),
        ("p", "predict"),
        ("d", "assumed, GPU"),
        ("s", "CSV, Markdown"),
        *_COMMON,
        ("e", "edit the file"),
        *_EVERYWHERE,
    ),
    "probe": (
        ("s", "search a batch"),
        ("p", "prediction"),
        ("o", "output, log"),
        ("d", "meanings"),
        ("← →", "instant, fold"),
        ("Enter", "peak, fold"),
        ("v", "other view"),
        (">  /  n", "sort, search"),
        *_COMMON,
        *_EVERYWHERE,
    ),
    "precision": (*_COMMON, ("e", "edit the file"), *_EVERYWHERE),
    "report": (("s", "save the file"), *_COMMON, ("e", "edit the file"), *_EVERYWHERE),
    "snapshot": (
        ("← →", "instant"),
        ("Enter", "to the peak"),
        ("v", "by frame, size"),
        ("w", "what if"),
        ("c", "copy the row"),
        ("b", "exact bytes"),
        *_EVERYWHERE[1:],
    ),
    "first": (("o", "open a project"), ("1 to 9", "a recent one"), ("Esc", "back"), ("q", "quit")),
}


def help_lines(screen: str, width: int) -> list[str]:
    """The text inside the box, ``width`` columns."""
    made = [f"{name:<17} {what}"[:width] for name, what in FIGURES[screen]]
    made.append("")
    keys = [f"{key:<7} {what}" for key, what in KEYS[screen]]
    beside = 3 if width >= 66 else 2
    column = width // beside
    for start in range(0, len(keys), beside):
        made.append("".join(one.ljust(column) for one in keys[start : start + beside]).rstrip()[:width])
    return made
