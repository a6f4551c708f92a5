"""Architectures of `transformers`, made from small configs; nothing is downloaded.

    model, inputs = ARCHITECTURES["mamba"].make(torch.bfloat16)
    model(**inputs).loss

Each is as its own code makes it: dropout, router losses, masks and convolutions included.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from tests.models import seeded

__all__ = ["ARCHITECTURES", "Architecture"]

_WORDS = 37
_NARROW = {"vocab_size": _WORDS, "hidden_size": 16, "num_hidden_layers": 2}
_HEADS = {**_NARROW, "intermediate_size": 24, "num_attention_heads": 2}
_LONG = {**_HEADS, "max_position_embeddings": 32, "pad_token_id": 0}
_GROUPED = {**_LONG, "num_key_value_heads": 1, "use_cache": False}
_PICTURE = {"image_size": 8, "num_channels": 3, "num_labels": 3}
_PATCHES = {
    **_PICTURE,
    "patch_size": 4,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
}


def _text(length: int = 8) -> dict[str, Any]:
    words = torch.randint(1, _WORDS, (2, length))
    return {"input_ids": words, "labels": words}


def _pictures(side: int = 8) -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, side, side), "labels": torch.tensor([0, 2])}


def _sound() -> dict[str, Any]:
    return {"input_values": torch.randn(2, 400), "labels": torch.randint(1, 5, (2, 3))}


@dataclass(frozen=True)
class Architecture:
    """One architecture.

    Attributes:
        family: What it stands for in the table.
        name: Its classes are ``<name>Config`` and ``<name><head>``.
        head: What it is made for.
        options: Of its config.
        inputs: Makes one batch.
        checkpointed: Whether its layers are computed again in the backward pass.
        dtypes: In which it runs.
    """

    family: str
    name: str
    head: str
    options: Mapping[str, Any]
    inputs: Callable[[], dict[str, Any]] = field(default=_text)
    checkpointed: bool = False
    dtypes: tuple[torch.dtype, ...] = (torch.float32, torch.bfloat16)

    def make(self, dtype: torch.dtype) -> tuple[nn.Module, dict[str, Any]]:
        """The model, in training mode, and a batch for it."""
        transformers = importlib.import_module("transformers")
        config = getattr(transformers, f"{self.name}Config")(**self.options)
        with seeded(0):
            model: nn.Module = getattr(transformers, self.name + self.head)(config)
            inputs = self.inputs()
        model.to(dtype).train()
        if self.checkpointed:
            model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]  # of transformers
        floats = {k: v.to(dtype) for k, v in inputs.items() if v.is_floating_point()}
        return model, inputs | floats


_LM = "ForCausalLM"

ARCHITECTURES: dict[str, Architecture] = {
    "gpt2": Architecture(
        "decoder",
        "GPT2",
        "LMHeadModel",
        {"vocab_size": _WORDS, "n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 32},
    ),
    "llama, checkpointed": Architecture("decoder", "Llama", _LM, _GROUPED, checkpointed=True),
    "qwen3": Architecture("decoder", "Qwen3", _LM, {**_GROUPED, "head_dim": 8}),
    "gemma2": Architecture(
        "decoder", "Gemma2", _LM, {**_GROUPED, "head_dim": 8, "sliding_window": 4}
    ),
    "xlnet": Architecture(
        "decoder",
        "XLNet",
        "LMHeadModel",
        {"vocab_size": _WORDS, "d_model": 16, "n_layer": 2, "n_head": 2, "d_inner": 24},
    ),
    "bert": Architecture("encoder", "Bert", "ForMaskedLM", _LONG),
    "albert": Architecture(
        "encoder, one layer shared", "Albert", "ForMaskedLM", {**_LONG, "embedding_size": 8}
    ),
    "deberta": Architecture("encoder", "DebertaV2", "ForMaskedLM", _LONG),
    "fnet": Architecture(
        "encoder of Fourier transforms",
        "FNet",
        "ForMaskedLM",
        _LONG,
        dtypes=(torch.float32,),  # torch has no bfloat16 transform
    ),
    "t5": Architecture(
        "encoder-decoder",
        "T5",
        "ForConditionalGeneration",
        {
            "vocab_size": _WORDS,
            "d_model": 16,
            "d_kv": 8,
            "d_ff": 24,
            "num_layers": 2,
            "num_heads": 2,
            "decoder_start_token_id": 0,
        },
    ),
    "bart": Architecture(
        "encoder-decoder",
        "Bart",
        "ForConditionalGeneration",
        {
            "vocab_size": _WORDS,
            "d_model": 16,
            "encoder_layers": 2,
            "decoder_layers": 2,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 24,
            "decoder_ffn_dim": 24,
            "max_position_embeddings": 32,
        },
    ),
    "mixtral": Architecture(
        "mixture of experts",
        "Mixtral",
        _LM,
        {**_GROUPED, "num_local_experts": 3, "output_router_logits": True},
    ),
    "switch": Architecture(
        "mixture of experts",
        "SwitchTransformers",
        "ForConditionalGeneration",
        {
            "vocab_size": _WORDS,
            "d_model": 16,
            "d_kv": 8,
            "d_ff": 24,
            "num_layers": 2,
            "num_decoder_layers": 2,
            "num_heads": 2,
            "num_experts": 3,
            "decoder_start_token_id": 0,
        },
    ),
    "mamba": Architecture("state space", "Mamba", _LM, {**_NARROW, "state_size": 4}),
    "mamba2": Architecture(
        "state space",
        "Mamba2",
        _LM,
        {
            **_NARROW,
            "state_size": 4,
            "num_heads": 4,
            "head_dim": 8,
            "n_groups": 1,
            "chunk_size": 4,
        },
    ),
    "rwkv": Architecture(
        "RWKV",
        "Rwkv",
        _LM,
        {**_NARROW, "context_length": 16, "use_cache": False},
        lambda: _text(4),  # it computes word by word
    ),
    "recurrent gemma": Architecture(
        "recurrent",
        "RecurrentGemma",
        _LM,
        {**_GROUPED, "head_dim": 8, "num_hidden_layers": 3, "lru_width": 16},
    ),
    "reformer": Architecture(
        "reversible, custom functions",
        "Reformer",
        "ModelWithLMHead",
        {
            "vocab_size": _WORDS,
            "hidden_size": 16,
            "num_attention_heads": 2,
            "attention_head_size": 8,
            "feed_forward_size": 24,
            "attn_layers": ["local", "lsh"],
            "axial_pos_shape": [4, 2],
            "axial_pos_embds_dim": [8, 8],
            "max_position_embeddings": 8,
            "local_attn_chunk_length": 4,
            "lsh_attn_chunk_length": 4,
            "num_buckets": 2,
            "is_decoder": True,
        },
    ),
    "vit": Architecture("vision transformer", "ViT", "ForImageClassification", _PATCHES, _pictures),
    "vit mae": Architecture(
        "masked autoencoder",
        "ViTMAE",
        "ForPreTraining",
        {
            **_PATCHES,
            "decoder_hidden_size": 16,
            "decoder_intermediate_size": 24,
            "decoder_num_attention_heads": 2,
            "decoder_num_hidden_layers": 1,
        },
        lambda: {"pixel_values": torch.randn(2, 3, 8, 8)},
    ),
    "swin": Architecture(
        "vision transformer",
        "Swin",
        "ForImageClassification",
        {**_PICTURE, "patch_size": 2, "embed_dim": 8, "depths": [2, 1], "num_heads": [2, 2]}
        | {"window_size": 2},
        _pictures,
    ),
    "convnext": Architecture(
        "ConvNet",
        "ConvNext",
        "ForImageClassification",
        {**_PICTURE, "hidden_sizes": [8, 16], "depths": [1, 1], "num_stages": 2}
        | {"drop_path_rate": 0.1},
        lambda: _pictures(16),
    ),
    "resnet": Architecture(
        "ConvNet",
        "ResNet",
        "ForImageClassification",
        {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1], "num_labels": 3}
        | {"layer_type": "basic"},
        lambda: _pictures(16),
    ),
    "wav2vec2": Architecture(
        "speech",
        "Wav2Vec2",
        "ForCTC",
        {
            **_HEADS,
            "conv_dim": (8, 8),
            "conv_stride": (5, 2),
            "conv_kernel": (10, 3),
            "num_feat_extract_layers": 2,
            "num_conv_pos_embeddings": 4,
            "num_conv_pos_embedding_groups": 2,
            "mask_time_length": 2,
            "ctc_loss_reduction": "mean",
            "ctc_zero_infinity": True,
        },
        _sound,
    ),
    "whisper": Architecture(
        "speech",
        "Whisper",
        "ForConditionalGeneration",
        {
            "vocab_size": _WORDS,
            "d_model": 16,
            "encoder_layers": 1,
            "decoder_layers": 1,
            "encoder_attention_heads": 2,
            "decoder_attention_heads": 2,
            "encoder_ffn_dim": 24,
            "decoder_ffn_dim": 24,
            "num_mel_bins": 8,
            "max_source_positions": 8,
            "max_target_positions": 16,
            "pad_token_id": 0,
            "bos_token_id": 1,
            "eos_token_id": 2,
            "decoder_start_token_id": 1,
        },
        lambda: {
            "input_features": torch.randn(2, 8, 16),
            "labels": torch.randint(3, _WORDS, (2, 6)),
        },
    ),
}
"""Every architecture by name."""
