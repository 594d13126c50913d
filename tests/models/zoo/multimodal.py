"""Speech, and images with text."""

import torch

from zoo.common import model, tokens, training


@model("whisper", packages=("transformers",))
def whisper():
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    module = WhisperForConditionalGeneration(
        WhisperConfig(vocab_size=199, num_mel_bins=16, d_model=32, encoder_layers=2, decoder_layers=2,
                      encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=64, decoder_ffn_dim=64,
                      max_source_positions=40, max_target_positions=24, pad_token_id=0, bos_token_id=1, eos_token_id=1,
                      decoder_start_token_id=1, begin_suppress_tokens=None, suppress_tokens=None, dropout=0.1))
    batches = [(torch.randn(2, 16, 80), ids) for (ids,) in tokens(2, 16, 199)]
    return training(module, torch.optim.AdamW(module.parameters(), lr=1e-3), batches,
                    lambda sound, ids: module(input_features=sound, labels=ids).loss)


@model("wav2vec2", packages=("transformers",))
def wav2vec2():
    from transformers import Wav2Vec2Config, Wav2Vec2ForCTC
    module = Wav2Vec2ForCTC(
        Wav2Vec2Config(vocab_size=32, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                       conv_dim=(16, 16, 16), conv_stride=(5, 4, 4), conv_kernel=(10, 8, 4), num_feat_extract_layers=3,
                       num_conv_pos_embeddings=16, num_conv_pos_embedding_groups=4, mask_time_length=2,
                       mask_time_prob=0.1, ctc_loss_reduction="mean", layerdrop=0.0))
    batches = [(torch.randn(2, 4000), torch.randint(1, 32, (2, 8))) for _ in range(3)]
    return training(module, torch.optim.AdamW(module.parameters(), lr=1e-3, foreach=True), batches,
                    lambda sound, labels: module(input_values=sound, labels=labels).loss)


@model("clip", packages=("transformers",))
def clip():
    from transformers import CLIPConfig, CLIPModel
    text = {
        "vocab_size": 199, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "max_position_embeddings": 24, "projection_dim": 32, "bos_token_id": 0, "eos_token_id": 198
    }
    vision = {
        "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 32,
        "patch_size": 8, "projection_dim": 32
    }
    module = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=32))
    batches = [(ids, torch.randn(4, 3, 32, 32)) for (ids,) in tokens(4, 16, 198)]
    return training(module, torch.optim.Adam(module.parameters(), lr=1e-3, fused=True), batches,
                    lambda ids, pixels: module(input_ids=ids, pixel_values=pixels, return_loss=True).loss)
