# Programs that write C: re2c (lexers), lemon (grammars), protoc-c (protobuf messages). Folders that need them call
#
#     tk_re2c(OUT lexer.c FROM lexer.re)          -> ${CMAKE_CURRENT_BINARY_DIR}/lexer.c
#     tk_lemon(OUT grammar.c FROM grammar.y)      -> ${CMAKE_CURRENT_BINARY_DIR}/grammar.c, grammar.h
#     tk_protobuf_c(OUT onnx FROM onnx.proto)     -> ${CMAKE_CURRENT_BINARY_DIR}/onnx.pb-c.c, onnx.pb-c.h; link ${TK_PROTOBUF_C}
#
# or write their own commands with ${TK_RE2C} and ${TK_LEMON}.

find_program(TK_RE2C re2c)
find_program(TK_LEMON lemon)
find_program(TK_PROTOC_C protoc-c)
if(NOT TK_RE2C OR NOT TK_LEMON OR NOT TK_PROTOC_C)
    message(FATAL_ERROR "re2c, lemon and protoc-c are needed (Debian: re2c, lemon, protobuf-c-compiler)")
endif()
if(TKC_STATIC)
    set(TK_PROTOBUF_C -l:libprotobuf-c.a)
else()
    find_library(TK_PROTOBUF_C protobuf-c)
endif()
find_path(TK_PROTOBUF_C_HEADERS protobuf-c/protobuf-c.h)
if(NOT TK_PROTOBUF_C OR NOT TK_PROTOBUF_C_HEADERS)
    message(FATAL_ERROR "libprotobuf-c is needed (Debian: libprotobuf-c-dev)")
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

function(tk_protobuf_c)
    cmake_parse_arguments(arg "" "OUT;FROM" "" ${ARGN})
    set(base ${CMAKE_CURRENT_BINARY_DIR}/${arg_OUT})
    set(from ${CMAKE_CURRENT_SOURCE_DIR}/${arg_FROM})
    get_filename_component(folder ${from} DIRECTORY)
    add_custom_command(OUTPUT ${base}.pb-c.c ${base}.pb-c.h DEPENDS ${from} VERBATIM
        COMMAND ${TK_PROTOC_C} --proto_path=${folder} --c_out=${CMAKE_CURRENT_BINARY_DIR} ${from})
endfunction()
