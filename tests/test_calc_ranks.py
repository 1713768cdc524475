"""``peakmark calc ranks``: lines for people, and the sentence for what cannot be."""

import pytest

from tui import cli


def said(capsys, *words):
    code = cli.main(["calc", "ranks", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_every_line_has_its_bytes_its_divisor_and_how_it_was_obtained(capsys):
    code, out, _ = said(capsys, "1e9", "--ranks", "8", "--strategy", "zero2", "--dtype", "bf16", "--master")
    lines = out.splitlines()
    assert code == 0
    assert "gradients               250,000,000 B     0.233 GiB  2,000,000,000 B / 8," in lines
    assert "reduction buckets   n/a: not said: --bucket ELEMENTS" in lines
    assert any(
        line.startswith("older formula         6,000,000,000 B     5.588 GiB  DeepSpeed") for line in lines
    )
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("written", ["7B", "7 b", "7000M", "7e9"])
def test_billions_of_parameters_are_written_with_a_letter_too(capsys, written):
    code, out, _ = said(capsys, written, "--ranks", "1", "--strategy", "none", "--dtype", "bf16")
    assert code == 0
    assert "weights              14,000,000,000 B    13.039 GiB" in out


def test_divisors_of_tensor_and_pipeline_parallel_are_declared(capsys):
    words = (
        "8e9",
        "--ranks",
        "2",
        "--strategy",
        "none",
        "--tensor-parallel",
        "4",
        "--pipeline-parallel",
        "2",
    )
    _, out, _ = said(capsys, *words)
    assert "4,000,000,000 B     3.725 GiB  32,000,000,000 B / 4" in out
    assert "declared" in out


def test_a_pool_refuses_the_comparison_and_has_a_line_of_its_own(capsys):
    words = ("1e9", "--ranks", "2", "--strategy", "ddp", "--process", "72GiB", "--device-total", "80GiB")
    _, out, _ = said(capsys, *words, "--pool", "0.9")
    assert "REFUSED: the process holds a pre-reserved pool of 72.000" in out
    assert "pre-reserved pool    77,309,411,328 B" in out


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("7x", "--ranks", "2", "--strategy", "ddp"), "PARAMETERS must be a whole number, got '7x'"),
        (("7.25e1", "--ranks", "2", "--strategy", "ddp"), "PARAMETERS must be a whole number"),
        (("0", "--ranks", "2", "--strategy", "ddp"), "PARAMETERS must be 1 or more, got 0"),
        (("7e9", "--ranks", "0", "--strategy", "ddp"), "--ranks must be 1 or more, got 0"),
        (("7e9", "--ranks", "2", "--strategy", "zero9"), "invalid choice: 'zero9'"),
        (("7e9", "--ranks", "2", "--strategy", "zero2", "--master"), "--master keeps fp32 copies"),
        (("7e9", "--ranks", "2", "--strategy", "fsdp2", "--view"), "--view is of ddp and zero1"),
        (("7e9", "--ranks", "2", "--strategy", "ddp", "--largest", "5"), "--largest is of zero3 and fsdp2"),
        (("7e9", "--ranks", "2", "--strategy", "ddp", "--host", "gpu"), "--host takes weights, gradients"),
        (("7e9", "--ranks", "2", "--strategy", "ddp", "--pool", "0.9"), "--pool and --device-total say what"),
        (
            ("7e9", "--ranks", "2", "--strategy", "ddp", "--process", "1GiB", "--pool", "9"),
            "--pool must be a share of the device above 0 and up to 1, got 9",
        ),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(capsys, words, sentence):
    try:
        code, out, err = said(capsys, *words)
    except SystemExit as ended:
        code, (out, err) = ended.code, capsys.readouterr()
    assert code == 2
    assert sentence in err
    assert out == ""
