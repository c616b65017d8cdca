"""Matrix products: on ordinary arithmetic, on `mma.sync`, on `wgmma` and on the tensor memory of `tcgen05`."""
