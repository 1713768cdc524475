"""Entry of the measuring child: ``python /path/to/boot.py PLAN.json``.

Loads the folder it lies in as a package under a private name, so that neither this package's neighbours nor a
user's own ``tui`` are ever on the import path, and module names such as ``trace`` shadow nothing.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType

NAME = "_peakmark_probe"


def load_package(folder: str) -> ModuleType:
    """Import ``folder`` as the package ``NAME`` and return it."""
    spec = importlib.util.spec_from_file_location(
        NAME, os.path.join(folder, "__init__.py"), submodule_search_locations=[folder]
    )
    assert spec is not None
    assert spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)
    return package


def main() -> int:
    """Run the plan named on the command line; the exit code only says whether the journal was finished."""
    folder = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry or ".") != folder]
    load_package(folder)
    child = importlib.import_module(NAME + ".child")
    return child.main(sys.argv[1])


if __name__ == "__main__":
    if sys.version_info < (3, 9):
        sys.exit("the measured environment needs Python 3.9 or later, this is " + sys.version.split()[0])
    if len(sys.argv) != 2:
        sys.exit("usage: boot.py PLAN.json")
    sys.exit(main())
