# libtessera.so, and what `cmake --install` puts where.
#
#   PREFIX/bin/tessera                 the command
#   PREFIX/libexec/tessera/            tessera-service, which the command starts in its place where that takes gRPC
#   PREFIX/include/tessera/            the public headers
#   PREFIX/lib/libtessera.so           all folder libraries in one; exports namespace tessera and tessera_*
#   PREFIX/lib/cmake/Tessera/          find_package(Tessera) -> Tessera::tessera
#   PREFIX/lib/pkgconfig/tessera.pc    pkg-config tessera
#   PREFIX/share/tessera/arch/         the architecture files, to be copied and changed
#   PREFIX/share/man/man1/             manual pages of the command
#   PREFIX/share/                      its completion for bash, zsh and fish
#   PREFIX/lib/systemd/system/         units of master, node and service; lib/sysusers.d/ has their account
#   PREFIX/share/tessera/config/       configuration files to begin with
#
# The components are the Debian packages of package.cmake; what belongs to none is not in these.
include(CMakePackageConfigHelpers)

if(TARGET tessera_runtime)
  # All objects of these: the public headers declare functions that the runtime does not call.
  set(whole tessera_c tessera_network tessera_accuracy tessera_device tessera_runtime tessera_report tessera_arith tessera_base)
  set(objects ${whole})
  list(TRANSFORM objects REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>")
  add_library(tessera SHARED ${objects})
  set_target_properties(tessera PROPERTIES VERSION ${PROJECT_VERSION}
                                           SOVERSION ${PROJECT_VERSION_MAJOR})
  set(exported ${CMAKE_CURRENT_SOURCE_DIR}/cmake/libtessera.map)
  target_link_options(tessera PRIVATE LINKER:--version-script=${exported})
  set_target_properties(tessera PROPERTIES LINK_DEPENDS ${exported})
  target_link_libraries(tessera PRIVATE ${whole})
  target_include_directories(
    tessera INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                      $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(tessera INTERFACE cxx_std_20)

  install(TARGETS tessera EXPORT TesseraTargets
          LIBRARY COMPONENT library NAMELINK_COMPONENT development)
  install(EXPORT TesseraTargets NAMESPACE Tessera::
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera COMPONENT development)
  write_basic_package_version_file(TesseraConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  configure_file(cmake/TesseraConfig.cmake.in TesseraConfig.cmake @ONLY)
  file(RELATIVE_PATH TESSERA_PC_TO_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  configure_file(cmake/tessera.pc.in tessera.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/TesseraConfig.cmake
                ${CMAKE_CURRENT_BINARY_DIR}/TesseraConfigVersion.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/Tessera COMPONENT development)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/tessera.pc
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
  install(DIRECTORY include/tessera DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
          FILES_MATCHING PATTERN "*.h")
endif()

if(TARGET tessera_tool)
  install(TARGETS tessera_tool COMPONENT command)
  install(TARGETS tessera_service DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/tessera COMPONENT command)
endif()
if(TARGET tessera_manual)
  install(DIRECTORY ${TESSERA_SHARE}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT command)
  install(DIRECTORY ${TESSERA_SHARE}/bash-completion ${TESSERA_SHARE}/fish
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT command)
  install(DIRECTORY ${TESSERA_SHARE}/zsh DESTINATION ${CMAKE_INSTALL_DATAROOTDIR} COMPONENT zsh)
  # Debian's zsh looks here for what packages bring.
  install(DIRECTORY ${TESSERA_SHARE}/zsh/site-functions/
          DESTINATION ${CMAKE_INSTALL_DATAROOTDIR}/zsh/vendor-completions
          COMPONENT command EXCLUDE_FROM_ALL)
endif()
install(DIRECTORY arch/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera/arch COMPONENT command
        FILES_MATCHING PATTERN "*.toml")
set(TESSERA_SERVICES master node serve)
foreach(service IN LISTS TESSERA_SERVICES)
  set(unit tessera-${service}.service)
  configure_file(packaging/systemd/${unit}.in ${CMAKE_CURRENT_BINARY_DIR}/units/${unit} @ONLY)
  # Where systemd looks whatever the machine's library folder is.
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/units/${unit} DESTINATION lib/systemd/system COMPONENT command)
endforeach()
install(FILES packaging/systemd/tessera.sysusers DESTINATION lib/sysusers.d RENAME tessera.conf COMPONENT command)
install(DIRECTORY packaging/config/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tessera/config COMPONENT command
        FILES_MATCHING PATTERN "*.toml")
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT license)
