# run(COMMAND...): ends with its output where it fails.
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(code)
    message(FATAL_ERROR "${ARGV} ends with ${code}:\n${text}")
  endif()
endfunction()
