"""Cells of a notebook, run by a plain shell; prints the sites that were struck."""

import json
import sys

from IPython.core.interactiveshell import InteractiveShell

TRAINING = """\
injector = Injector(plan, model=model)
loss = forward(torch.ones(1, 2)).sum()
loss.backward()
injector.close()
"""
CELLS = [
    "import torch\nfrom fi_notebook import Injector\nmodel = torch.nn.Linear(2, 2)",
    "def forward(x):\n    y = model(x)\n    return y + model(x)",
    TRAINING,
]

shell = InteractiveShell.instance()
shell.push({"plan": json.loads(sys.argv[1])})
for cell in CELLS:
    shell.run_cell(cell, store_history=True).raise_error()
for injection in shell.user_ns["injector"].injections:
    print("STRUCK", injection.fault, injection.site, injection.site.code[0].label)
