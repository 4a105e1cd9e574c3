#include <iostream>

#include "tools/braze/cli.h"

int main(int argc, char** argv) { return bz::run_cli({argv + 1, argv + argc}, std::cout, std::cerr); }
