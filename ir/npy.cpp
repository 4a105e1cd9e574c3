#include "ir/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "support/error.h"
#include "support/output_path.h"

namespace bz {
namespace {

static_assert(std::endian::native == std::endian::little, ".npy data is little endian");

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMaxHeader = 1 << 20;  // NumPy writes a few hundred bytes

struct Format {
  DType dtype;
  std::string_view descr;
};
constexpr Format kFormats[] = {{DType::f32, "<f4"}, {DType::f16, "<f2"}, {DType::f64, "<f8"},
                               {DType::i32, "<i4"}, {DType::i64, "<i8"}, {DType::boolean, "|b1"}};

struct Header {
  DType dtype = DType::f32;
  bool fortran_order = false;
  Shape shape;
};

// Reads the header's Python dictionary: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }.
class HeaderParser {
 public:
  HeaderParser(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  Header run() {
    Header header;
    bool descr = false, order = false, shape = false;
    expect('{');
    while (!accept('}')) {
      std::string_view key = string();
      expect(':');
      bool& seen = key == "descr"           ? descr
                   : key == "fortran_order" ? order
                   : key == "shape"         ? shape
                                            : unknown(key);
      if (seen) fail(fmt::format("'{}' is given twice", key));
      seen = true;
      if (key == "descr") {
        header.dtype = dtype();
      } else if (key == "fortran_order") {
        header.fortran_order = boolean();
      } else {
        header.shape = tuple();
      }
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    skip_blanks();
    if (at_ != text_.size()) fail("text after the dictionary");
    if (!descr || !order || !shape) fail("descr, fortran_order and shape are needed");
    return header;
  }

 private:
  [[noreturn]] void fail(const std::string& message) const {
    throw Error(fmt::format("{}: malformed .npy header: {}", path_, message));
  }
  bool& unknown(std::string_view key) const { fail(fmt::format("unknown key '{}'", key)); }

  void skip_blanks() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos)
      ++at_;
  }
  bool accept(char c) {
    skip_blanks();
    if (at_ >= text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!accept(c)) fail(fmt::format("expected '{}' at byte {}", c, at_));
  }
  std::string_view string() {
    skip_blanks();
    char quote = at_ < text_.size() ? text_[at_] : '\0';
    std::size_t end = quote == '\'' || quote == '"' ? text_.find(quote, at_ + 1) : std::string_view::npos;
    if (end == std::string_view::npos) fail(fmt::format("expected a string at byte {}", at_));
    std::string_view value = text_.substr(at_ + 1, end - at_ - 1);
    at_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_blanks();
    for (bool value : {true, false}) {
      std::string_view word = value ? "True" : "False";
      if (text_.substr(at_, word.size()) != word) continue;
      at_ += word.size();
      return value;
    }
    fail(fmt::format("expected True or False at byte {}", at_));
  }
  Shape tuple() {
    Shape shape;
    expect('(');
    while (!accept(')')) {
      skip_blanks();
      std::int64_t extent = 0;
      auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) fail(fmt::format("expected an extent at byte {}", at_));
      at_ = static_cast<std::size_t>(end - text_.data());
      accept('L');  // Python 2 wrote 3L
      shape.push_back(extent);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return shape;
  }
  DType dtype() {
    skip_blanks();
    if (at_ < text_.size() && text_[at_] == '[') {
      throw Error(fmt::format("{}: structured arrays are not supported", path_));
    }
    std::string_view descr = string();
    for (const Format& f : kFormats) {
      if (descr == f.descr) return f.dtype;
    }
    if (!descr.empty() && descr.front() == '>') {
      throw Error(fmt::format("{}: big-endian data ('{}') is not supported, write it as '<{}'", path_, descr,
                              descr.substr(1)));
    }
    std::vector<std::string_view> known;
    for (const Format& f : kFormats) known.push_back(f.descr);
    throw Error(fmt::format("{}: data type '{}' is not supported, supported are {}", path_, descr,
                            fmt::join(known, ", ")));
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0;
};

Header read_header(std::ifstream& in, const std::string& path) {
  unsigned char start[12];
  auto read = [&](void* to, std::size_t n) {
    return static_cast<bool>(in.read(static_cast<char*>(to), static_cast<std::streamsize>(n)));
  };
  if (!read(start, 8) || std::memcmp(start, kMagic.data(), kMagic.size()) != 0) {
    throw Error(fmt::format("{}: not a .npy file", path));
  }
  int version = start[6];
  if (version < 1 || version > 3 || start[7] != 0) {
    throw Error(fmt::format("{}: .npy version {}.{} is not supported, supported are 1.0, 2.0 and 3.0", path,
                            version, static_cast<int>(start[7])));
  }
  std::size_t width = version == 1 ? 2 : 4, length = 0;
  if (!read(start + 8, width)) throw Error(fmt::format("{}: the file ends inside its header", path));
  for (std::size_t i = width; i-- > 0;) length = length << 8 | start[8 + i];
  if (length > kMaxHeader)
    throw Error(fmt::format("{}: a header of {} bytes is not supported", path, length));
  std::string text(length, '\0');
  if (!read(text.data(), length)) throw Error(fmt::format("{}: the file ends inside its header", path));
  return HeaderParser(text, path).run();
}

// The elements of `columns`, first axis fastest, in row-major order.
HostTensor from_fortran(const HostTensor& columns) {
  HostTensor rows(columns.type());
  const Shape& shape = columns.type().shape;
  std::size_t size = static_cast<std::size_t>(size_of(columns.type().dtype));
  Shape index(shape.size(), 0);
  std::vector<std::int64_t> stride = row_major_strides(shape);
  std::int64_t to = 0;
  const std::byte* from = static_cast<const std::byte*>(columns.data());
  for (std::int64_t i = 0; i < columns.elements(); ++i, from += size) {
    std::memcpy(static_cast<std::byte*>(rows.data()) + static_cast<std::size_t>(to) * size, from, size);
    for (std::size_t a = 0; a < shape.size(); ++a) {
      to += stride[a];
      if (++index[a] < shape[a]) break;
      to -= stride[a] * shape[a];
      index[a] = 0;
    }
  }
  return rows;
}

HostTensor to_type(const HostTensor& from, DType dtype) {
  HostTensor to({dtype, from.type().shape});
  for (std::int64_t i = 0; i < from.elements(); ++i) to.set(i, Scalar::of(dtype, from.value(i)));
  return to;
}

std::string encode_header(const Type& type) {
  std::string_view descr;
  for (const Format& f : kFormats) {
    if (f.dtype == type.dtype) descr = f.descr;
  }
  std::string dictionary = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                       fmt::join(type.shape, ", "), type.rank() == 1 ? "," : "");
  // The data starts at a multiple of 64 bytes; the padding ends with a newline.
  int version = dictionary.size() + 64 < 65536 ? 1 : 2;
  std::size_t width = version == 1 ? 2 : 4, before = kMagic.size() + 2 + width;
  dictionary.append(63 - (before + dictionary.size()) % 64, ' ');
  dictionary += '\n';
  std::string header(kMagic);
  header += static_cast<char>(version);
  header += '\0';
  for (std::size_t i = 0; i < width; ++i) header += static_cast<char>(dictionary.size() >> (8 * i) & 0xff);
  return header + dictionary;
}

}  // namespace

HostTensor read_npy(const std::string& path, std::optional<DType> wanted) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw Error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  Header header = read_header(in, path);
  Type type{header.dtype, header.shape};
  if (wanted && *wanted != type.dtype && !(*wanted == DType::bf16 && type.dtype == DType::f32)) {
    throw Error(fmt::format("{}: holds {}, wanted {}", path, to_string(type), name(*wanted)));
  }

