#include "runtime/sim/signals.h"

#include <algorithm>

namespace bz::sim {

void merge(Clocks& into, const Clocks& from) {
  if (into.size() < from.size()) into.resize(from.size(), 0);
  for (std::size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

std::int32_t Signals::take(std::int32_t* counter) {
  const std::lock_guard lock(mutex_);
  return (*counter)++;
}

void Signals::signal(std::int32_t* counter, const Clocks& known) {
  const std::lock_guard lock(mutex_);
  ++*counter;
  merge(told_[counter], known);
  changed_.notify_all();
}

Signals::Outcome Signals::wait(const std::int32_t* counter, std::int32_t count, Clocks& known) {
  std::unique_lock lock(mutex_);
  const Waiter waiter{counter, count};
  waiters_.push_back(&waiter);
  look_for_hope();
  changed_.wait(lock, [&] { return waiter.reached() || hopeless_ || faulted_; });
  std::erase(waiters_, &waiter);
  if (!waiter.reached()) return faulted_ ? Outcome::released : Outcome::hopeless;
  merge(known, told_[counter]);
  return Outcome::reached;
}

void Signals::leave() {
  const std::lock_guard lock(mutex_);
  --running_;
  look_for_hope();
}

void Signals::fault() {
  const std::lock_guard lock(mutex_);
  faulted_ = true;
  changed_.notify_all();
}

void Signals::look_for_hope() {
  if (waiters_.size() < running_ || waiters_.empty()) return;
  if (std::any_of(waiters_.begin(), waiters_.end(), [](const Waiter* w) { return w->reached(); })) return;
  hopeless_ = true;
  changed_.notify_all();
}

}  // namespace bz::sim
