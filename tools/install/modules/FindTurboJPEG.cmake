# libjpeg-turbo, of the package libturbojpeg0-dev: the imported target TurboJPEG::turbojpeg.
find_path(TURBOJPEG_INCLUDE_DIR turbojpeg.h)
find_library(TURBOJPEG_LIBRARY turbojpeg)
mark_as_advanced(TURBOJPEG_INCLUDE_DIR TURBOJPEG_LIBRARY)
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(TurboJPEG REQUIRED_VARS TURBOJPEG_LIBRARY TURBOJPEG_INCLUDE_DIR
                                  REASON_FAILURE_MESSAGE "(package libturbojpeg0-dev)")
if(TurboJPEG_FOUND AND NOT TARGET TurboJPEG::turbojpeg)
  add_library(TurboJPEG::turbojpeg UNKNOWN IMPORTED)
  set_target_properties(TurboJPEG::turbojpeg PROPERTIES IMPORTED_LOCATION ${TURBOJPEG_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${TURBOJPEG_INCLUDE_DIR})
endif()
