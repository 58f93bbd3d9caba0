# Turns lang/std/*.tk into one C file:  cmake -DFROM=dir -DTO=std_embed.c -P std_embed.cmake
file(GLOB files ${FROM}/*.tk)
list(SORT files)
set(text "#include \"lang/std_embed.h\"\n\n#include <string.h>\n\n")
set(rows "")
foreach(file ${files})
    get_filename_component(name ${file} NAME)
    string(MAKE_C_IDENTIFIER ${name} id)
    file(READ ${file} hex HEX)
    string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
    string(REGEX REPLACE "(................................................................................)" "\\1\n" bytes "${bytes}")
    string(APPEND text "static const char ${id}[] = {\n${bytes}0};\n")
    string(APPEND rows "    {\"${name}\", ${id}, sizeof ${id} - 1},\n")
endforeach()
string(APPEND text "
static const struct { const char *name, *text; size_t size; } files[] = {
${rows}    {NULL, NULL, 0},
};

const char *std_source(const char *name, size_t *size)
{
    for (int i = 0; files[i].name; i++) {
        if (strcmp(files[i].name, name) != 0) continue;
        *size = files[i].size;
        return files[i].text;
    }
    return NULL;
}

const char *std_name(int i)
{
    return i >= 0 && i < (int)(sizeof files / sizeof *files) - 1 ? files[i].name : NULL;
}
")
file(WRITE ${TO} "${text}")
