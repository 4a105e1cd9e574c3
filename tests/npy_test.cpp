#include <unistd.h>
#include <catch2/catch.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "ir/npy.h"
#include "support/error.h"

using namespace bz;
namespace fs = std::filesystem;

namespace {

// A folder that goes away with the test.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("braze_npy_test." + std::to_string(::getpid()));
  Folder() { fs::create_directories(path); }
  ~Folder() { fs::remove_all(path); }
  std::string file(const std::string& name) const { return (path / name).string(); }
};

void write_bytes(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

std::string read_bytes(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

// A file of format version `version` with this dictionary and data.
std::string npy(int version, const std::string& dictionary, const std::string& data) {
  std::string text = dictionary + "\n", out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (int i = 0; i < (version == 1 ? 2 : 4); ++i) out += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return out + text + data;
}

template <class T>
std::string raw(std::initializer_list<T> values) {
  std::string out;
  for (T v : values) out.append(reinterpret_cast<const char*>(&v), sizeof v);
  return out;
}

std::string header(const std::string& descr, const std::string& shape, const std::string& order = "False") {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
}

}  // namespace

TEST_CASE("npy: every version and element type is read") {
  Folder dir;
  for (int version : {1, 2, 3}) {
    write_bytes(dir.file("a.npy"), npy(version, header("<f4", "(2, 2)"), raw<float>({1, -2.5f, 3, 4})));
    HostTensor t = read_npy(dir.file("a.npy"));
    CHECK(t.type() == Type{DType::f32, {2, 2}});
    CHECK(t.value(1) == -2.5);
  }
  auto one = [&](const std::string& descr, const std::string& data) {
    write_bytes(dir.file("a.npy"), npy(1, header(descr, "(2,)"), data));
    return read_npy(dir.file("a.npy"));
  };
  CHECK(one("<f8", raw<double>({0.1, 0.2})).value(1) == 0.2);
  CHECK(one("<f2", raw<std::uint16_t>({0x3c00, 0xc000})).value(1) == -2);
  CHECK(one("<i4", raw<std::int32_t>({1, -7})).get(1).i == -7);
  CHECK(one("<i8", raw<std::int64_t>({1, -7})).get(1).i == -7);
  CHECK(one("|b1", raw<std::uint8_t>({0, 2})).get(1).i == 1);
  write_bytes(dir.file("s.npy"),
              npy(1, "{\"shape\":(),\"descr\":\"<f4\",\"fortran_order\":False}", raw<float>({5})));
  CHECK(read_npy(dir.file("s.npy")).type() == Type{DType::f32, {}});
  write_bytes(dir.file("e.npy"), npy(1, header("<f4", "(3L, 0)"), ""));
  CHECK(read_npy(dir.file("e.npy")).type() == Type{DType::f32, {3, 0}});
}

TEST_CASE("npy: Fortran order is transposed") {
  Folder dir;
  // [[1, 2, 3], [4, 5, 6]] by columns.
  write_bytes(dir.file("f.npy"),
              npy(1, header("<i4", "(2, 3)", "True"), raw<std::int32_t>({1, 4, 2, 5, 3, 6})));
  HostTensor t = read_npy(dir.file("f.npy"));
  for (int i = 0; i < 6; ++i) CHECK(t.get(i).i == i + 1);
}

TEST_CASE("npy: what is written is read") {
  Folder dir;
  for (DType dtype : kAllDTypes) {
    for (const Shape& shape : {Shape{}, Shape{3}, Shape{2, 0}, Shape{2, 3, 4}}) {
      HostTensor t = random_tensor({dtype, shape}, 7);
      write_npy(dir.file("t.npy"), t);
      HostTensor back = read_npy(dir.file("t.npy"), dtype);
      CHECK(back.type() == t.type());
      CHECK((t.bytes() == 0 || std::memcmp(back.data(), t.data(), t.bytes()) == 0));
    }
  }
  std::string bytes = read_bytes(dir.file("t.npy"));
  CHECK((bytes.size() - 24) % 64 == 0);  // 24 elements of bool after an aligned header
  CHECK(std::distance(fs::directory_iterator(dir.path), fs::directory_iterator()) ==
        1);  // no temporary file stays
}

TEST_CASE("npy: bf16 is written as f32 and asked for when read") {
  Folder dir;
  HostTensor t({DType::bf16, {1}});
  t.set(0, Scalar::of(DType::bf16, 1.5));
  write_npy(dir.file("b.npy"), t);
  CHECK(read_npy(dir.file("b.npy")).type().dtype == DType::f32);
  CHECK(read_npy(dir.file("b.npy"), DType::bf16).value(0) == 1.5);
  CHECK_THROWS_WITH(read_npy(dir.file("b.npy"), DType::f16), Catch::Contains("holds f32[1], wanted f16"));
}

TEST_CASE("npy: what cannot be read is refused with the reason") {
  Folder dir;
  std::string path = dir.file("x.npy");
  auto refuses = [&](const std::string& bytes, const std::string& reason) {
    write_bytes(path, bytes);
    CHECK_THROWS_WITH(read_npy(path), Catch::Contains(reason));
    CHECK_THROWS_WITH(read_npy(path), Catch::Contains(path));
  };
  std::string data = raw<float>({1, 2});
  refuses("", "not a .npy file");
  refuses("PK\3\4 a zip archive", "not a .npy file");
  refuses(npy(4, header("<f4", "(2,)"), data), "version 4.0 is not supported");
  refuses(npy(1, header("<f4", "(2,)"), data.substr(1)), "the file has 7 bytes of data");
  refuses(npy(1, header("<f4", "(2,)"), data + "x"), "the file has 9 bytes of data");
  refuses(npy(1, header("<f4", "(4000000000, 1000000000)"), data), "the file has 8 bytes of data");
  refuses(npy(1, header(">f4", "(2,)"), data), "big-endian data ('>f4') is not supported");
  refuses(npy(1, header("|u1", "(2,)"), data), "data type '|u1' is not supported, supported are <f4");
  refuses(npy(1, header("<c8", "(1,)"), data), "'<c8'");
  refuses(npy(1, "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,)}", data),
          "structured arrays");
  refuses(npy(1, "{'descr': '<f4', 'shape': (2,)}", data), "descr, fortran_order and shape are needed");
  refuses(npy(1, "{'descr': '<f4', 'descr': '<f4'}", data), "'descr' is given twice");
  refuses(npy(1, "{'order': 1}", data), "unknown key 'order'");
  refuses(npy(1, header("<f4", "(-2,)"), data), "expected an extent");
  refuses(npy(1, header("<f4", "(2"), data), "expected");
  refuses(npy(1, header("<f4", "(2,)", "Maybe"), data), "expected True or False");
  refuses(npy(1, header("<f4", "(2,)") + " x", data), "text after the dictionary");
  refuses(npy(1, header("<f4", "(2,)"), data).substr(0, 20), "ends inside its header");
  refuses(npy(2, header("<f4", "(2,)"), data).substr(0, 9), "ends inside its header");
  refuses(std::string("\x93NUMPY\x02\x00\xff\xff\xff\x7f", 12),
          "a header of 2147483647 bytes is not supported");
  std::string good = npy(1, header("<f4", "(2,)"), data);
  for (std::size_t cut = 0; cut < good.size(); ++cut) {
    write_bytes(path, good.substr(0, cut));
    CHECK_THROWS_AS(read_npy(path), Error);
  }
  CHECK_THROWS_WITH(read_npy(dir.file("missing.npy")), Catch::Contains("cannot read"));
  CHECK_THROWS_WITH(write_npy(dir.file("no/such/y.npy"), HostTensor({DType::f32, {1}})),
                    Catch::Contains("cannot write"));
}
