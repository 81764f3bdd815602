# examples/python/03_state.py -- lesson 3: values that live from step to step. A step is a function
# of inputs and old states to outputs and new states.
import luminal as pl

with pl.Graph() as g:
    past = pl.dim("past", 0, 7)
    row = pl.input((1, 2))
    cache = pl.state("cache", (8, 2))  # zero at first

    # `update` is a value like any other: the cache with a row written. That it happens in place is
    # proved by the planner.
    following = cache.update(0, past, row)
    pl.update(cache, following)
    total = following[:past + 1].sum(axis=0).keep()

    for step in range(3):
        pl.set_dim("past", step)
        row.set([[step + 1, 10]])
        pl.execute()
        print(f"after step {step}:", total.tolist())
