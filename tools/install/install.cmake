# The one place that says what `cmake --install` copies, in two components:
#   program      the program, what it prints of itself (completions of shells), documents
#   development  libraries, headers, and what find_package(partita) reads
# Included by tools/CMakeLists.txt, when every target is there.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# Libraries of packages in unusual places are found from the new place, too.
set_target_properties(partita PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS partita COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT program)
install(FILES ${PROJECT_SOURCE_DIR}/third_party/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR}/third_party COMPONENT program)

# What the program prints of itself, whenever it was built: "place in the folder share|arguments".
set(printed_files
  "bash-completion/completions/partita|completion bash"
  "zsh/site-functions/_partita|completion zsh"
  "fish/vendor_completions.d/partita.fish|completion fish"
  "man/man1/partita.1|help --man")
foreach(row ${printed_files})
  string(REGEX MATCH "^(.+)/(.+)\\|(.+)$" row ${row})
  set(folder ${CMAKE_MATCH_1})
  set(file ${CMAKE_CURRENT_BINARY_DIR}/install/${folder}/${CMAKE_MATCH_2})
  separate_arguments(arguments UNIX_COMMAND ${CMAKE_MATCH_3})
  file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/install/${folder})
  add_custom_command(TARGET partita POST_BUILD COMMAND partita ${arguments} > ${file} BYPRODUCTS ${file} VERBATIM)
  install(FILES ${file} DESTINATION ${CMAKE_INSTALL_DATADIR}/${folder} COMPONENT program)
endforeach()

# partita_public(NAME libraries...): the library partita::NAME of an installed Partita (and of this build).
function(partita_public name)
  add_library(partita_public_${name} INTERFACE)
  target_link_libraries(partita_public_${name} INTERFACE ${ARGN})
  target_compile_features(partita_public_${name} INTERFACE cxx_std_20)
  set_target_properties(partita_public_${name} PROPERTIES EXPORT_NAME ${name})
  add_library(partita::${name} ALIAS partita_public_${name})
endfunction()
partita_public(partita partita_models partita_planning)  # models, machines, prices, search, simulation, plans
partita_public(runtime partita_train partita_serial partita_profiler partita_launch)  # what runs plans
partita_public(workflow partita_workflow partita_public_partita partita_public_runtime)  # what the program's verbs call

# The package that has an imported target: "first part of its name|what find_dependency wants".
set(packages
  "absl|absl CONFIG"
  "CBC|CBC"
  "CUDA|CUDAToolkit"
  "DNNL|dnnl CONFIG"
  "HWLOC|HWLOC"
  "MPI|MPI COMPONENTS C"
  "OpenMP|OpenMP COMPONENTS CXX"
  "OpenSSL|OpenSSL COMPONENTS Crypto"
  "PNG|PNG"
  "protobuf|Protobuf"
  "SQLite|SQLite3"
  "Threads|Threads"
  "TurboJPEG|TurboJPEG")

# partita_collect(LIBRARIES NEEDED library): all libraries of this build that it links to, itself included, and what
# find_package(partita) has to find for them.
function(partita_collect libraries needed)
  set(waiting ${ARGN})
  set(own)
  set(dependencies)
  while(waiting)
    list(POP_FRONT waiting library)
    if(library IN_LIST own)
      continue()
    endif()
    list(APPEND own ${library})
    get_target_property(links ${library} INTERFACE_LINK_LIBRARIES)
    foreach(link ${links})
      string(REGEX REPLACE "^\\$<LINK_ONLY:(.*)>$" "\\1" link "${link}")
      string(REGEX MATCH "^[^:]*" prefix "${link}")
      set(package ${packages})
      list(FILTER package INCLUDE REGEX "^${prefix}\\|")
      if(link MATCHES "^\\$<BUILD_INTERFACE:" OR link STREQUAL "${CMAKE_DL_LIBS}")
        continue()
      elseif(link MATCHES "^partita_")
        list(APPEND waiting ${link})
      elseif(link MATCHES "::" AND package)
        string(REGEX REPLACE ".*\\|" "" package "${package}")
        list(APPEND dependencies "  find_dependency(${package})\n")
      else()
        message(FATAL_ERROR "${library} links to ${link}, which find_package(partita) would not find: link to an imported "
                            "target, and name its package in tools/install/install.cmake")
      endif()
    endforeach()
  endwhile()
  list(REMOVE_DUPLICATES dependencies)
  list(SORT dependencies)
  set(${libraries} ${own} PARENT_SCOPE)
  string(CONCAT dependencies ${dependencies})
  set(${needed} ${dependencies} PARENT_SCOPE)
endfunction()
set(libraries)
set(PARTITA_FIND_DEPENDENCIES)
foreach(name partita runtime workflow)
  partita_collect(collected needed partita_public_${name})
  list(APPEND libraries ${collected})
  string(APPEND PARTITA_FIND_DEPENDENCIES
         "if(NOT partita_FIND_COMPONENTS OR ${name} IN_LIST partita_FIND_COMPONENTS)\n${needed}endif()\n")
endforeach()
list(REMOVE_DUPLICATES libraries)

set(headers ${CMAKE_INSTALL_INCLUDEDIR}/partita)  # included as here: "graph/graph.h"
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/partita)
install(TARGETS ${libraries} EXPORT partita COMPONENT development
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/partita INCLUDES DESTINATION ${headers})
foreach(folder graph cost_model planner runtime tools/workflow)
  get_filename_component(above ${folder} DIRECTORY)
  # Without headers that include those of oneDNN, CUDA, MPI and NCCL: nothing else includes them.
  install(DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} DESTINATION ${headers}/${above} COMPONENT development
          FILES_MATCHING PATTERN "*.h" REGEX "/runtime/(backend/(cpu|cuda)|comm/(mpi|nccl))$" EXCLUDE)
endforeach()
install(DIRECTORY ${PROJECT_BINARY_DIR}/proto DESTINATION ${headers} COMPONENT development FILES_MATCHING PATTERN "*.pb.h"
        PATTERN "CMakeFiles" EXCLUDE)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/partitaConfig.cmake.in partitaConfig.cmake
                              INSTALL_DESTINATION ${package})
write_basic_package_version_file(partitaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT partita NAMESPACE partita:: FILE partitaTargets.cmake DESTINATION ${package} COMPONENT development)
file(GLOB modules ${CMAKE_CURRENT_LIST_DIR}/modules/*.cmake)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/partitaConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/partitaConfigVersion.cmake ${modules}
        DESTINATION ${package} COMPONENT development)
