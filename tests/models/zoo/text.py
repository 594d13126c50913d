"""Language models: decoders, encoders, encoder-decoders, recurrent ones, a mixture of experts."""

import torch
from torch.nn import functional as F

from zoo.common import model, tokens, training

VOCABULARY, LENGTH, WIDTH = 199, 24, 64


def _causal(module, optimizer, **options):
    return training(module, optimizer, tokens(2, LENGTH, VOCABULARY),
                    lambda ids: module(input_ids=ids, labels=ids).loss, **options)


def _masked(module, optimizer, **options):
    batches = []
    for (ids,) in tokens(2, LENGTH, VOCABULARY):
        labels = torch.where(torch.rand(ids.shape) < 0.3, ids, -100)
        mask = torch.ones_like(ids)
        mask[1, -5:] = 0
        batches.append((ids, mask, labels))
    return training(module, optimizer, batches,
                    lambda ids, mask, labels: module(input_ids=ids, attention_mask=mask, labels=labels).loss, **options)


def _small(**more):
    return {"vocab_size": VOCABULARY, "hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4,
            "intermediate_size": 128, "max_position_embeddings": 64, **more}


@model("gpt2", packages=("transformers",))
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    module = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=WIDTH, n_layer=2, n_head=4,
                                        bos_token_id=0, eos_token_id=0))
    return _causal(module, torch.optim.AdamW(module.parameters(), lr=1e-3, foreach=True), clip=1.0)


@model("gpt2_fp16", packages=("transformers",))
def gpt2_fp16():
    from transformers import GPT2Config, GPT2LMHeadModel
    module = GPT2LMHeadModel(GPT2Config(vocab_size=VOCABULARY, n_positions=64, n_embd=WIDTH, n_layer=2, n_head=4,
                                        bos_token_id=0, eos_token_id=0))
    return _causal(module, torch.optim.AdamW(module.parameters(), lr=1e-3), autocast=torch.float16,
                   scaler=torch.amp.GradScaler("cpu", init_scale=1024.0))


@model("bert", packages=("transformers",))
def bert():
    from transformers import BertConfig, BertForMaskedLM
    module = BertForMaskedLM(BertConfig(**_small()))
    return _masked(module, torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True))


@model("roberta", packages=("transformers",))
def roberta():
    from transformers import RobertaConfig, RobertaForMaskedLM
    module = RobertaForMaskedLM(RobertaConfig(**_small()))
    return _masked(module, torch.optim.AdamW(module.parameters(), lr=1e-3), autocast=torch.bfloat16)


@model("distilbert", packages=("transformers",))
def distilbert():
    from transformers import DistilBertConfig, DistilBertForMaskedLM
    module = DistilBertForMaskedLM(
        DistilBertConfig(vocab_size=VOCABULARY, dim=WIDTH, n_layers=2, n_heads=4, hidden_dim=128,
                         max_position_embeddings=64))
    return _masked(module, torch.optim.Adam(module.parameters(), lr=1e-3, foreach=True))


@model("albert", packages=("transformers",))
def albert():
    from transformers import AlbertConfig, AlbertForMaskedLM
    module = AlbertForMaskedLM(AlbertConfig(**_small(embedding_size=32, hidden_dropout_prob=0.1)))
    return _masked(module, torch.optim.Adagrad(module.parameters(), lr=1e-2))


@model("electra", packages=("transformers",))
def electra():
    from transformers import ElectraConfig, ElectraForPreTraining
    module = ElectraForPreTraining(ElectraConfig(**_small(embedding_size=32)))
    batches = [(ids, torch.randint(0, 2, ids.shape)) for (ids,) in tokens(2, LENGTH, VOCABULARY)]
    return training(module, torch.optim.NAdam(module.parameters(), lr=1e-3), batches,
                    lambda ids, labels: module(input_ids=ids, labels=labels).loss)


def _sequence_to_sequence(module, optimizer, **options):
    batches = [(a, b) for (a,), (b,) in zip(tokens(2, LENGTH, VOCABULARY), tokens(2, 16, VOCABULARY))]
    return training(module, optimizer, batches, lambda ids, labels: module(input_ids=ids, labels=labels).loss,
                    **options)


@model("t5", packages=("transformers",))
def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    module = T5ForConditionalGeneration(
        T5Config(vocab_size=VOCABULARY, d_model=WIDTH, d_kv=16, d_ff=128, num_layers=2, num_heads=4,
                 decoder_start_token_id=0))
    return _sequence_to_sequence(module, torch.optim.Adafactor(module.parameters(), lr=1e-2))


@model("bart", packages=("transformers",))
def bart():
    from transformers import BartConfig, BartForConditionalGeneration
    module = BartForConditionalGeneration(
        BartConfig(vocab_size=VOCABULARY, d_model=WIDTH, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4,
                   decoder_attention_heads=4, encoder_ffn_dim=128, decoder_ffn_dim=128, max_position_embeddings=64))
    return _sequence_to_sequence(module, torch.optim.AdamW(module.parameters(), lr=1e-3, amsgrad=True))


def llama_module():
    from transformers import LlamaConfig, LlamaForCausalLM
    return LlamaForCausalLM(LlamaConfig(**_small(num_key_value_heads=2)))


@model("llama", packages=("transformers",))
def llama():
    module = llama_module()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3, fused=True)
    return _causal(module, optimizer, autocast=torch.bfloat16, clip=1.0)


@model("mistral", packages=("transformers",))
def mistral():
    from transformers import MistralConfig, MistralForCausalLM
    module = MistralForCausalLM(MistralConfig(**_small(num_key_value_heads=2, sliding_window=8)))
    return _causal(module, torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9, nesterov=True, foreach=True))


@model("mixture_of_experts", packages=("transformers",))
def mixture_of_experts():
    from transformers import MixtralConfig, MixtralForCausalLM
    module = MixtralForCausalLM(
        MixtralConfig(
            **_small(num_key_value_heads=2, num_local_experts=4, num_experts_per_tok=2, output_router_logits=True)))
    return _causal(module, torch.optim.AdamW(module.parameters(), lr=1e-3, foreach=True))


class RecurrentLanguageModel(torch.nn.Module):
    """Embedding, two recurrent layers with dropout between them, output over the vocabulary; the state is carried
    along."""

    def __init__(self, cell):
        super().__init__()
        self.embed = torch.nn.Embedding(VOCABULARY, WIDTH)
        self.recurrent = cell(WIDTH, WIDTH, num_layers=2, dropout=0.2, batch_first=True)
        self.head = torch.nn.Linear(WIDTH, VOCABULARY)
        self.state = None

    def forward(self, ids):
        out, state = self.recurrent(self.embed(ids), self.state)
        self.state = tuple(part.detach() for part in state) if isinstance(state, tuple) else state.detach()
        return self.head(out)


def _recurrent(cell, optimizer_of):
    module = RecurrentLanguageModel(cell)

    def loss_of(ids):
        return F.cross_entropy(module(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    return training(module, optimizer_of(module.parameters()), tokens(2, LENGTH, VOCABULARY), loss_of, clip=0.5)


@model("lstm")
def lstm():
    return _recurrent(torch.nn.LSTM, lambda parameters: torch.optim.SGD(parameters, lr=0.5))


@model("gru")
def gru():
    return _recurrent(torch.nn.GRU, lambda parameters: torch.optim.Adam(parameters, lr=1e-3))
