"""Ellwand's Triton kernels, each file with a list of its variants. ``python/triton_kernels`` compiles and tests them."""
