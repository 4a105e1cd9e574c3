# Writes OUTPUT, a C++ file with the text of every .braze file of DIRECTORY as a row of embedded_examples().
file(GLOB files ${DIRECTORY}/*.braze)
list(SORT files)
set(rows "")
foreach(path IN LISTS files)
  get_filename_component(name ${path} NAME_WE)
  file(READ ${path} text)
  string(APPEND rows "    {\"${name}\", R\"braze(${text})braze\"},\n")
endforeach()
file(WRITE ${OUTPUT} "// Made by tools/embed_examples.cmake.
#include \"tools/braze/program.h\"

namespace bz::cli {

std::span<const EmbeddedExample> embedded_examples() {
  static const std::vector<EmbeddedExample> examples = {
${rows}  };
  return examples;
}

}  // namespace bz::cli
")
