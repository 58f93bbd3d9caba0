# libtkc, from everything that tkc consists of but its command line: shared with a version in its name, and an archive of
# one object in which only the functions of tkc.h can be seen. LLVM is not inside the archive: tkc-static.pc names it. (`-ltkc`,
# which `pkg-config --static --libs tkc` gives, takes the shared library where both are.)
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(folders tk_runtime tk_graph tk_emu tk_lower tk_ptx tk_sema tk_parser tk_lang)
set(series ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})        # before 1.0 a minor version may change the ABI
set(map ${CMAKE_CURRENT_SOURCE_DIR}/libtkc.map)

file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/empty.c "typedef int nothing;\n")
add_library(libtkc SHARED ${CMAKE_CURRENT_BINARY_DIR}/empty.c)
set_target_properties(libtkc PROPERTIES OUTPUT_NAME tkc EXPORT_NAME tkc VERSION ${PROJECT_VERSION} SOVERSION ${series}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/lib LINK_DEPENDS ${map} PUBLIC_HEADER ${CMAKE_CURRENT_SOURCE_DIR}/tkc.h)
target_link_libraries(libtkc PRIVATE -Wl,--whole-archive tk_runtime -Wl,--no-whole-archive)
target_link_options(libtkc PRIVATE -Wl,--version-script=${map} -Wl,--gc-sections)
target_include_directories(libtkc INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)

set(archive ${CMAKE_BINARY_DIR}/lib/libtkc.a)
set(object ${CMAKE_CURRENT_BINARY_DIR}/libtkc.o)
set(inputs "")
foreach(folder IN LISTS folders)
    list(APPEND inputs $<TARGET_FILE:${folder}>)
endforeach()
add_custom_command(OUTPUT ${archive} DEPENDS ${folders} VERBATIM
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/lib
    COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
    COMMAND ${CMAKE_LINKER} -r -o ${object} --whole-archive ${inputs}
    COMMAND ${CMAKE_OBJCOPY} --wildcard --keep-global-symbol=tkc_* ${object}
    COMMAND ${CMAKE_AR} rcs ${archive} ${object}
    COMMENT "Making libtkc.a")
add_custom_target(libtkc_archive ALL DEPENDS ${archive})

# What a program that links the archive needs besides.
execute_process(COMMAND ${LLVM_TOOLS_BINARY_DIR}/llvm-config --libdir OUTPUT_VARIABLE llvm_libdir OUTPUT_STRIP_TRAILING_WHITESPACE)
set(private_libs "-L${llvm_libdir} -lLLVM-${LLVM_VERSION_MAJOR} -lprotobuf-c -lz -ldl -lm -lpthread")
file(RELATIVE_PATH up /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)
string(REGEX REPLACE "/$" "" up ${up})
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/tkc.pc.in ${CMAKE_BINARY_DIR}/tkc.pc @ONLY)
configure_file(${CMAKE_CURRENT_SOURCE_DIR}/tkc-static.pc.in ${CMAKE_BINARY_DIR}/tkc-static.pc @ONLY)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/tkc-config-version.cmake COMPATIBILITY SameMinorVersion)

install(TARGETS libtkc EXPORT tkc LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} PUBLIC_HEADER DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${CMAKE_BINARY_DIR}/tkc.pc ${CMAKE_BINARY_DIR}/tkc-static.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
install(EXPORT tkc NAMESPACE tkc:: FILE tkc-config.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tkc)
install(FILES ${CMAKE_BINARY_DIR}/tkc-config-version.cmake DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tkc)
