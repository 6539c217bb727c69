# cmake -DBUILD=<built tree> -DWORK=<scratch folder> -DCOMPILER=<c++> -P check.cmake
# Installs gspmd, builds and runs consumer/ with it, and asks for a version that is not there.
include(${CMAKE_CURRENT_LIST_DIR}/run.cmake)

file(REMOVE_RECURSE ${WORK})
set(prefix "${WORK}/a prefix with spaces")
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${prefix})
# Headers that only gspmd's own sources include need not be there, nor run-time type information.
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR}/consumer -B ${WORK}/build "-DCMAKE_PREFIX_PATH=${prefix}"
    -DCMAKE_CXX_COMPILER=${COMPILER} -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS=-fno-rtti
    -DCMAKE_DISABLE_FIND_PACKAGE_nlohmann_json=ON)
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
run(${WORK}/build/own_op)

file(WRITE ${WORK}/other/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)\nproject(other LANGUAGES CXX)\n"
     "find_package(gspmd 99.0 REQUIRED)\n")
execute_process(COMMAND ${CMAKE_COMMAND} -S ${WORK}/other -B ${WORK}/other/build
                        "-DCMAKE_PREFIX_PATH=${prefix}" -DCMAKE_CXX_COMPILER=${COMPILER}
                RESULT_VARIABLE code ERROR_VARIABLE text OUTPUT_QUIET)
if(NOT code OR NOT text MATCHES "99.0")
  message(FATAL_ERROR "a version that is not installed was found: ${text}")
endif()
file(REMOVE_RECURSE ${WORK})
