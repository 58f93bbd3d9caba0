# RULE size:  no file of C has more than 900 lines.
# RULE paths: no tracked file names a place that only one machine has.
# RULE memory: all memory has an owner (lang/heap.h), but what a signal's handler frees and what the emulator has.
if(RULE STREQUAL "memory")
    set(search -nE "(^|[^>._a-zA-Z0-9])(malloc|calloc|realloc|aligned_alloc|strdup|asprintf|free)\\(" -- lang/*.[chrey] lower/*.[ch] runtime/*.[ch]
               graph/*.[ch] sema/*.[ch] parser/*.[ch] ptx/*.[ch] tkc/*.[ch] :!lang/heap.* :!lang/temporary.c)
elseif(RULE STREQUAL "size")
    set(search -c "^" -- *.c *.h *.re *.y)
else()
    set(search -naoE "(^|[^a-zA-Z0-9_.])/(home|root|work|Users)/[a-z]+" -- . :!tests/tree/tree.cmake)
endif()
execute_process(COMMAND ${GIT} -C ${ROOT} grep ${search} OUTPUT_VARIABLE found RESULT_VARIABLE status ERROR_QUIET)
if(status GREATER 1)                             # 1: nothing was found
    message("skipped: this is no git checkout")
    return()
endif()
string(STRIP "${found}" found)
string(REPLACE "\n" ";" found "${found}")

set(wrong 0)
foreach(line IN LISTS found)
    if(RULE STREQUAL "size")
        string(REGEX REPLACE "^.*:" "" lines "${line}")
        if(lines LESS_EQUAL 900)
            continue()
        endif()
        set(line "${line} lines: split it")
    endif()
    message("${line}")
    math(EXPR wrong "${wrong} + 1")
endforeach()
if(wrong)
    message(FATAL_ERROR "${wrong} places")
endif()
