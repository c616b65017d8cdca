"""`triton.compiler.make_launcher`: empty, as it is in Triton."""
