# crucible.record around calls of one module, from a notebook, without warm-up: the answers of both iterations are
# outputs with equal names, and the replay is verified by them (docs/recording.md: "In a block of crucible.record() they
# count at once").
import sys
import torch
import crucible

model = torch.nn.Linear(3, 2).eval()
warm, kind = int(sys.argv[2]), sys.argv[3]
with torch.no_grad():
    with crucible.record(sys.argv[1], iterations=2, warmup=warm, end_of_iteration=kind) as recording:
        for step in range(5):
            model(torch.ones(1, 3) * step)
print(recording.summary["iterations"], recording.summary["notes"])
