# Two optimizers over the same parameter (InfoGAN): their states have one name each, "exp_avg of parameter 0.0", and
# verification keys its noise mask, its JSON "differences" and its sensitivity spread by name. The small one's mask
# judges the large one's moments: crucible record -o t.crtrace -- python two_optimizers_one_parameter.py ; crucible
# replay t.crtrace --verify     -> exit 1, "(inf)" ... --verify --json: 'differences' has ONE entry for the two states
# of a name.      SECOND=sgd: one Adam only, verified
import os, torch
torch.manual_seed(0)
w = torch.nn.Parameter(torch.randn(64, 512))
a = torch.optim.Adam([w], lr=1e-4)
b = torch.optim.SGD([w], lr=1e-4) if os.environ.get("SECOND") == "sgd" else torch.optim.Adam([w], lr=1e-4)
for step in range(8):
    x, y = torch.randn(128, 512), torch.randn(128, 512)
    a.zero_grad(); (x @ w.t()).square().mean().backward(); a.step()            # ordinary gradients
    b.zero_grad(); ((y @ w.t()).square().mean() * 1e-7).backward(); b.step()   # small ones
