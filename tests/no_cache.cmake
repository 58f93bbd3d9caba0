# Included by ctest before it runs: tests see no kernels that earlier ones compiled, and no assembler of the machine. Those of
# the cache and of the assembler set it up themselves.
set(ENV{TKC_CACHE} off)
set(ENV{TKC_PTXAS} off)
