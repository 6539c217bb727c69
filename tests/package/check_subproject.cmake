# cmake -DSOURCE=<gspmd> -DWORK=<scratch folder> -DCOMPILER=<c++> [-DBUILD_ALL=ON] -P check_subproject.cmake
# Configures the project in subproject/, looks at the command that compiles its program, and compiles it; with
# BUILD_ALL builds all of gspmd, links and runs it.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} -G Ninja -S ${CMAKE_CURRENT_LIST_DIR}/subproject -B ${WORK} -DGSPMD_SOURCE=${SOURCE}
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Debug)
file(READ ${WORK}/compile_commands.json commands)
string(REGEX MATCH "[^\n]*-o CMakeFiles/consumer.dir[^\n]*" command "${commands}")
if(NOT command)
  message(FATAL_ERROR "the program of the project around gspmd has no compile command")
endif()
foreach(flag -Wall -Werror -ffp-contract -fvisibility -fsanitize -DGSPMD ccache)
  if(command MATCHES " ${flag}")
    message(FATAL_ERROR "gspmd leaks ${flag} into the compile command of its user:\n${command}")
  endif()
endforeach()
if(BUILD_ALL)
  run(${CMAKE_COMMAND} --build ${WORK})
  run(${WORK}/consumer)
else()
  run(${CMAKE_COMMAND} --build ${WORK} --target CMakeFiles/consumer.dir${CMAKE_CURRENT_LIST_DIR}/consumer/consumer.cpp.o)
endif()
file(REMOVE_RECURSE ${WORK})
