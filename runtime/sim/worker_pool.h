// Host threads that run the clusters of launches, each with a ClusterRunner of its own. They start with the first
// launch of more than one cluster and sleep between launches.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "runtime/sim/cluster_runner.h"
#include "runtime/sim/launch.h"

namespace bz::sim {

class WorkerPool {
 public:
  explicit WorkerPool(int workers);  // the calling thread is one of them
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;
  ~WorkerPool();

  // Runs every cluster. Throws DeviceError with the fault of the cluster that comes first in launch order,
  // whichever worker met one first; a race of two clusters is a fault of the one that came second. May be called from
  // several threads; launches then run one after the other.
  void run(const Launch& launch);

 private:
  struct Job;
  void start_threads();
  void thread_main(int worker);
  void work(Job& job, ClusterRunner& runner);
  void run_clusters(Job& job, ClusterRunner& runner);

  const int workers_;
  std::mutex launch_mutex_;  // one launch at a time
  std::vector<std::unique_ptr<ClusterRunner>> runners_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, done_;
  Job* job_ = nullptr;
  std::uint64_t generation_ = 0;
  int busy_ = 0;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace bz::sim
