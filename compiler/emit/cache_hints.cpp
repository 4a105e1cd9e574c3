#include "compiler/emit/cache_hints.h"

#include <fmt/format.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InlineAsm.h>
#include <llvm/IR/InstIterator.h>

#include <map>
#include <optional>
#include <string>

namespace bz::emit {
namespace {

using llvm::Value;

constexpr llvm::StringRef kEvict = "bz.evict";

std::optional<kernel::Evict> evict_of(const llvm::Instruction& load) {
  const llvm::MDNode* node = load.getMetadata(kEvict);
  if (node == nullptr) return std::nullopt;
  const auto* last = llvm::mdconst::extract<llvm::ConstantInt>(node->getOperand(0));
  return kernel::Evict{static_cast<int>(last->getZExtValue())};
}

std::string policy_of(kernel::Evict evict) {
  if (evict.last == 0) return "L2::evict_first.b64 $0, 1.0";
  if (evict.last == kernel::Evict::kAll) return "L2::evict_last.b64 $0, 1.0";
  return fmt::format("L2::evict_last.L2::evict_first.b64 $0, {}", evict.last / double{kernel::Evict::kAll});
}

Value* make_policy(llvm::IRBuilder<>& b, kernel::Evict evict) {
  const std::string text = fmt::format("createpolicy.fractional.{};", policy_of(evict));
  auto* type = llvm::FunctionType::get(b.getInt64Ty(), false);
  llvm::CallInst* call = b.CreateCall(llvm::InlineAsm::get(type, text, "=l", /*hasSideEffects=*/false));
  call->setDoesNotAccessMemory();
  return call;
}

// As one, two or four words, or half a word; null for other sizes.
Value* hinted(llvm::IRBuilder<>& b, llvm::LoadInst& load, Value* policy) {
  const std::uint64_t bytes = load.getDataLayout().getTypeStoreSize(load.getType()).getFixedValue();
  if (bytes != 2 && bytes != 4 && bytes != 8 && bytes != 16) return nullptr;
  const bool half = bytes == 2;
  const auto words = static_cast<unsigned>(half ? 1 : bytes / 4);
  std::string results, constraints;
  for (unsigned i = 0; i < words; ++i) {
    results += fmt::format("{}${}", i == 0 ? "" : ", ", i);
    constraints += half ? "=h," : "=r,";
  }
  const std::string text =
      words == 1 ? fmt::format("ld.global.nc.L2::cache_hint.b{} {}, [$1], $2;", 8 * bytes, results)
                 : fmt::format("ld.global.nc.L2::cache_hint.v{}.b32 {{{}}}, [${}], ${};", words, results,
                               words, words + 1);
  llvm::Type* word = half ? b.getInt16Ty() : b.getInt32Ty();
  llvm::Type* result =
      words == 1 ? word
                 : llvm::StructType::get(b.getContext(), llvm::SmallVector<llvm::Type*, 4>(words, word));
  auto* type = llvm::FunctionType::get(result, {load.getPointerOperandType(), b.getInt64Ty()}, false);
  llvm::CallInst* loaded =
      b.CreateCall(llvm::InlineAsm::get(type, text, constraints + "l,l", /*hasSideEffects=*/false),
                   {load.getPointerOperand(), policy});
  loaded->setOnlyReadsMemory();
  loaded->setOnlyAccessesArgMemory();
  loaded->setDoesNotThrow();
  loaded->addFnAttr(llvm::Attribute::WillReturn);  // else loads on both sides of it are not made one
  if (words == 1) return b.CreateBitCast(loaded, load.getType());
  Value* v = llvm::PoisonValue::get(llvm::FixedVectorType::get(word, words));
  for (unsigned i = 0; i < words; ++i)
    v = b.CreateInsertElement(v, b.CreateExtractValue(loaded, i), static_cast<std::uint64_t>(i));
  return b.CreateBitCast(v, load.getType());
}

void hint_loads(llvm::Function& f) {
  llvm::SmallVector<llvm::LoadInst*, 16> loads;
  for (llvm::Instruction& i : llvm::instructions(f)) {
    auto* load = llvm::dyn_cast<llvm::LoadInst>(&i);
    if (load != nullptr && evict_of(*load)) loads.push_back(load);
  }
  std::map<int, Value*> policies;
  for (llvm::LoadInst* load : loads) {
    const kernel::Evict evict = *evict_of(*load);
    Value*& p = policies[evict.last];
    if (p == nullptr) {
      llvm::IRBuilder<> entry(&*f.getEntryBlock().getFirstInsertionPt());
      p = make_policy(entry, evict);
    }
    llvm::IRBuilder<> b(load);
    Value* value = hinted(b, *load, p);
    if (value == nullptr) continue;
    load->replaceAllUsesWith(value);
    load->eraseFromParent();
  }
}

}  // namespace

void set_evict(llvm::Instruction& load, kernel::Evict evict) {
  llvm::LLVMContext& context = load.getContext();
  auto* number =
      llvm::ConstantInt::get(llvm::Type::getInt32Ty(context), static_cast<std::uint64_t>(evict.last));
  load.setMetadata(kEvict, llvm::MDNode::get(context, llvm::ConstantAsMetadata::get(number)));
}

void hint_loads(llvm::Module& m) {
  for (llvm::Function& f : m) hint_loads(f);
}

}  // namespace bz::emit
