# LLVM 20 or later, used through its C interface only: the target tk_llvm.
#
# The llvm-config on a PATH may belong to a much older LLVM, so the search starts at the newest
# version's own folder. The shared build links libLLVM; the static one asks that version's
# llvm-config for the archives behind the few components that we use, and takes NVPTX alone.

if(NOT LLVM_DIR)
    foreach(version 22 21 20)
        if(EXISTS /usr/lib/llvm-${version}/lib/cmake/llvm)
            set(LLVM_DIR /usr/lib/llvm-${version}/lib/cmake/llvm CACHE PATH "Where LLVMConfig.cmake is")
            break()
        endif()
    endforeach()
endif()

set(level ${CMAKE_MESSAGE_LOG_LEVEL})
set(CMAKE_MESSAGE_LOG_LEVEL WARNING)             # it looks for editors and HTTP libraries that we do not use, aloud
find_package(LLVM CONFIG QUIET)
set(CMAKE_MESSAGE_LOG_LEVEL ${level})
if(NOT LLVM_FOUND OR LLVM_VERSION_MAJOR LESS 20)
    message(FATAL_ERROR "LLVM 20 or later is needed (Debian: llvm-22-dev); "
                        "set LLVM_DIR to the folder of its LLVMConfig.cmake")
endif()
message(STATUS "LLVM ${LLVM_PACKAGE_VERSION} from ${LLVM_INSTALL_PREFIX}")

add_library(tk_llvm INTERFACE)
target_include_directories(tk_llvm SYSTEM INTERFACE ${LLVM_INCLUDE_DIRS})
if(NOT TKC_STATIC)
    target_link_libraries(tk_llvm INTERFACE LLVM)
    return()
endif()

execute_process(
    COMMAND ${LLVM_TOOLS_BINARY_DIR}/llvm-config --link-static --libfiles nvptx core analysis target
    OUTPUT_VARIABLE llvm_archives OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE status)
if(NOT status EQUAL 0)
    message(FATAL_ERROR "${LLVM_TOOLS_BINARY_DIR}/llvm-config failed: is llvm-${LLVM_VERSION_MAJOR}-dev complete?")
endif()
separate_arguments(llvm_archives)
target_link_libraries(tk_llvm INTERFACE
    -Wl,--start-group ${llvm_archives} -Wl,--end-group
    -l:libz.a -l:libzstd.a -l:libstdc++.a -static-libgcc -lm -ldl -lpthread)
