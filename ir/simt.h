// The SIMT primitives: the only functions an emitted LLVM module calls that it does not define. One module serves
// GPU and simulator; each binds these names in its own last step and nothing else differs.
//
//   i32 @bz.tid()                          index of the thread in its block
//   i32 @bz.ctaid()                        index of the block in the grid
//   i32 @bz.nctaid()                       blocks that were launched
//   void @bz.barrier()                     all threads of the block; orders shared and global memory of the block
//   void @bz.cluster.barrier()             all threads of all blocks of the cluster; orders their shared and global memory
//   ptr addrspace(7) @bz.cluster.shared(ptr addrspace(3) address, i32 rank)
//                                          the same address in the shared memory of block `rank` of the cluster
//   void @bz.box.open(ptr addrspace(3) box)
//                                          makes 8 bytes a mailbox
//   void @bz.cluster.start()               each thread of a cluster once: it is there, and the mailboxes that it opened are open
//   void @bz.cluster.started()             each thread once, later: until all threads of the cluster are there. It orders nothing
//   void @bz.send(ptr addrspace(7) to, i64 bits, i32 bytes, ptr addrspace(7) box)
//                                          a message: starts to store the low 4 or 8 bytes (a constant) of `bits`, aligned so,
//                                          in the block that has the mailbox
//   void @bz.box.expect(ptr addrspace(3) box, i32 bytes)
//                                          one thread of the block, once a round: how much comes
//   void @bz.box.receive(ptr addrspace(3) box, i32 parity)
//                                          until the round of that parity is over: all that was expected has arrived. Rounds
//                                          begin with 0
//   i32 @bz.shfl.xor(i32 value, i32 mask)  value of lane (lane ^ mask) of the warp; all 32 lanes take part
//   ptr addrspace(3) @bz.shared()          start of the block's shared memory (PlanKernel::shared_bytes), 16-aligned
//   void @bz.copy(ptr addrspace(3) to, ptr addrspace(1) from, i32 bytes, i32 valid)
//                                          starts to copy 4, 8 or 16 bytes (a constant), aligned so: `valid` of them, then zeros
//   void @bz.copy.commit()                 the thread's copies since the last call are a batch
//   void @bz.copy.await(i32 pending)       until all of the thread's batches but the last `pending` (a constant) have landed
//   i32 @bz.ticket(ptr addrspace(1) queue) the i32 there, which is then one more
//   void @bz.signal(ptr addrspace(1) counter)
//                                          adds 1 to an i32
//   void @bz.wait(ptr addrspace(1) counter, i32 count)
//                                          until the i32 has reached `count`
//   void @bz.post(ptr addrspace(1) slot, i32 bits, i32 round)
//                                          puts `bits` of a round, which is not 0, where another block finds them
//   i64 @bz.peek(ptr addrspace(1) slot)    what is there now: bits in the lower half, their round in the upper one
//   void @bz.pause(i32 looked)             some time; where `looked` is 1, until there may be something new since it looked
//
// A cluster is PlanKernel::cluster consecutive blocks that run side by side; block i has the rank i % cluster in it. Where
// PlanKernel::gang says so, they are anywhere on the device and share no memory of their own: they only post and peek. Where
// n gangs are launched, block i is in number i % n, with the rank i / n.
//
// Kernels are `void @name(ptr addrspace(1), ...)`, one pointer for each PlanKernel argument. Global memory is address
// space 1, shared memory address space 3. Bool is stored as i8 0 or 1. bf16 is stored as i16. A block's threads are
// numbered so that a warp is 32 consecutive ones; blocks whose kernel synchronizes have a multiple of 32 threads.
//
// A copy may land at any time from its start until its thread has awaited it; in between nobody reads where it goes.
//
// A message may arrive at any time from when it was sent until its round is over; in between nobody reads where it goes. Its
// sender comes before who has received it. No message is sent in a round before the one before that is over.
//
// Barriers and shuffles are reached by all the threads they are for at the same call. Of two accesses to one byte by
// different threads, one of them a write, one comes before the other by a barrier or a message; a shuffle orders no
// memory, and two clusters of a launch are ordered by signals alone: what a block did before a barrier that comes before its signal, and
// what it knew of then, comes before what another does after a barrier that follows its wait for that signal. What
// tickets, signals and waits are for, and slots of 8 bytes, are in a temporary that nothing else accesses, which is 0 at first. What is
// posted orders nothing else. A slot gets the bits of a later round when all have seen those of the one before. A block waits only for what blocks do that
// run: those that have the lower tickets. Shared memory, temporaries and outputs are written before they are read, and
// a plan's kernels write every element of its outputs. A cluster barrier follows the last access to the shared memory of
// another block, which is gone when that finishes. The simulator reports what breaks these rules, with the line of kernel
// IR that the metadata !bz.line !{i32 number} of the load, store or call names.
#pragma once

#include <string_view>

namespace bz::simt {

inline constexpr std::string_view kThread = "bz.tid";
inline constexpr std::string_view kBlock = "bz.ctaid";
inline constexpr std::string_view kBlocks = "bz.nctaid";
inline constexpr std::string_view kBarrier = "bz.barrier";
inline constexpr std::string_view kClusterBarrier = "bz.cluster.barrier";
inline constexpr std::string_view kClusterShared = "bz.cluster.shared";
inline constexpr std::string_view kBoxOpen = "bz.box.open";
inline constexpr std::string_view kClusterStart = "bz.cluster.start";
inline constexpr std::string_view kClusterStarted = "bz.cluster.started";
inline constexpr std::string_view kSend = "bz.send";
inline constexpr std::string_view kBoxExpect = "bz.box.expect";
inline constexpr std::string_view kBoxReceive = "bz.box.receive";
inline constexpr std::string_view kShuffleXor = "bz.shfl.xor";
inline constexpr std::string_view kShared = "bz.shared";
inline constexpr std::string_view kCopy = "bz.copy";
inline constexpr std::string_view kCopyCommit = "bz.copy.commit";
inline constexpr std::string_view kCopyAwait = "bz.copy.await";
inline constexpr std::string_view kTicket = "bz.ticket";
inline constexpr std::string_view kSignal = "bz.signal";
inline constexpr std::string_view kWait = "bz.wait";
inline constexpr std::string_view kPost = "bz.post";
inline constexpr std::string_view kPeek = "bz.peek";
inline constexpr std::string_view kPause = "bz.pause";
inline constexpr std::string_view kLine = "bz.line";
inline constexpr int kWarp = 32;

}  // namespace bz::simt
