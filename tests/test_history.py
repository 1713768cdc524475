import pytest
from memory_records import event, snapshot

from tui.probe import recorded


@pytest.mark.parametrize(
    ("filenames", "shown"),
    [
        (["", "RegisterCUDA.cpp", "/a/model.py", "/a/train.py"], "model.py:3 f"),
        (["torch/functional.py", "/x/site-packages/einops/_backends.py"], "_backends.py:3 f"),
        (["/x/site-packages/torch/nn/functional.py", "C:\\w\\model.py"], "model.py:3 f"),
        (["/x/site-packages/torch/optim/adamw.py", "/a/train.py"], "adamw.py:3 f"),
        (["/x/site-packages/torch/_tensor.py", "??"], "_tensor.py:3 f"),
        (["/home/torch/train.py", "/home/a.py"], "train.py:3 f"),
        (["<stdin>"], "<stdin>:3 f"),
        (["engine.cpp", "??"], ""),
        ([], ""),
    ],
)
def test_the_frame_shown_is_the_innermost_of_the_users_program(filenames, shown):
    frames = [{"filename": name, "line": 3, "name": "f"} for name in filenames]
    taken = snapshot([event("oom", 0, 1, frames=tuple(frames))], [])
    assert recorded.events(taken)[0].frame == shown


def test_settings_that_the_file_lacks_are_unknown():
    taken = snapshot([event("snapshot", 0, 0)], [])
    assert recorded.read(taken).rules.settings == ""
    del taken["allocator_settings"]
    assert recorded.read(taken).rules.settings is None