  // The size is compared before anything is allocated: a damaged header must not ask for terabytes.
  const std::int64_t size = size_of(type.dtype), elements = type.elements();
  const auto begin = in.tellg();
  in.seekg(0, std::ios::end);
  const std::int64_t present = in.tellg() - begin;
  in.seekg(begin);
  if (present / size != elements || present % size != 0) {
    throw Error(fmt::format("{}: {} is {} elements of {} bytes, the file has {} bytes of data", path,
                            to_string(type), elements, size, present));
  }

  HostTensor tensor(type);
  if (!in.read(static_cast<char*>(tensor.data()), static_cast<std::streamsize>(tensor.bytes()))) {
    throw Error(fmt::format("cannot read {}: {}", path, std::strerror(errno)));
  }
  if (type.dtype == DType::boolean) {
    auto* bytes = static_cast<unsigned char*>(tensor.data());
    for (std::size_t i = 0; i < tensor.bytes(); ++i) bytes[i] = bytes[i] != 0;
  }
  if (header.fortran_order && type.rank() > 1) tensor = from_fortran(tensor);
  if (wanted && *wanted != type.dtype) tensor = to_type(tensor, *wanted);
  return tensor;
}

void write_npy(const std::string& path, const HostTensor& tensor) {
  if (tensor.type().dtype == DType::bf16) return write_npy(path, to_type(tensor, DType::f32));
  const bool in_place = is_written_in_place(path);
  const std::string target = in_place ? path : target_of_link(path);
  const std::string temporary = in_place ? target : fmt::format("{}.tmp.{}", target, ::getpid());
  auto fail = [&](int error) {
    if (!in_place) std::remove(temporary.c_str());
    throw Error(fmt::format("cannot write {}: {}", target, std::strerror(error)));
  };
  errno = 0;
  std::ofstream out(temporary, std::ios::binary | std::ios::trunc);
  if (!out) fail(errno);
  std::string header = encode_header(tensor.type());
  out.write(header.data(), static_cast<std::streamsize>(header.size()));
  out.write(static_cast<const char*>(tensor.data()), static_cast<std::streamsize>(tensor.bytes()));
  out.close();
  if (!out) fail(errno);
  if (!in_place && std::rename(temporary.c_str(), target.c_str()) != 0) fail(errno);
}

}  // namespace bz
