# Debian packages of what `cmake --install` puts where (install.cmake); `cpack` in the build folder, or
# `make package`, makes them:
#
#   component     package          what is in it
#   command       tessera          the command, its manual pages and completion, the architecture files, units of systemd
#   library       libtessera0      libtessera.so.0
#   development   libtessera-dev   the public headers, libtessera.so, find_package(Tessera), pkg-config
#
# What the packages depend on is found in their programs (dpkg-shlibdeps).
set(TESSERA_PACKAGE_CONTACT "Tessera maintainers <maintainers@tessera.invalid>" CACHE STRING
    "Who answers for packages that are built here: NAME <ADDRESS>")

set(CPACK_GENERATOR DEB)
set(CPACK_COMPONENTS_ALL command library development)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY ${PROJECT_BINARY_DIR}/packages)
set(CPACK_PACKAGE_VENDOR Tessera)
set(CPACK_PACKAGE_CONTACT ${TESSERA_PACKAGE_CONTACT})
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "")  # each package has its own
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ
                                                GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/package/finish.cmake)

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)

set(text "Tessera compiles neural networks (ONNX) for a virtual processor and runs them
there with the results and the cycles that the processor has, or with the same
bits at CPU speed.\n")
set(soname libtessera${PROJECT_VERSION_MAJOR})
foreach(row "COMMAND|tessera|science|neural networks on a virtual processor|This package has the command."
            "LIBRARY|${soname}|libs|neural networks on a virtual processor (library)|This package has the library for C and C++."
            "DEVELOPMENT|libtessera-dev|libdevel|neural networks on a virtual processor (development)|This package has what programs with the library are compiled with.")
  string(REPLACE "|" ";" row "${row}")
  list(GET row 0 component)
  list(GET row 1 CPACK_DEBIAN_${component}_PACKAGE_NAME)
  list(GET row 2 CPACK_DEBIAN_${component}_PACKAGE_SECTION)
  list(GET row 3 summary)
  list(GET row 4 last)
  set(CPACK_COMPONENT_${component}_DESCRIPTION "${summary}\n${text}\n${last}")
  # Only in the packages: elsewhere LICENSE says it.
  string(TOLOWER ${component} name)
  install(FILES cmake/package/copyright
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/doc/${CPACK_DEBIAN_${component}_PACKAGE_NAME}
          COMPONENT ${name} EXCLUDE_FROM_ALL)
endforeach()
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
    "${soname} (= ${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE})")
# UCX is loaded where connections over it are asked for.
set(CPACK_DEBIAN_COMMAND_PACKAGE_SUGGESTS "libtessera-dev, libucx0")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS libucx0)
set(CPACK_DEBIAN_COMMAND_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/package/postinst)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_CONTROL_EXTRA ${PROJECT_SOURCE_DIR}/cmake/package/triggers)
include(CPack)
