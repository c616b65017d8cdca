# %% [markdown]
# # Autotuning
#
# How large should a tile be? It depends on the caches and the vector registers of the machine, and on the size of the data.
# `tw.autotune` measures candidates when the kernel is first launched, and keeps the fastest.

# %%
import matplotlib.pyplot as plt
import numpy as np

import tilewright as tw
import tilewright.language as tl

CONFIGS = [tw.Config({"ROWS": rows, "COLUMNS": columns}) for rows in (1, 4, 16) for columns in (64, 256)]


@tw.autotune(configs=CONFIGS, key=["m", "n"])
@tw.jit
def add_column(x_ptr, y_ptr, out_ptr, m, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    at = rows[:, None] * n + columns[None, :]
    y = tl.load(y_ptr + rows, mask=rows < m)
    tl.store(out_ptr + at, tl.load(x_ptr + at, mask=inside) + y[:, None], mask=inside)


m, n = 500, 300
x = np.random.default_rng(0).standard_normal((m, n)).astype(np.float32)
y = np.arange(m, dtype=np.float32)
out = np.empty_like(x)


def grid(chosen):
    return tw.cdiv(m, chosen["ROWS"]), tw.cdiv(n, chosen["COLUMNS"])


add_column[grid](x, y, out, m, n)
assert np.allclose(out, x + y[:, None])
print(add_column.best_config)

# %% [markdown]
# `key` names the arguments whose values make a difference: another `m` or `n` is tuned anew. The grid is a function here,
# because the number of programs depends on the tile that was chosen.
#
# ## How much does it matter?
#
# The same kernel without `autotune` can be measured tile by tile. `add_column.fn` is the kernel inside.

# %%
times = {}
for config in CONFIGS:
    chosen = config.kwargs
    times[f"{chosen['ROWS']}×{chosen['COLUMNS']}"] = tw.testing.do_bench(
        lambda chosen=chosen: add_column.fn[grid(chosen)](x, y, out, m, n, **chosen, num_threads=1), warmup=1, rep=5
    )

figure, axes = plt.subplots(figsize=(7, 3))
axes.bar(list(times), [1000 * time for time in times.values()], color="#0a7d91")
axes.set_ylabel("microseconds")
axes.set_xlabel("rows × columns of a tile")
figure.tight_layout()
plt.show()

# %% [markdown]
# ## Kernels that change what they read
#
# A candidate runs several times. If the kernel adds to an array, the array must be set back before each run:
# `restore_value=["x_ptr"]` keeps and restores its content, `reset_to_zero=["x_ptr"]` clears it.
#
# ## Fewer candidates
#
# `prune_configs_by={"early_config_prune": function}` drops candidates that cannot win, before anything is compiled. With
# `cache_results=True`, or TRITON_CACHE_AUTOTUNING=1, the winner is kept on disk for the next process.
#
# Next: [debugging](debugging.py).
