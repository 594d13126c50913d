# ctc_loss with the mean of its losses: the framework fills a tensor with the targets' lengths below every operator, and
# divides by it.
import sys

import torch

torch.manual_seed(0)
net = torch.nn.Linear(8, 6)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
inputs = torch.randn(20, 3, 8)
targets = torch.randint(1, 6, (3, 5))
lengths = {
    "list": ([20, 18, 15], [5, 4, 0]), "tensor": (torch.tensor([20, 18, 15]), torch.tensor([5, 4, 0])),
    "one": (torch.tensor(20), torch.tensor(5))
}
for _ in range(6):
    scores = net(inputs).log_softmax(2)
    of_inputs, of_targets = lengths[sys.argv[1]]
    if sys.argv[1] == "one":
        loss = torch.nn.functional.ctc_loss(scores[:, 0], targets[0], of_inputs, of_targets)
    else:
        loss = torch.nn.functional.ctc_loss(scores, targets, of_inputs, of_targets, zero_infinity=True)
    with torch.inference_mode():
        torch.nn.functional.ctc_loss(net(inputs).log_softmax(2), targets, [20, 18, 15], [5, 4, 3])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
