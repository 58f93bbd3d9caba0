# Programs that write C: re2c (lexers) and lemon (grammars). Folders that need them call
#
#     tk_re2c(OUT lexer.c FROM lexer.re)          -> ${CMAKE_CURRENT_BINARY_DIR}/lexer.c
#     tk_lemon(OUT grammar.c FROM grammar.y)      -> ${CMAKE_CURRENT_BINARY_DIR}/grammar.c, grammar.h
#
# or write their own commands with ${TK_RE2C} and ${TK_LEMON}.

find_program(TK_RE2C re2c)
find_program(TK_LEMON lemon)
if(NOT TK_RE2C OR NOT TK_LEMON)
    message(FATAL_ERROR "re2c and lemon are needed (Debian: re2c, lemon)")
endif()

function(tk_re2c)
    cmake_parse_arguments(arg "" "OUT;FROM" "FLAGS" ${ARGN})
    set(out ${CMAKE_CURRENT_BINARY_DIR}/${arg_OUT})
    set(from ${CMAKE_CURRENT_SOURCE_DIR}/${arg_FROM})
    add_custom_command(OUTPUT ${out} DEPENDS ${from} VERBATIM
        COMMAND ${TK_RE2C} -W ${arg_FLAGS} --no-generation-date -o ${out} ${from})
endfunction()

function(tk_lemon)
    cmake_parse_arguments(arg "" "OUT;FROM" "FLAGS" ${ARGN})
    get_filename_component(base ${arg_FROM} NAME_WE)
    set(out ${CMAKE_CURRENT_BINARY_DIR}/${base}.c)
    set(from ${CMAKE_CURRENT_SOURCE_DIR}/${arg_FROM})
    add_custom_command(OUTPUT ${out} ${CMAKE_CURRENT_BINARY_DIR}/${base}.h DEPENDS ${from} VERBATIM
        COMMAND ${TK_LEMON} -q ${arg_FLAGS} -d${CMAKE_CURRENT_BINARY_DIR} ${from})
endfunction()
