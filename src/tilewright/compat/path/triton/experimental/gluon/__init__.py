"""`triton.experimental.gluon`: descriptors only; its kernels are not compiled."""
