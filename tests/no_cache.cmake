# Included by ctest before it runs: tests see no kernels that earlier ones compiled. Those of the cache set it up themselves.
set(ENV{TKC_CACHE} off)
