"""Matrix products: by ordinary arithmetic, by `mma.sync`, by `wgmma`, and by `tcgen05` with tensor memory."""
