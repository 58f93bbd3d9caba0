# What the presets mean to the compiler and the linker.
#
# Floating-point contraction is off everywhere: the evaluator and the emulator define results bit by
# bit, and a multiply-add fused behind their back would be another result.

add_compile_options(-Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes)
add_compile_options(-ffp-contract=off -fno-strict-aliasing)
if(TKC_WERROR)
    add_compile_options(-Werror)
endif()
if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-missing-field-initializers)     # clang has {0} right, gcc 12 does not
else()
    add_compile_options(-Wno-pass-failed)                    # "not vectorized", at -O1: so what
endif()

find_program(TK_LLD NAMES ld.lld-22 ld.lld ld.lld-21 ld.lld-20)
if(TK_LLD)
    add_link_options(-fuse-ld=lld -B${CMAKE_BINARY_DIR}/linker)
    file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/linker)          # -B: where the compiler finds `ld.lld`, whatever its version
    file(CREATE_LINK ${TK_LLD} ${CMAKE_BINARY_DIR}/linker/ld.lld SYMBOLIC)
endif()

if(TKC_LIBRARY)
    set(CMAKE_POSITION_INDEPENDENT_CODE ON)
    add_compile_options(-fno-semantic-interposition)         # calls inside libtkc.so are direct
endif()

if(TKC_STATIC)
    set(loaded $<STREQUAL:$<TARGET_PROPERTY:TYPE>,MODULE_LIBRARY>)
    set(program $<STREQUAL:$<TARGET_PROPERTY:TYPE>,EXECUTABLE>)
    add_compile_options(-ffunction-sections -fdata-sections)
    if(NOT TKC_LIBRARY)
        add_compile_options($<$<NOT:${loaded}>:-fno-pie>)
    endif()
    add_link_options($<${program}:-no-pie> -Wl,--gc-sections)   # else LLVM has 100 000 relocations to run at start
    if(TK_LLD)
        add_link_options(-Wl,--icf=all -Wl,-z,keep-text-section-prefix)     # what runs at start lies together
    endif()
endif()

if(TKC_SANITIZE OR TKC_FUZZ)
    add_compile_options(-fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
    add_link_options(-fsanitize=address,undefined)
endif()
if(TKC_THREADS)
    add_compile_options(-fsanitize=thread -fno-omit-frame-pointer)
    add_link_options(-fsanitize=thread)
endif()
if(TKC_FUZZ)
    if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
        message(FATAL_ERROR "TKC_FUZZ needs clang: cmake --preset fuzz")
    endif()
    add_compile_options(-fsanitize=fuzzer-no-link -fno-sanitize-coverage=trace-cmp)    # tables are compared all the time: half of the time went there
endif()
if(TKC_COVERAGE)
    if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
        add_compile_options(-fprofile-instr-generate -fcoverage-mapping)
        add_link_options(-fprofile-instr-generate)
    else()
        add_compile_options(--coverage)
        add_link_options(--coverage)
    endif()
endif()
