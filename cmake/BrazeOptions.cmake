# Compiler and linker settings shared by every target, and helpers to declare targets.
find_program(BRAZE_CCACHE ccache)
if(BRAZE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${BRAZE_CCACHE})
endif()

add_library(braze_options INTERFACE)
target_compile_options(braze_options INTERFACE -Wall -Wextra -Werror=switch -Wno-missing-field-initializers
                                               -Wno-unused-parameter)
if(BRAZE_SANITIZE)
  target_compile_options(braze_options INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer)
  target_link_options(braze_options INTERFACE -fsanitize=address,undefined)
endif()
find_program(BRAZE_LLD ld.lld)
if(BRAZE_LLD)
  add_link_options(-fuse-ld=lld)
endif()

# A static library of one layer; its headers are found from the repository's root.
function(braze_library name)
  add_library(${name} STATIC ${ARGN})
  target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>
                                            $<INSTALL_INTERFACE:include/braze>)
  target_link_libraries(${name} PUBLIC fmt::fmt PRIVATE $<BUILD_INTERFACE:braze_options>)
endfunction()

# Links LLVM component libraries, privately, with LLVM's headers as system headers.
function(braze_use_llvm name)
  llvm_map_components_to_libnames(libs ${ARGN})
  target_include_directories(${name} SYSTEM PRIVATE ${LLVM_INCLUDE_DIRS})
  target_link_libraries(${name} PRIVATE ${libs})
  if(NOT LLVM_ENABLE_RTTI)
    target_compile_options(${name} PRIVATE -fno-rtti)
  endif()
endfunction()
