# cmake -D NPM=npm -D SOURCE=web -P npm_ci.cmake: installs the packages of SOURCE/package-lock.json
# into the folder in which it runs.
file(COPY ${SOURCE}/package.json ${SOURCE}/package-lock.json DESTINATION .)
execute_process(COMMAND ${NPM} ci --ignore-scripts --no-audit --no-fund --loglevel=error
                RESULT_VARIABLE status OUTPUT_QUIET)
if(NOT status EQUAL 0)
  message(FATAL_ERROR "npm could not install the packages of web/package-lock.json; the lines above say "
                      "why. Without a network, configure with -D TESSERA_WEB=OFF: everything else is "
                      "built, and `tessera watch` says that it has no page.")
endif()
