# The worker under threads, in doubt, without memory, at its deadlines. Included by CMakeLists.txt.
add_library(worker_stress_rig STATIC stress_rig.c stress_oracle.c ${PROJECT_SOURCE_DIR}/tests/golden/coenv.c)
target_link_libraries(worker_stress_rig PUBLIC kvhold_testing kvh_flags PkgConfig::CMOCKA)
target_include_directories(worker_stress_rig PUBLIC ${PROJECT_SOURCE_DIR}/tests)

foreach(subject alloc doubt deadline stress stress_orders stress_queue)
  kvh_test(NAME unit.worker.${subject} LABEL unit SOURCES ${subject}_test.c LIBS worker_stress_rig
    TIMEOUT 120)
endforeach()
set_property(TEST unit.worker.alloc unit.worker.doubt unit.worker.deadline unit.worker.stress PROPERTY LABELS unit threads)
