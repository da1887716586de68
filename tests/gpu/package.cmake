# cmake -DPROGRAM=... -DLIBRARY=... -DSOURCE=... -DFOLDER=... -P package.cmake: makes the folder of the GPU suite: the program and
# the test library of NCCL's functions without their symbols, the shared libraries that it needs besides libc's, the references and the scripts.
file(REMOVE_RECURSE ${FOLDER})
file(COPY ${PROGRAM} ${LIBRARY} ${SOURCE}/tests/gpu/run.sh ${SOURCE}/tests/bench/pytorch_race.py DESTINATION ${FOLDER})
file(COPY ${SOURCE}/tests/data/oracle ${SOURCE}/tests/data/references DESTINATION ${FOLDER}/data)
get_filename_component(name ${PROGRAM} NAME)
file(GLOB built ${FOLDER}/${name} ${FOLDER}/*.so)
execute_process(COMMAND strip ${built} COMMAND_ERROR_IS_FATAL ANY)
file(GET_RUNTIME_DEPENDENCIES EXECUTABLES ${PROGRAM} RESOLVED_DEPENDENCIES_VAR libraries
     PRE_EXCLUDE_REGEXES "^lib(c|m|dl|rt|pthread)\\.so" "^ld-linux")
foreach(library ${libraries})
  # Under the name by which it is asked for, whatever file that leads to.
  get_filename_component(soname ${library} NAME)
  file(REAL_PATH ${library} file)
  file(COPY_FILE ${file} ${FOLDER}/${soname})
endforeach()
