# Turns a file into a C array, for texts the binary carries with it:
#   cmake -DFROM=errors.md -DTO=errors_md.c -DNAME=errors_md [-DSPLIT=1] -P embed.cmake
# The array ends in a 0 that NAME_size does not count. With SPLIT=1, each Markdown heading `## E` is
# replaced by a 0 and "E", so that the file becomes a sequence of terminated texts.
file(READ ${FROM} hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
if(SPLIT)
    string(REPLACE "0x0a,0x23,0x23,0x20,0x45," "0x0a,0x00,0x45," bytes "${bytes}")
endif()
string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
set(text "extern const unsigned char ${NAME}[];\nextern const unsigned int ${NAME}_size;\n")
string(APPEND text "const unsigned char ${NAME}[] = {\n${bytes}0};\n")
string(APPEND text "const unsigned int ${NAME}_size = (unsigned int)sizeof ${NAME} - 1;\n")
file(WRITE ${TO} "${text}")
