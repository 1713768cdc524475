"""The command line: argument parsing only; what a command needs is imported when it is called."""

from __future__ import annotations

import argparse
import difflib
import importlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from tui import __version__
from tui.commands.ranges import names, numbers, refuse_unsearched, settings, several, whole
from tui.errors import PeakmarkError, UsageError

COMMANDS = (
    "demo", "new", "params", "verify", "predict", "what-if", "ledger", "probe", "precision", "restore", "report",
    "run", "runs", "stop", "snapshot", "calc", "doctor",
)  # fmt: skip


STEPS = ("params", "verify", "predict", "probe", "precision", "restore", "report")


class _Parser(argparse.ArgumentParser):
    """Says a mistake in one sentence, like every other error."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(message, hint=f"see: {self.prog} --help")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore
        """As always, but a command refuses what it does not know itself, so that its own help is named."""
        found, left = super().parse_known_args(args, namespace)
        if left:
            self.error(f"unrecognized arguments: {' '.join(left)}")
        return found, left


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.  ``peakmark PROJECT`` opens the app."""
    words = list(sys.argv[1:] if argv is None else argv)
    if None in (sys.stdout, sys.stderr):
        from tui.commands.output import stand_in

        stand_in()
    given: argparse.Namespace | None = None
    try:
        given = _parse(words)
        return given.call(given)
    except PeakmarkError as error:
        return _said(error, given, words)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return _unread()


def _unread() -> int:
    """Whoever read us has gone: nothing more to say, and no traceback at the interpreter's exit either."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return 128 + signal.SIGPIPE


def _said(error: PeakmarkError, given: argparse.Namespace | None, words: Sequence[str]) -> int:
    from tui.commands.output import Output

    output = Output(json="--json" in words, ascii="--ascii" in words)
    try:
        return (output if given is None else _output(given)).error(error)
    except BrokenPipeError:
        return _unread()


def _first(words: list[str]) -> str | None:
    """The first word that is neither an option nor the theme's name."""
    takes_value = False
    for word in words:
        if not takes_value and not word.startswith("-"):
            return word
        takes_value = word == "--theme"
    return None


def _parse(words: list[str]) -> argparse.Namespace:
    first = _first(words)
    if first in COMMANDS or "-h" in words or "--help" in words or "--version" in words:
        return _commands().parse_args(words)
    if first is not None and not first.endswith(".toml") and not os.path.lexists(first):
        raise UsageError(f"{first} is neither a command nor a project file", hint=_meant(first))
    return _app().parse_args(words)


def _meant(word: str) -> str:
    near = difflib.get_close_matches(word, COMMANDS, 1)
    return f"did you mean {near[0]}?" if near else "see: peakmark --help"


def _app() -> argparse.ArgumentParser:
    parser = _Parser(prog="peakmark", add_help=False)
    parser.add_argument("project", nargs="?", type=Path)
    parser.add_argument("--no-mouse", action="store_true")
    parser.add_argument("--theme")
    _looks(parser)
    parser.set_defaults(call=_open)
    return parser


