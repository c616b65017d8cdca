"""Launches on a simulated GPU: `with tilewright.simulate("cuda:90"): kernel[grid](numpy_array, …)`."""
