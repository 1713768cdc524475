"""``python -m tui``: the same as the ``peakmark`` command."""

import sys

from tui.cli import main

sys.exit(main())