def _commands() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="peakmark",
        description="What one complete PyTorch training iteration really needs on this device, measured and proven.",
        epilog="peakmark [PROJECT] opens the app (--ascii, --no-mouse, --theme NAME). "
        "Exit codes: 0 done, 1 a negative verdict, 2 bad input, 4 could not run, 5 could not save, 128+n signal n.",
    )
    parser.add_argument("--version", action="version", version=f"peakmark {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    text = "a complete sample project: every step on this device, then the report"
    _add(commands, "demo", _demo, text, _demo_args)
    _add(commands, "new", _new, "write a commented project file", _new_args)
    _add(commands, "params", _params, "parameter formula against the unique inventory", _params_args)
    text = "a small step, a checkpoint reloaded in a fresh process"
    _add(commands, "verify", _step("verify"), text, _measuring)
    text = "what an iteration will take, on a GPU that need not be here"
    _add(commands, "predict", _predict, text, _own_args("predict_arguments"))
    text = "what a change of the spec would do to the ledger, side by side"
    _add(commands, "what-if", _what_if, text, _own_args("what_if_arguments"))
    _add(
        commands,
        "ledger",
        _ledger,
        "where every byte goes, and whether it fits",
        _own_args("ledger_arguments"),
    )
    _add(commands, "probe", _step("probe"), "measure full iterations at one batch or several", _probe_args)
    _add(commands, "precision", _step("precision"), "compare precision settings", _precision_args)
    text = "rehearse: save, kill, restore in a new process, compare"
    _add(commands, "restore", _step("restore"), text, _measuring)
    _add(commands, "report", _report, "write the Markdown report", _report_args)
    _add(commands, "run", _run, "several steps: a batch job, a CI step", _run_args)
    _add(commands, "runs", _runs, "what is running or was left running", lambda parser: None)
    _add(commands, "stop", _stop, "end a run", lambda parser: parser.add_argument("run"))
    _add(
        commands, "snapshot", _snapshot, "read a torch.cuda memory snapshot", _own_args("snapshot_arguments")
    )
    _add(
        commands,
        "calc",
        _calc,
        "the calculators by themselves: params, batch, ranks",
        _own_args("calc_arguments"),
    )
    _add(commands, "doctor", _doctor, "what was found here, and what to do about it", _doctor_args)
    return parser


def _add(
    commands: Any,
    name: str,
    call: Callable[[argparse.Namespace], int],
    text: str,
    arguments: Callable[[argparse.ArgumentParser], Any],
) -> None:
    parser = commands.add_parser(name, help=text, description=text)
    arguments(parser)
    _looks(parser)
    parser.set_defaults(call=call)


def _looks(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="one JSON document on stdout and nothing else")
    parser.add_argument("--plain", action="store_true", help="one figure a line")
    parser.add_argument("--ascii", action="store_true", help="ASCII only")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress on stderr")


def _measuring(parser: argparse.ArgumentParser, project: bool = True) -> None:
    if project:
        parser.add_argument("project", type=Path)
    parser.add_argument("--device", help="auto | cpu | GPU-uuid | MIG-uuid, instead of the project's")
    parser.add_argument(
        "--trust", action="store_true", help="allow the project's own Python and programs to run"
    )
    parser.add_argument(
        "--nice", type=whole(0, 19), default=10, help="of the measuring process; 10 keeps keys answering"
    )
    parser.add_argument(
        "--force", action="store_true", help="measure although others use more than the budget leaves"
    )


def _params_args(parser: argparse.ArgumentParser) -> None:
    _measuring(parser)
    parser.add_argument("--tree", action="store_true", help="the modules too, equal blocks as one row")
    parser.add_argument("--depth", type=whole(1), help="levels below the model (3); implies --tree")
    parser.add_argument("--sort", choices=("elements", "bytes", "name"), help="of a level; implies --tree")


def _probe_args(parser: argparse.ArgumentParser) -> None:
    _measuring(parser)
    parser.add_argument(
        "--batch", type=numbers, help="micro-batches, as 1,2,4 or 8..64/8; default: the project's"
    )
    parser.add_argument("--length", type=numbers, help="lengths, likewise; default: the project's largest")
    several(parser)
    parser.add_argument(
        "--iterations", type=whole(1), help="timed iterations (20); --search: of the soak (50)"
    )
    parser.add_argument("--warmup", type=whole(2), help="iterations before them, the first one apart (3)")
    parser.add_argument(
        "--quick", action="store_true", help="5 timed iterations; --search: 2, and no tracing"
    )


def _own_args(module: str) -> Callable[[argparse.ArgumentParser], None]:
    """Those that ``tui.commands.MODULE`` adds."""
    return lambda parser: importlib.import_module(f"tui.commands.{module}").add(parser)


def _precision_args(parser: argparse.ArgumentParser) -> None:
    _measuring(parser)
    parser.add_argument("--settings", type=settings, help="fp32,bf16-autocast,...")
    parser.add_argument(
        "--iterations", type=whole(5), help="optimizer steps of each run; default: the project's"
    )
    parser.add_argument("--quick", action="store_true", help="20 steps")


def _report_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("project", type=Path)
    parser.add_argument(
        "-o", "--output", type=Path, help="file to write; - for stdout; default: NAME.md beside it"
    )


def _run_args(parser: argparse.ArgumentParser) -> None:
    _probe_args(parser)
    parser.add_argument("--steps", type=names, default=STEPS, help=f"default: {','.join(STEPS)}")
    parser.add_argument("--settings", type=settings, help=argparse.SUPPRESS)
    parser.add_argument("--gpu", metavar="NAME|BYTES", help="predict for this GPU")
    parser.add_argument("--run-id", default="", help=argparse.SUPPRESS)
    parser.add_argument("-o", "--output", type=Path, help="the report's file")


def _demo_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--dir", type=Path, default=Path("peakmark-demo"), help="folder for it (%(default)s)")
    _measuring(parser, project=False)


def _new_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path)
    parser.add_argument(
        "--from",
        dest="source",
        default="decoder",
        help="decoder | encoder | mlp | convnet | FILE.py[:NAME] | CONFIG.json | timm:NAME | torchvision:NAME",
    )


