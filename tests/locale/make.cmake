# Makes two locales in TO: numbers with a comma and Turkish letters (of which the capital of i is none of ASCII), and a smaller
# one where the machine lacks the sources of that.
if(NOT LOCALEDEF)
    message("skipped: there is no localedef")
    return()
endif()
file(MAKE_DIRECTORY ${TO})
execute_process(COMMAND ${LOCALEDEF} -i tr_TR -f UTF-8 ${TO}/tr_TR.UTF-8 OUTPUT_QUIET ERROR_QUIET)
execute_process(COMMAND ${LOCALEDEF} -c -i ${FROM}/comma.def -f ANSI_X3.4-1968 ${TO}/comma OUTPUT_QUIET ERROR_QUIET)
if(NOT EXISTS ${TO}/comma)
    message("skipped: localedef makes no locale")
endif()
