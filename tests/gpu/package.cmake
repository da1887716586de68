# cmake -DPROGRAMS=...;... -DLIBRARY=... -DSOURCE=... -DFOLDER=... -P package.cmake: makes the folder of the GPU suite: the
# programs and the test library of NCCL's functions without their symbols, the shared libraries that they need besides libc's,
# the references and the scripts.
file(REMOVE_RECURSE ${FOLDER})
file(COPY ${PROGRAMS} ${LIBRARY} ${SOURCE}/tests/gpu/run.sh ${SOURCE}/tests/bench/pytorch_race.py DESTINATION ${FOLDER})
file(COPY ${SOURCE}/tests/data/oracle ${SOURCE}/tests/data/references DESTINATION ${FOLDER}/data)
file(GLOB built ${FOLDER}/*.so)
foreach(program ${PROGRAMS})
  get_filename_component(name ${program} NAME)
  list(APPEND built ${FOLDER}/${name})
endforeach()
execute_process(COMMAND strip ${built} COMMAND_ERROR_IS_FATAL ANY)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${PROGRAMS} RESOLVED_DEPENDENCIES_VAR libraries
     PRE_EXCLUDE_REGEXES "^lib(c|m|dl|rt|pthread)\\.so" "^ld-linux")
foreach(library ${libraries})
  # Under the name by which it is asked for, whatever file that leads to.
  get_filename_component(soname ${library} NAME)
  file(REAL_PATH ${library} file)
  file(COPY_FILE ${file} ${FOLDER}/${soname})
endforeach()
