# Every `tkc run ...` line of FILE (a comment of an example, or the README's code) does what it says, on the emulator.
file(STRINGS ${FILE} lines REGEX "tkc run ")
foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[/ `]*tkc run ([^`]*)`?$" "\\1" line "${line}")
    separate_arguments(words UNIX_COMMAND "${line}")
    execute_process(COMMAND ${TKC} run --device=emu ${words} WORKING_DIRECTORY ${ROOT}
                    OUTPUT_VARIABLE out ERROR_VARIABLE out RESULT_VARIABLE status)
    message("tkc run ${line}\n${out}")
    if(NOT status EQUAL 0)
        message(FATAL_ERROR "it ended with ${status}")
    endif()
endforeach()
