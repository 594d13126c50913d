# A GRU trained without torch.optim (word_language_model's way): the "iteration" that is found lies inside the
# backward pass. crucible record -o g.crtrace -- python gru_no_optimizer.py  ->  16 ops per iteration, no loss; replay
# --verify says "verified yes"
import torch
import torch.nn as nn

torch.manual_seed(0)
emb, rnn, dec = nn.Embedding(300, 64), nn.GRU(64, 64, 2, dropout=0.2), nn.Linear(64, 300)
params = [*emb.parameters(), *rnn.parameters(), *dec.parameters()]
hidden = torch.zeros(2, 20, 64)
for step in range(24):
    data = torch.randint(0, 300, (21, 20))
    hidden = hidden.detach()
    out, hidden = rnn(emb(data[:-1]), hidden)
    loss = nn.functional.cross_entropy(dec(out).view(-1, 300), data[1:].view(-1))
    for p in params:
        p.grad = None
    loss.backward()
    torch.nn.utils.clip_grad_norm_(params, 0.25)
    for p in params:
        p.data.add_(p.grad, alpha=-0.5)
    print(f"{loss.item():.4f}")
