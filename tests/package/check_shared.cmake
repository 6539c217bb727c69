# cmake -DBUILD=<built tree> -DSOURCE=<gspmd> -DWORK=<scratch folder> -DCOMPILER=<c++> -P check_shared.cmake
# Links the objects of the build into libgspmd.so, runs the consumer with it, and looks at what it exports.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
run(${CMAKE_COMMAND} --build ${BUILD} --target gspmd_shared)
run(${COMPILER} -std=c++20 -I${SOURCE}/include ${CMAKE_CURRENT_LIST_DIR}/consumer/consumer.cpp -o ${WORK}/consumer
    -L${BUILD} -lgspmd -lfmt -Wl,-rpath,${BUILD})
run(${WORK}/consumer)

execute_process(COMMAND nm -D --defined-only -C ${BUILD}/libgspmd.so OUTPUT_VARIABLE exported
                RESULT_VARIABLE code)
if(code OR NOT exported MATCHES "gspmd::mesh_split")
  message(FATAL_ERROR "libgspmd.so does not export gspmd::mesh_split")
endif()
# One of each module that only the library's own sources declare.
foreach(hidden gspmd::live_nodes gspmd::normalize gspmd::table_of_buffers gspmd::is_function)
  if(exported MATCHES "${hidden}\\(")
    message(FATAL_ERROR "libgspmd.so exports ${hidden}, which no public header declares")
  endif()
endforeach()
file(REMOVE_RECURSE ${WORK})
