#include "runtime/sim/worker_pool.h"

#include <algorithm>
#include <atomic>

#include "support/error.h"

namespace bz::sim {
namespace {

// Each worker takes about this many chunks of a launch, so that uneven clusters still spread.
constexpr std::int64_t kChunksPerWorker = 8;

std::int64_t clusters_of(const Launch& launch) { return launch.blocks / launch.kernel->cluster; }

}  // namespace

struct WorkerPool::Job {
  const Launch& launch;
  ClusterOrder order;
  std::int64_t clusters, chunk;
  std::atomic<std::int64_t> next{0};
  // Position of the earliest faulty cluster. Clusters are claimed in order of position, so all before it still
  // run.
  std::atomic<std::int64_t> faulty{std::numeric_limits<std::int64_t>::max()};
  std::mutex mutex;
  std::string fault;  // of cluster `faulty`
  Signals signals;

  Job(const Launch& l, int workers, bool alone)
      : launch(l),
        order(clusters_of(l), l.seed),
        clusters(clusters_of(l)),
        chunk(std::max<std::int64_t>(1, clusters / (workers * kChunksPerWorker))),
        signals(alone ? 1 : workers) {}
};

WorkerPool::WorkerPool(int workers) : workers_(workers) {
  for (int w = 0; w < workers; ++w) runners_.push_back(std::make_unique<ClusterRunner>());
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void WorkerPool::run(const Launch& launch) {
  const std::lock_guard one_at_a_time(launch_mutex_);
  const bool alone = workers_ == 1 || clusters_of(launch) == 1;
  // Here, because a worker could not report that there is no memory.
  for (int w = 0; w < (alone ? 1 : workers_); ++w) runners_[static_cast<std::size_t>(w)]->prepare(launch);

  Job job(launch, workers_, alone);
  if (alone) {
    work(job, *runners_[0]);
  } else {
    start_threads();
    {
      const std::lock_guard lock(mutex_);
      job_ = &job;
      ++generation_;
      busy_ = workers_ - 1;
    }
    wake_.notify_all();
    work(job, *runners_[0]);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [&] { return busy_ == 0; });
    job_ = nullptr;
  }
  if (!job.fault.empty()) throw DeviceError(job.fault);
}

void WorkerPool::start_threads() {
  for (int w = static_cast<int>(threads_.size()) + 1; w < workers_; ++w) {
    threads_.emplace_back([this, w] { thread_main(w); });
  }
}

void WorkerPool::thread_main(int worker) {
  std::uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] { return stop_ || generation_ != seen; });
    if (stop_) return;
    seen = generation_;
    Job* job = job_;
    lock.unlock();
    work(*job, *runners_[static_cast<std::size_t>(worker)]);
    lock.lock();
    if (--busy_ == 0) done_.notify_one();
  }
}

void WorkerPool::work(Job& job, ClusterRunner& runner) {
  run_clusters(job, runner);
  job.signals.leave();
}

void WorkerPool::run_clusters(Job& job, ClusterRunner& runner) {
  for (;;) {
    const std::int64_t begin = job.next.fetch_add(job.chunk);
    const std::int64_t end = std::min(begin + job.chunk, job.clusters);
    for (std::int64_t position = begin; position < end; ++position) {
      if (position > job.faulty.load(std::memory_order_relaxed)) return;
      std::string fault = runner.run(job.launch, job.order(position), job.signals);
      if (fault.empty()) continue;
      job.signals.fault();
      const std::lock_guard lock(job.mutex);
      if (position < job.faulty.load()) {
        job.faulty = position;
        job.fault = std::move(fault);
      }
      return;
    }
    if (end >= job.clusters) return;
  }
}

}  // namespace bz::sim
