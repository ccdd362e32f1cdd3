"""How the light has changed between a picture and its background; for other kernels alone."""

# Cython adds these to a compiled module.
__pyx_capi__: dict[str, object]
__test__: dict[str, str]