def _doctor_args(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--trust", action="store_true", help="allow the project's interpreter to run")
    parser.add_argument("project", nargs="?", type=Path, help="use its interpreter")


def _output(given: argparse.Namespace) -> Any:
    from tui.commands.output import Output

    return Output(given.json, given.plain, given.ascii, given.quiet)


def _options(given: argparse.Namespace) -> Any:
    from tui.engine.context import Options

    refuse_unsearched(given)
    return Options(
        device=given.device,
        trust=given.trust,
        nice=given.nice,
        force=given.force,
        iterations=getattr(given, "iterations", None),
        warmup=getattr(given, "warmup", None),
        batches=getattr(given, "batch", None),
        lengths=getattr(given, "length", None),
        settings=getattr(given, "settings", None),
        quick=getattr(given, "quick", False),
        search=getattr(given, "search", False),
        upper=getattr(given, "upper", None),
        multiple_of=getattr(given, "multiple_of", 1),
        within_s=60.0 * within if (within := getattr(given, "within", None)) is not None else None,
        output=getattr(given, "output", None),
        gpu=getattr(given, "gpu", None),
        alloc_conf=getattr(given, "alloc_conf", None),
        largest=getattr(given, "largest", False),
    )


def _open(given: argparse.Namespace) -> int:
    from tui.app.run import run_app

    return run_app(given.project, ascii=given.ascii, mouse=not given.no_mouse, theme=given.theme)


def _step(name: str) -> Callable[[argparse.Namespace], int]:
    def call(given: argparse.Namespace) -> int:
        from tui.commands import steps

        return steps.one(given.project, name, _options(given), _output(given))

    return call


def _params(given: argparse.Namespace) -> int:
    from tui.commands.params import asked, params

    tree = asked(given.tree, given.depth, given.sort)
    return params(given.project, _options(given), _output(given), tree)


def _predict(given: argparse.Namespace) -> int:
    from tui.commands import predict

    if given.gpus or given.project is None:
        return predict.gpus(given.gpus, _output(given))
    return predict.predict(given.project, _options(given), _output(given), given.phase)


def _what_if(given: argparse.Namespace) -> int:
    from tui.commands.what_if import what

    return what(given, _options(given), _output(given))


def _ledger(given: argparse.Namespace) -> int:
    from tui.commands.ledger import ledger
    from tui.commands.ledger_arguments import shown

    return ledger(given.project, shown(given), _output(given))


def _report(given: argparse.Namespace) -> int:
    from tui.commands.report import report

    return report(given.project, given.output, _output(given))


def _run(given: argparse.Namespace) -> int:
    from tui.commands import steps

    return steps.run(given.project, given.steps, _options(given), _output(given), given.run_id)


def _demo(given: argparse.Namespace) -> int:
    from tui.commands import new

    return new.demo(given.dir, _options(given), _output(given))


def _new(given: argparse.Namespace) -> int:
    from tui.commands import new

    return new.new(given.file, given.source, _output(given))


def _runs(given: argparse.Namespace) -> int:
    from tui.commands import runs

    return runs.runs(_output(given))


def _stop(given: argparse.Namespace) -> int:
    from tui.commands import runs

    return runs.stop(given.run, _output(given))


def _snapshot(given: argparse.Namespace) -> int:
    from tui.commands.snapshot import snapshot

    return snapshot(given, _output(given))


def _calc(given: argparse.Namespace) -> int:
    from tui.commands.calc import calc

    return calc(given, _output(given))


def _doctor(given: argparse.Namespace) -> int:
    from tui.commands.doctor import doctor

    return doctor(given.project, _output(given), given.trust)
