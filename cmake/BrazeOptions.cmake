# Compiler and linker settings shared by every target, and helpers to declare targets.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

find_program(BRAZE_CCACHE ccache)
if(BRAZE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${BRAZE_CCACHE})
  # What ccache needs to work with precompiled headers.
  list(PREPEND CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
       CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime)
endif()

# An executable holds a good part of LLVM, and every example and test is one: lld links them in a second.
find_program(BRAZE_LLD ld.lld HINTS ${LLVM_TOOLS_BINARY_DIR})
if(BRAZE_LLD)
  get_filename_component(braze_lld_folder ${BRAZE_LLD} DIRECTORY)
  add_link_options(-fuse-ld=lld -B${braze_lld_folder})
endif()
add_link_options(-Wl,--as-needed,--gc-sections)
if(BRAZE_PORTABLE)
  add_compile_options(-ffunction-sections -fdata-sections)
  add_link_options(-static-libstdc++ -static-libgcc -s)
endif()

add_library(braze_options INTERFACE)
target_compile_options(braze_options INTERFACE -Wall -Wextra -Werror=switch -Wno-missing-field-initializers
                                               -Wno-unused-parameter)
if(BRAZE_SANITIZE)
  target_compile_options(braze_options INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer)
  target_link_options(braze_options INTERFACE -fsanitize=address,undefined)
endif()

# A static library of one layer; its headers are found from the repository's root.
function(braze_library name)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                            $<INSTALL_INTERFACE:include/braze>)
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_link_libraries(${name} PUBLIC ${BRAZE_FMT} PRIVATE $<BUILD_INTERFACE:braze_options>)
endfunction()

# Links LLVM component libraries, privately, with LLVM's headers as system headers.
function(braze_use_llvm name)
  llvm_map_components_to_libnames(libs ${ARGN})
  target_include_directories(${name} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
  target_link_libraries(${name} PRIVATE ${libs})
endfunction()

# Headers that most files of a target include and that take long to read.
function(braze_precompile name)
  target_precompile_headers(${name} PRIVATE ${ARGN})
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${name} PRIVATE -fpch-preprocess)  # for ccache
  endif()
endfunction()
