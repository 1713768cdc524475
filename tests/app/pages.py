"""Pages laid out for a test."""

from __future__ import annotations

import importlib
from dataclasses import replace

from app import sample
from tui.app.frame import Placed, place
from tui.app.page import Cursor, Scene
from tui.app.steps import marks_of
from tui.project import measured as m


def laid(project, step, width=80, height=24, cursor=None, **scene) -> Placed:
    cursor = cursor or Cursor()
    view = importlib.import_module(f"tui.app.views.{step}")
    made = Scene(project=project, marks=marks_of(project, {}, None), **scene)
    return place(view.page(made, width, height, cursor), made, step, width, height, cursor)


def text(*args, **kwargs) -> str:
    return "\n".join(line.plain.rstrip() for line in laid(*args, **kwargs).lines)


def with_probe(project: sample.SampleProject, *probes: m.Probe) -> sample.SampleProject:
    named = {f"p-{n}": probe for n, probe in enumerate(probes, 1)}
    return replace(project, measured=replace(project.measured, probe=named))
