"""Pixel and box kernels that release the GIL; `reference` says in NumPy what each of them computes."""
