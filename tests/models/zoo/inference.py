"""Models that only answer: no gradients, no optimizer; each call is an iteration."""

import itertools

import torch

from zoo.common import images, model, tokens
from zoo.text import VOCABULARY, llama_module


@model("resnet50_inference", inference=True, packages=("torchvision",))
def resnet50_inference():
    import torchvision
    module = torchvision.models.resnet50(num_classes=10).eval()
    turn = itertools.cycle(images(2, 64, 10))

    def step():
        with torch.no_grad():
            return module(next(turn)[0])

    return module, step


@model("bert_inference", inference=True, packages=("transformers",))
def bert_inference():
    from transformers import BertConfig, BertModel
    module = BertModel(BertConfig(vocab_size=VOCABULARY, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
                                  intermediate_size=128, max_position_embeddings=64)).eval()
    turn = itertools.cycle(tokens(2, 24, VOCABULARY))

    def step():
        with torch.inference_mode():
            return module(input_ids=next(turn)[0]).pooler_output

    return module, step


@model("llama_decode", inference=True, packages=("transformers",))
def llama_decode():
    """One token a step; keys and values of the tokens before are in the cache, which grows."""
    module = llama_module().eval()
    (prompt,) = tokens(1, 8, VOCABULARY)[0]
    with torch.no_grad():
        first = module(input_ids=prompt, use_cache=True)
    cache, token = first.past_key_values, first.logits[:, -1].argmax(-1, keepdim=True)

    def step():
        nonlocal token
        with torch.no_grad():
            out = module(input_ids=token, past_key_values=cache, use_cache=True)
            token = out.logits[:, -1].argmax(-1, keepdim=True)
        return out.logits

    return module, step
