"""A training script with the injector's two lines, as a person would write it."""

import logging
import sys

import torch
from torch import nn
from torch.nn import functional

from fi_notebook import Injector

logging.basicConfig(level=logging.INFO, stream=sys.stdout)


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(width, width),
            nn.Sigmoid(),
            nn.Linear(width, width),
            nn.Sigmoid(),
            nn.Linear(width, width),
            nn.Sigmoid(),
            nn.Linear(width, width),
        )
        self.out = nn.Linear(width, width)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)  # each layer
        return self.out(x)


class Model(nn.Module):
    def __init__(self, width, classes):
        super().__init__()
        self.layer = Layer(width)
        self.out = nn.Linear(width, classes)
        self.act = nn.LogSoftmax(dim=1)

    def forward(self, x):
        x = self.layer(x)  # the block
        return self.act(self.out(x))


torch.manual_seed(0)
model = Model(8, 4)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
injector = Injector(sys.argv[1], model=model, micro_batch_per_step=2)

x, y = torch.randn(6, 8), torch.randint(4, (6,))
for step in range(3):
    for micro_batch in range(2):
        loss = functional.nll_loss(model(x), y)  # the loss
        loss.backward()  # backward
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {loss.item():.6f}")
