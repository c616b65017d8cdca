"""`triton._C`: nothing here is written in C."""
