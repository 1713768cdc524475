"""Settings that the app's entry point makes before Textual is imported, and no colours from outside."""

from __future__ import annotations

import os
import sys
from pathlib import Path

os.environ["TEXTUAL_ANIMATIONS"] = "none"
os.environ.pop("NO_COLOR", None)
sys.path.insert(0, str(Path(__file__).parents[1]))
