# A token model trained with padding to the longest of a batch and gradients accumulated over batches.
import torch
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 16, padding_idx=0)
        self.encoder = nn.LSTM(16, 16, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, tokens):
        return self.head(self.encoder(self.words(tokens))[0])


data = [(torch.randint(1, 50, (n,)), torch.randint(5, (n,))) for n in torch.randint(3, 7, (48,)).tolist()]
pad = lambda rows, value: nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value)
loader = torch.utils.data.DataLoader(data, batch_size=4, shuffle=True, collate_fn=lambda rows: (
    pad([row[0] for row in rows], 0), pad([row[1] for row in rows], -100)))
model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
for epoch in range(2):
    for step, (tokens, tags) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(tokens).transpose(1, 2), tags) / 2
        loss.backward()
        if step % 2:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
