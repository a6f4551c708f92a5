"""A training script that knows nothing of fault injection: two models, one trains first."""

import sys

import torch
from torch import nn


class Teacher(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)

    def forward(self, x):
        return self.fc(x)


class Student(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.out = nn.Linear(2, 2)

    def forward(self, x):
        return self.out(torch.relu(self.fc(x)))


def main():
    torch.manual_seed(0)
    teacher, student = Teacher(), Student()
    x = torch.randn(3, 4)
    for model in (teacher, student):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(int(sys.argv[1])):
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            print(f"{type(model).__name__} {step} {loss.item():.6f}")


if __name__ == "__main__":
    main()
