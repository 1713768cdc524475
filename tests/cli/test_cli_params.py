"""``peakmark params``: the count of a placed model, what explains a difference, and its tree."""

from cli_shell import TINY

from tui.project.load import load

PLACED = (
    TINY.replace('formula = "mlp"', "formula_args = { inputs = 16, hidden = [32], outputs = 5 }")
    + '\n[placement]\nranks = 4\nstrategy = "fsdp2"\n'
)


def test_a_placed_model_is_counted_with_its_tree_and_what_explains_a_difference(shell):
    shell.write(PLACED)
    done = shell("params", "tiny.toml", "--depth", "1", "--sort", "elements")
    assert done.code == 1
    said = " ".join(done.out.split())
    # one output more has 32 weights and a bias
    assert "difference -33 -33 exactly what outputs = 4 changes" in said
    assert "a rank 169 on the fullest of 4 ranks (fsdp2, rows of each parameter), 676 B" in said
    assert "all trainable, all of these received a gradient in a real backward" in said
    assert "module elements bytes calls" in said
    assert done.out.splitlines()[-1].startswith("DISAGREE. ")
    assert max(len(line) for line in done.out.splitlines()) <= 80
    inventory = load(shell.folder / "tiny.toml").measured.inventory
    assert (inventory.rank_parameters, inventory.rank_padding) == (169, 0)
    tree = shell.state / inventory.journal.replace(".jsonl", ".modules.json")
    assert tree.is_file()


def test_arguments_that_no_formula_takes_are_refused_with_their_line(shell):
    shell.write(TINY.replace('formula = "mlp"', "formula_args = { inputs = 16, hiden = [32] }"))
    done = shell("params", "tiny.toml")
    assert done.code == 2
    assert "tiny.toml:8" in done.sentence
    assert "hiden is not an argument of mlp; did you mean hidden?" in done.sentence
