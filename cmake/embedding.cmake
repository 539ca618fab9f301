# tessera_embed_text(LIST FILE NAME HEADER): the text file FILE of this folder becomes the string NAME,
# which HEADER declares; the source that defines it is appended to LIST.
function(tessera_embed_text list file name header)
  set(embedded ${CMAKE_CURRENT_BINARY_DIR}/${file}.cc)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_text.cmake)
  add_custom_command(
    OUTPUT ${embedded}
    COMMAND ${CMAKE_COMMAND} -D INPUT=${CMAKE_CURRENT_SOURCE_DIR}/${file} -D OUTPUT=${embedded}
            -D HEADER=${header} -D NAME=${name} -P ${script}
    DEPENDS ${file} ${script} VERBATIM)
  set(${list} ${${list}} ${embedded} PARENT_SCOPE)
endfunction()
