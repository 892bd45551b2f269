"""Ellwand's Triton kernels. Each file lists its variants; ``python/triton_kernels`` compiles and tests them."""
