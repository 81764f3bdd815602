# examples/python/07_training.py -- lesson 7: training. First by hand: gradients and the optimizer are
# terms of the graph, and an execute is a step. Then with a loop that is there already: batches,
# validation, checkpoints.
import pathlib
import tempfile

import luminal as pl
import numpy as np

# Two spirals: points [256, 2], and which of the two each belongs to.
turn = np.sqrt(np.arange(256) // 2 / 128) * 2 * np.pi
side = np.where(np.arange(256) % 2 == 0, 1, -1)
points = np.stack([side * turn * np.cos(turn), side * turn * np.sin(turn)], axis=1).astype(np.float32) / 6
spiral = (np.arange(256) % 2).astype(np.int64)

# By hand. Parameters are states; update() says what they become.
random = np.random.default_rng(1)
with pl.Graph() as g:
    x, y = pl.tensor(points), pl.tensor(spiral)
    w1 = pl.state("w1", random.normal(0, 1, (2, 32)).astype(np.float32))
    b1 = pl.state("b1", random.normal(0, 0.5, 32).astype(np.float32))
    w2 = pl.state("w2", random.normal(0, 0.25, (32, 32)).astype(np.float32))
    w3 = pl.state("w3", random.normal(0, 0.25, (32, 2)).astype(np.float32))
    logits = pl.tanh(pl.tanh(x @ w1 + b1) @ w2) @ w3
    loss = pl.cross_entropy(logits, y).keep()
    right = pl.accuracy(logits, y).keep()
    gradients, norm = pl.clip_grad_norm(pl.gradients([loss], [w1, b1, w2, w3]), 1.0)
    pl.adamw(pl.schedules.cosine(0.02, 300)).update([w1, b1, w2, w3], gradients)
    for step in range(300):
        pl.execute()
        if step % 150 == 149:
            print(f"step {step}: loss {loss.item():.1f}, {100 * right.item():.0f} % right")


# The same with a Trainer. A model is a function of a scope, which gives inputs and parameters.
def model(scope):
    h = scope.input("x")
    for i, (inputs, outputs) in enumerate([(2, 32), (32, 32)]):
        w = scope.parameter(f"w{i}", (inputs, outputs), pl.init.normal(1 / np.sqrt(inputs)))
        h = scope.dropout(pl.tanh(h @ w + scope.parameter(f"b{i}", outputs, pl.init.normal(0.5))), 0.05)
    logits = h @ scope.parameter("head", (32, 2), pl.init.xavier())
    return pl.cross_entropy(logits, scope.input("y")), {"accuracy": pl.accuracy(logits, scope.input("y"))}


train, test = pl.datasets.split(pl.datasets.from_arrays(x=points, y=spiral), 0.75, seed=1)
with tempfile.TemporaryDirectory() as folder:
    options = dict(batch=64, steps=300, seed=3, clip_norm=1.0, validation=test,
                   optimizer=lambda: pl.adamw(pl.schedules.cosine(0.02, 300)))
    trainer = pl.Trainer(model, train, folder=pathlib.Path(folder) / "run", **options)
    trainer.run()
    print("most of the other points are right:", trainer.validate().metrics["accuracy"] > 0.9)

    # A checkpoint goes on bit for bit.
    first, second = pl.Trainer(model, train, **options), pl.Trainer(model, train, **options)
    for _ in range(3):
        first.step()
    first.save(f"{folder}/three")
    second.resume(f"{folder}/three")
    print("the same loss:", first.step().loss == second.step().loss)


# What was learnt, as a graph for inference.
answer = []


def infer(scope):
    x = scope.graph.tensor(points[100:104])
    for i, (inputs, outputs) in enumerate([(2, 32), (32, 32)]):
        x = pl.tanh(x @ scope.parameter(f"w{i}", (inputs, outputs)) + scope.parameter(f"b{i}", outputs))
    answer.append((x @ scope.parameter("head", (32, 2))).argmax(1).keep())


trainer.with_values(infer).execute()
print("answer:", answer[0].tolist())
