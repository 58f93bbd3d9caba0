# docs/tkc.md must be what `tkc help --markdown` prints now.
execute_process(COMMAND ${TKC} help --markdown OUTPUT_VARIABLE now RESULT_VARIABLE status)
file(READ ${PAGE} written)
if(NOT status EQUAL 0 OR NOT now STREQUAL written)
    message(FATAL_ERROR "docs/tkc.md is out of date: tkc help --markdown --out=docs/tkc.md")
endif()
