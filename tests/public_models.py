"""Public models with the parameter counts that were published for them.

Totals of language models are the sums of the tensors in the released weights, as their model cards on the
Hugging Face hub state them (tied tensors once); of image classifiers, ``num_params`` in torchvision's table of
weights.  Shapes are from the papers or the configurations released with the weights.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Public(NamedTuple):
    """One model.  ``configuration`` is a Hugging Face one; ``family`` and ``args`` where there is none of that."""

    name: str
    total: int
    source: str
    configuration: dict[str, Any] | None = None
    family: str = ""
    args: dict[str, Any] | None = None
    active: int | None = None


def _gpt2(layers: int, heads: int, width: int) -> dict[str, Any]:
    return {"model_type": "gpt2", "n_layer": layers, "n_head": heads, "n_embd": width}


def _llama(
    layers: int, width: int, heads: int, hidden: int, kv: int | None = None, kind: str = "llama", **more: Any
) -> dict[str, Any]:
    return {
        "model_type": kind,
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": heads,
        "num_key_value_heads": kv or heads,
        "intermediate_size": hidden,
        **more,
    }


def _classes(kind: str, **more: Any) -> dict[str, Any]:
    labels = {str(one): str(one) for one in range(1000)}
    return {
        "model_type": kind,
        "id2label": labels,
        "label2id": {name: int(key) for key, name in labels.items()},
        **more,
    }


GPT2 = "Radford et al. 2019, sizes as corrected in the released repository; model card gpt2"
BERT = "Devlin et al. 2019; model card bert-base-uncased, masked-LM weights without the unused pooler"
LLAMA2 = "Touvron et al. 2023, table 1; model card Llama-2"
LLAMA3 = "Grattafiori et al. 2024; model card Meta-Llama-3"
QWEN25 = "Qwen2.5 technical report 2024; model card"
QWEN3 = "Qwen3 technical report 2025; model card"
GEMMA = "Gemma Team 2024, table 1; model card"
VISION = "torchvision table of weights, IMAGENET1K"

MODELS = (
    Public("GPT-2", 124_439_808, GPT2, _gpt2(12, 12, 768)),
    Public("GPT-2 medium", 354_823_168, GPT2, _gpt2(24, 16, 1024)),
    Public("GPT-2 large", 774_030_080, GPT2, _gpt2(36, 20, 1280)),
    Public("GPT-2 XL", 1_557_611_200, GPT2, _gpt2(48, 25, 1600)),
    Public("BERT base uncased", 109_514_298, BERT, {"model_type": "bert"}),
    Public(
        "BERT large uncased",
        335_174_458,
        BERT,
        {
            "model_type": "bert",
            "hidden_size": 1024,
            "num_hidden_layers": 24,
            "num_attention_heads": 16,
            "intermediate_size": 4096,
        },
    ),
    Public(
        "RoBERTa base",
        124_697_433,
        "Liu et al. 2019; model card roberta-base",
        {"model_type": "roberta", "max_position_embeddings": 514, "type_vocab_size": 1},
    ),
    Public(
        "DistilBERT base",
        66_985_530,
        "Sanh et al. 2019; model card distilbert-base-uncased",
        {"model_type": "distilbert"},
    ),
    Public("Llama 2 7B", 6_738_415_616, LLAMA2, _llama(32, 4096, 32, 11008)),
    Public("Llama 2 13B", 13_015_864_320, LLAMA2, _llama(40, 5120, 40, 13824)),
    Public("Llama 2 70B", 68_976_648_192, LLAMA2, _llama(80, 8192, 64, 28672, 8)),
    Public("Llama 3 8B", 8_030_261_248, LLAMA3, _llama(32, 4096, 32, 14336, 8, vocab_size=128256)),
    Public("Llama 3 70B", 70_553_706_496, LLAMA3, _llama(80, 8192, 64, 28672, 8, vocab_size=128256)),
    Public(
        "TinyLlama 1.1B",
        1_100_048_384,
        "Zhang et al. 2024; model card",
        _llama(22, 2048, 32, 5632, 4),
    ),
    Public(
        "Mistral 7B",
        7_241_732_096,
        "Jiang et al. 2023, table 1; model card Mistral-7B-v0.1",
        _llama(32, 4096, 32, 14336, 8, "mistral"),
    ),
    Public(
        "Mixtral 8x7B",
        46_702_792_704,
        "Jiang et al. 2024, table 1: 47B, of which 13B active; model card Mixtral-8x7B-v0.1",
        _llama(32, 4096, 32, 14336, 8, "mixtral", num_local_experts=8, num_experts_per_tok=2),
        active=12_879_925_248,
    ),
    Public(
        "Qwen2.5 0.5B",
        494_032_768,
        QWEN25,
        _llama(24, 896, 14, 4864, 2, "qwen2", vocab_size=151936, tie_word_embeddings=True),
    ),
    Public("Qwen2.5 7B", 7_615_616_512, QWEN25, _llama(28, 3584, 28, 18944, 4, "qwen2", vocab_size=152064)),
    Public("Qwen2.5 72B", 72_706_203_648, QWEN25, _llama(80, 8192, 64, 29568, 8, "qwen2", vocab_size=152064)),
    Public("Qwen3 8B", 8_190_735_360, QWEN3, _llama(36, 4096, 32, 12288, 8, "qwen3", head_dim=128)),
    Public(
        "Qwen3 30B-A3B",
        30_532_122_624,
        QWEN3,
        _llama(
            48,
            2048,
            32,
            6144,
            4,
            "qwen3_moe",
            head_dim=128,
            num_experts=128,
            num_experts_per_tok=8,
            moe_intermediate_size=768,
        ),
        active=3_353_032_704,
    ),
    Public("Gemma 2B", 2_506_172_416, GEMMA, _llama(18, 2048, 8, 16384, 1, "gemma", head_dim=256)),
    Public("Gemma 7B", 8_537_680_896, GEMMA, _llama(28, 3072, 16, 24576, 16, "gemma", head_dim=256)),
    Public("Gemma 2 2B", 2_614_341_888, GEMMA, _llama(26, 2304, 8, 9216, 4, "gemma2", head_dim=256)),
    Public(
        "Gemma 3 1B",
        999_885_952,
        "Gemma Team 2025; model card",
        _llama(26, 1152, 4, 6912, 1, "gemma3_text", head_dim=256, vocab_size=262144),
    ),
    Public(
        "DeepSeekMoE 16B",
        16_375_728_128,
        "Dai et al. 2024, table 6; model card deepseek-moe-16b-base",
        family="decoder",
        args={
            "layers": 28,
            "heads": 16,
            "width": 2048,
            "hidden": 10944,
            "experts": 64,
            "top_k": 6,
            "expert_hidden": 1408,
            "shared_experts": 2,
            "dense_layers": 1,
            "vocab": 102400,
            "gated": True,
            "norm": "rmsnorm",
            "positions": "rotary",
            "bias": False,
            "tied": False,
        },
        active=2_828_650_496,
    ),
    Public(
        "Pythia 160M",
        162_322_944,
        "Biderman et al. 2023, table 1; model card pythia-160m",
        _llama(12, 768, 12, 3072, kind="gpt_neox", vocab_size=50304),
    ),
    Public("OPT 125M", 125_239_296, "Zhang et al. 2022; model card opt-125m", {"model_type": "opt"}),
    Public(
        "ResNet-18",
        11_689_512,
        VISION,
        _classes("resnet", layer_type="basic", hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2]),
    ),
    Public("ResNet-50", 25_557_032, VISION, _classes("resnet")),
    Public("ResNet-152", 60_192_808, VISION, _classes("resnet", depths=[3, 8, 36, 3])),
    Public(
        "ResNeXt-101 32x8d",
        88_791_336,
        VISION,
        family="convnet",
        args={
            "block": "bottleneck",
            "stem": 64,
            "channels": [256, 512, 1024, 2048],
            "depths": [3, 4, 23, 3],
            "groups": 32,
            "expansion": 1,
            "classes": 1000,
        },
    ),
    Public("MobileNetV2", 3_504_872, VISION, _classes("mobilenet_v2")),
    Public("ConvNeXt tiny", 28_589_128, VISION, _classes("convnext")),
    Public(
        "ConvNeXt base",
        88_591_464,
        VISION,
        _classes("convnext", hidden_sizes=[128, 256, 512, 1024], depths=[3, 3, 27, 3]),
    ),
    Public("ViT-B/16", 86_567_656, VISION, _classes("vit")),
    Public(
        "ViT-L/16",
        304_326_632,
        VISION,
        _classes(
            "vit",
            hidden_size=1024,
            num_hidden_layers=24,
            num_attention_heads=16,
            intermediate_size=4096,
        ),
    ),
)
