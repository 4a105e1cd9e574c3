#include "runtime/cuda/ptx_version.h"

#include <fmt/format.h>

#include <array>

namespace bz::cuda {
namespace {

struct Row {
  int driver;
  int ptx;
};

// From the release notes of the PTX ISA manual.
constexpr std::array kRows = {
    Row{11000, 70}, Row{11010, 71}, Row{11020, 72}, Row{11030, 73}, Row{11040, 74}, Row{11050, 75},
    Row{11060, 76}, Row{11070, 77}, Row{11080, 78}, Row{12000, 80}, Row{12010, 81}, Row{12020, 82},
    Row{12030, 83}, Row{12040, 84}, Row{12050, 85}, Row{12060, 85}, Row{12070, 86}, Row{12080, 87},
    Row{12090, 88}, Row{13000, 90}, Row{13010, 91},
};

}  // namespace

int newest_ptx(int driver_version) {
  int ptx = kRows.front().ptx;
  for (const Row& row : kRows) {
    if (row.driver <= driver_version) ptx = row.ptx;
  }
  return ptx;
}

std::string ptx_text(int ptx) { return fmt::format("{}.{}", ptx / 10, ptx % 10); }

}  // namespace bz::cuda
