"""Every command's human output: lists of lines, none wider than the terminal.

``plain_lines`` of a document is the ``--plain`` form, ``to_ascii`` of each line the ``--ascii`` form.
"""

from tui.report.lines import to_ascii
from tui.report.plain import plain_lines
from tui.report.text_checks import restore_lines, verify_lines
from tui.report.text_ledger import ledger_lines
from tui.report.text_params import params_lines
from tui.report.text_precision import precision_lines
from tui.report.text_probe import probe_lines

__all__ = [
    "ledger_lines",
    "params_lines",
    "plain_lines",
    "precision_lines",
    "probe_lines",
    "restore_lines",
    "to_ascii",
    "verify_lines",
]
