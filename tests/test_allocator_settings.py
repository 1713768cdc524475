import pytest
import torch

from tui.probe.allocator import CachingAllocator
from tui.probe.allocator_settings import FROM_SOURCE, PROVED, SettingsError, parse

MIB = 1 << 20


def test_no_settings_are_the_defaults():
    assert parse("").default
    assert parse("backend:native").default
    assert parse("expandable_segments:False,max_non_split_rounding_mb:20").default


def test_every_setting_is_read_in_its_unit():
    found = parse(
        "expandable_segments:True, max_split_size_mb:64, max_non_split_rounding_mb:32, large_segment_size_mb:30,"
        "garbage_collection_threshold:0.8, per_process_memory_fraction:0.9, roundup_power2_divisions:4"
    )
    assert found.expandable_segments
    assert (found.max_split_size, found.max_non_split_rounding) == (64 * MIB, 32 * MIB)
    assert found.large_segment_size == 30 * MIB
    assert (found.garbage_collection_threshold, found.per_process_memory_fraction) == (0.8, 0.9)
    assert found.roundup_power2_divisions == (4,) * 16


def test_a_list_of_divisions_holds_below_its_first_size_and_from_the_last_on_with_a_greater_sign():
    found = parse("roundup_power2_divisions:[64:8,256:4,1024:2,>:1]").roundup_power2_divisions
    #        below 2, 4, ... 64 MiB ; 64 ; 128; 256; 512; 1 GiB; above
    assert found == (8, 8, 8, 8, 8, 8, 8, 0, 4, 0, 2, 1, 1, 1, 1, 1)


@pytest.mark.parametrize(
    ("divisions", "asked", "occupied"),
    [
        (4, 1200 * 1024, 1280 * 1024),  # the example of torch's own documentation: 1200 becomes 1280 with 4
        (4, 1 << 21, 1 << 21),
        (4, (1 << 21) + 1, (1 << 21) + (1 << 19)),
        (4, 2048, 2048),  # not more than 512 * 4
        (4, 2049, 2560),
        (1, 1200 * 1024 + 1, 1200 * 1024 + 512),
        (8, (1 << 30) - 1, 1 << 30),
    ],
)
def test_a_request_is_rounded_up_to_a_part_of_the_next_power_of_two(divisions, asked, occupied):
    allocator = CachingAllocator(settings=parse(f"roundup_power2_divisions:{divisions}"))
    allocator.malloc(1, asked)
    assert allocator.settings.round_size(asked) == occupied
    assert (allocator.requested, allocator.allocated >= occupied) == (asked, True)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("expandable_segment:True", "did you mean expandable_segments?"),
        ("max_split_size:64", "did you mean max_split_size_mb?"),
        ("shape:3", "shape is not a setting of the allocator; known are expandable_segments"),
        ("expandable_segments:true", "expandable_segments is True or False, spelled so, got true"),
        ("expandable_segments", '"expandable_segments" is not key:value'),
        ("max_split_size_mb:64,,", '"" is not key:value'),
        (",", '"" is not key:value'),
        ("max_split_size_mb:19", "max_split_size_mb must be at least 20, got 19"),
        ("max_split_size_mb:-1", "max_split_size_mb takes a whole number, got -1"),
        ("max_split_size_mb:²", "takes a whole number"),
        ("large_segment_size_mb:40,max_split_size_mb:30", "max_split_size_mb must be at least 40, got 30"),
        ("max_non_split_rounding_mb:19", "max_non_split_rounding_mb must be at least 20"),
        ("large_segment_size_mb:10", "large_segment_size_mb must be at least 11, got 10"),
        ("garbage_collection_threshold:1", "garbage_collection_threshold must be above 0 and below 1, got 1"),
        ("garbage_collection_threshold:nan", "must be above 0"),
        ("per_process_memory_fraction:1.5", "per_process_memory_fraction must be above 0 and at most 1"),
        ("roundup_power2_divisions:3", "takes divisions that are powers of two, got 3"),
        ("roundup_power2_divisions:[3:8]", "takes sizes that are powers of two, got 3"),
        ("roundup_power2_divisions:[64:8", "has no closing bracket"),
        ("roundup_power2_divisions:[64]", 'has the entry "64", which is not MEBIBYTES:DIVISIONS'),
        ("backend:cudaMallocAsync", "backend:cudaMallocAsync cannot be simulated"),
        ("backend:x", "backend is native or cudaMallocAsync, got x"),
        ("expandable_segments_reserve:0.5", "expandable_segments_reserve cannot be simulated"),
    ],
)
def test_wrong_settings_are_one_sentence_that_names_the_key(text, said):
    with pytest.raises(SettingsError) as caught:
        parse(text)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        "max_split_size_mb:20",
        "max_split_size_mb:19",
        "max_split_size_mb:",
        "expandable_segments:True",
        "expandable_segments:true",
        "garbage_collection_threshold:0.5",
        "garbage_collection_threshold:1",
        "garbage_collection_threshold:0",
        "roundup_power2_divisions:4",
        "roundup_power2_divisions:3",
        "roundup_power2_divisions:0",
        "roundup_power2_divisions:[64:8,>:0]",
        "roundup_power2_divisions:[3:8]",
        "roundup_power2_divisions:[64:3]",
        "roundup_power2_divisions:[64:8",
        "max_split_size_mb:64, expandable_segments:False",
        "max_split_size_mb",
    ],
)
def test_torch_takes_and_refuses_the_same_settings(text):
    change = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if change is None:
        pytest.skip("this torch has no settings that can be changed without a GPU")
    try:
        change(text)
    except (ValueError, RuntimeError):
        with pytest.raises(SettingsError):
            parse(text)
    else:
        parse(text)
    finally:
        change("expandable_segments:False")


def test_what_changes_nothing_is_said_so():
    found = parse("pinned_num_register_threads:8,garbage_collection_threshold:0.5")
    assert found.notes() == [
        "pinned_num_register_threads changes nothing about where blocks lie",
        "garbage_collection_threshold does nothing without a per_process_memory_fraction below 1",
    ]
    assert parse("pinned_num_register_threads:8").default


def test_only_default_rules_on_one_stream_without_a_retry_are_proved_by_traces():
    plain = CachingAllocator(capacity=24 * MIB)
    plain.malloc(1, 12 * MIB)
    assert plain.basis == PROVED == "default: proved by recorded traces"
    plain.free(1)
    plain.malloc(2, 14 * MIB)  # back to the driver with the first segment
    assert plain.basis == FROM_SOURCE == "from source, not yet verified"
    streams = CachingAllocator()
    streams.malloc(1, 1, stream=1)
    assert streams.basis == PROVED
    streams.malloc(2, 1, stream=2)
    assert streams.basis == FROM_SOURCE
    assert CachingAllocator(settings=parse("max_split_size_mb:64")).basis == FROM_SOURCE
