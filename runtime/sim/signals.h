// What the blocks of a launch tell each other through counters, and who still runs: to see that what is waited for will never
// be. Safe to use from several threads.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

namespace bz::sim {

// By block: all that it did while its clock was below the number is known.
using Clocks = std::vector<std::uint32_t>;
void merge(Clocks& into, const Clocks& from);

class Signals {
 public:
  explicit Signals(int workers) : running_(static_cast<std::size_t>(workers)) {}

  std::int32_t take(std::int32_t* counter);  // the number there, which is then one more
  void signal(std::int32_t* counter, const Clocks& known);

  enum class Outcome : std::uint8_t {
    reached,   // what those who signalled knew has been added to `known`
    hopeless,  // all workers wait
    released,  // another block has a fault
  };
  Outcome wait(const std::int32_t* counter, std::int32_t count, Clocks& known);

  void leave();  // a worker has run its last block
  void fault();  // a block has one: others need not wait for it

 private:
  struct Waiter {
    const std::int32_t* counter;
    std::int32_t count;
    bool reached() const { return *counter >= count; }
  };
  void look_for_hope();

  std::mutex mutex_;  // guards the counters and what follows
  std::condition_variable changed_;
  std::map<const std::int32_t*, Clocks> told_;
  std::vector<const Waiter*> waiters_;
  std::size_t running_;
  bool hopeless_ = false, faulted_ = false;
};

}  // namespace bz::sim
