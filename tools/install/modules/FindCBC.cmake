# COIN-OR CBC, of the package coinor-libcbc-dev: the imported target CBC::Cbc.
# Shared libraries, of which each knows those that it needs.
find_path(CBC_INCLUDE_DIR CbcModel.hpp PATH_SUFFIXES coin coin-or)
mark_as_advanced(CBC_INCLUDE_DIR)
set(cbc_variables CBC_INCLUDE_DIR)
set(cbc_libraries)
foreach(name Cbc OsiClp Clp Osi CoinUtils)
  find_library(CBC_${name}_LIBRARY ${name})
  mark_as_advanced(CBC_${name}_LIBRARY)
  list(APPEND cbc_variables CBC_${name}_LIBRARY)
  list(APPEND cbc_libraries ${CBC_${name}_LIBRARY})
endforeach()
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(CBC REQUIRED_VARS ${cbc_variables}
                                  REASON_FAILURE_MESSAGE "(package coinor-libcbc-dev)")
if(CBC_FOUND AND NOT TARGET CBC::Cbc)
  add_library(CBC::Cbc INTERFACE IMPORTED)
  set_target_properties(CBC::Cbc PROPERTIES INTERFACE_INCLUDE_DIRECTORIES ${CBC_INCLUDE_DIR}
                        INTERFACE_LINK_LIBRARIES "${cbc_libraries}")
endif()
