# What the build uses where it is present: each is one summary line, none stops the build.
# Sets PARTITA_HAVE_DNNL, PARTITA_HAVE_CUDA, PARTITA_HAVE_MPI, PARTITA_HAVE_NCCL; imported targets DNNL::dnnl,
# CUDA::cudart, MPI::MPI_C, NCCL::nccl.
option(PARTITA_DNNL "Build the cpu backend where oneDNN is present" ON)
option(PARTITA_CUDA "Build the cuda backend where the CUDA toolkit is present" ON)
option(PARTITA_MPI "Build the mpi communicator where MPI is present" ON)
option(PARTITA_NCCL "Build the nccl communicator where NCCL is present" ON)

# partita_summary(TITLE SWITCH FOUND DETAIL WITHOUT): one line, for example "oneDNN: absent: no cpu backend".
function(partita_summary title switch found detail without)
  if(NOT ${switch})
    message(STATUS "${title}: switched off (${switch}=OFF): ${without}")
  elseif(found)
    message(STATUS "${title}: found ${detail}")
  else()
    message(STATUS "${title}: absent: ${without}")
  endif()
endfunction()

set(PARTITA_HAVE_DNNL FALSE)
if(PARTITA_DNNL)
  # Its configuration file stops with an error where the OpenCL files that it asks for are missing; look for them first.
  find_path(PARTITA_OPENCL_INCLUDE CL/cl.h)
  find_library(PARTITA_OPENCL_LIBRARY OpenCL)
  mark_as_advanced(PARTITA_OPENCL_INCLUDE PARTITA_OPENCL_LIBRARY)
  if(PARTITA_OPENCL_INCLUDE AND PARTITA_OPENCL_LIBRARY)
    find_package(dnnl CONFIG QUIET)
    set(PARTITA_HAVE_DNNL ${dnnl_FOUND})
  endif()
endif()
partita_summary("oneDNN" PARTITA_DNNL "${PARTITA_HAVE_DNNL}" "${dnnl_VERSION}" "no cpu backend, the reference backend remains")

set(PARTITA_HAVE_CUDA FALSE)
if(PARTITA_CUDA)
  find_package(CUDAToolkit QUIET)
  set(PARTITA_HAVE_CUDA ${CUDAToolkit_FOUND})
endif()
partita_summary("CUDA" PARTITA_CUDA "${PARTITA_HAVE_CUDA}" "${CUDAToolkit_VERSION}" "no cuda backend")

set(PARTITA_HAVE_MPI FALSE)
if(PARTITA_MPI)
  find_package(MPI QUIET COMPONENTS C)
  set(PARTITA_HAVE_MPI ${MPI_C_FOUND})
endif()
partita_summary("MPI" PARTITA_MPI "${PARTITA_HAVE_MPI}" "${MPI_C_VERSION}" "no mpi communicator, one machine only")

set(PARTITA_HAVE_NCCL FALSE)
if(PARTITA_NCCL)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR})
  mark_as_advanced(NCCL_INCLUDE_DIR NCCL_LIBRARY)
  if(PARTITA_HAVE_CUDA AND NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
    set(PARTITA_HAVE_NCCL TRUE)
    add_library(NCCL::nccl UNKNOWN IMPORTED)
    set_target_properties(NCCL::nccl PROPERTIES IMPORTED_LOCATION ${NCCL_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${NCCL_INCLUDE_DIR})
  endif()
endif()
partita_summary("NCCL" PARTITA_NCCL "${PARTITA_HAVE_NCCL}" "${NCCL_LIBRARY}" "no nccl communicator")
