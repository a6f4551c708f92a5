"""A training script whose model runs no forward of its own: its loss calls its parts."""

import torch
from torch import nn
from torch.nn import functional


class Coder(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.dec = nn.Sequential(nn.Linear(8, 4))

    def loss(self, x):
        return functional.mse_loss(self.dec(self.enc(x)), x)


torch.manual_seed(0)
coder = Coder()
optimizer = torch.optim.Adam(coder.parameters(), 0.01)
for _ in range(3):
    loss = coder.loss(torch.randn(3, 4))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
