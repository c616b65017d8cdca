"""`triton.experimental.gluon.nvidia`."""
