# examples/python/04_loop.py -- lesson 4: an LSTM (Hochreiter and Schmidhuber 1997) as a loop: the
# cell is made once and run for every step.
import luminal as pl
import numpy as np

steps, inputs, hidden = 6, 3, 4
xs = pl.tensor(np.sin(np.arange(steps * inputs, dtype=np.float32)).reshape(steps, inputs))
w = pl.weight("w", np.cos(np.arange((inputs + hidden) * 4 * hidden,
                                    dtype=np.float32) * 0.7).reshape(inputs + hidden, 4 * hidden))


def cell(step, carried, slices, invariants):
    h, c = carried
    gates = pl.concat([slices[0], h]) @ invariants[0]
    i, f, o, candidate = gates.split(hidden)  # input, forget, output
    c = f.sigmoid() * c + i.sigmoid() * candidate.tanh()
    h = o.sigmoid() * c.tanh()
    return [h, c], [h]


(last, _), (every,) = pl.loop(steps, [pl.zeros((hidden,)), pl.zeros((hidden,))], cell, stepped=[xs],
                              invariants=[w])
last.keep()
every.keep()
pl.execute()
print("last:", last.numpy().round(4))
print("all:", every.shape)
