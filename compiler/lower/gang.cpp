#include "compiler/lower/gang.h"

#include <algorithm>
#include <array>

#include "compiler/lower/phases.h"
#include "compiler/lower/values.h"
#include "compiler/schedule/gang.h"

namespace bz::compiler {
namespace {

// Beside the threads of the schedule there are two warps that exchange: one posts, the other collects. Where domains begin anywhere and have a few vectors
// more than those threads the same number of, a third warp has these.
class GangLowering {
 public:
  explicit GangLowering(const StageContext& stage)
      : s_(stage.schedule),
        b_(stage.builder),
        gang_(gang_of(stage.region, s_)),
        thread_(stage.place.thread_reduced),
        main_place_(with_thread(stage.place, b_.let("tr", threads_of(s_), mod(thread_, threads_of(s_))))),
        lane_(b_.let("lane_of_warp", kWarp, mod(thread_, kWarp))),
        warp_place_(with_thread(stage.place, lane_)),
        main_(stage.kernel, stage.region, s_, main_place_),
        warp_(stage.kernel, stage.region, s_, warp_place_),
        few_(warp_),
        states_(main_),
        domains_(stage.extent.blocks),
        place_elements_(gang_elements(stage.region, s_)),
        threads_(gang_threads(stage.region, s_)) {
    few_.first_vector = few_.extent.vectors;
    few_.extent.vectors = few_.extent.groups = few_.extent.together = few_.extent.rest = 1;
    for (std::size_t a = 0; a < gang_.arrays.size(); ++a)
      rings_.push_back(b_.array(main_.array_name("ring", a), gang_.arrays[a].dtype,
                                gang_.arrays[a].places * place_elements_, kernel::Space::shared));
    for_each_state([&](int r, std::size_t c) {
      const bool exchanges = main_.reduction(r).exchanges();
      const auto states = [&](std::string_view name, int count) {
        return b_.array(main_.array_name(name, r, c), states_.dtypes(r)[c], count, kernel::Space::shared);
      };
      if (const int places = places_of(r); places > 0)
        found_[r].push_back(states(exchanges ? "total" : "own", places * (exchanges ? 1 : threads_)));
      if (exchanges) parts_[r].push_back(states("part", kGangParts * threads_));
    });
    for (const std::vector<ExprId>& of_leg : gang_.given) {
      std::map<ExprId, kernel::ArrayId>& arrays = given_.emplace_back();
      for (const ExprId id : of_leg)
        arrays[id] =
            b_.array(main_.array_name("given", id), main_.expr(id).dtype, kGangGiven, kernel::Space::shared);
    }
    if (s_.parameters == Parameters::memory) return;
    const bool own = s_.parameters == Parameters::registers;
    for (const ExprId id : parameter_loads(stage.region, s_)) {
      const std::int64_t elements = vectors_ahead(main_.region, s_) * s_.vector;
      parameters_[id] = {b_.array(main_.array_name("parameter", id), kept_dtype(main_.region, id),
                                  own ? elements : elements * threads_of(s_),
                                  own ? kernel::Space::registers : kernel::Space::shared),
                         Index(0), own};
      if (!main_.extent.few) continue;
      few_parameters_[id] = {b_.array(main_.array_name("few", id), kept_dtype(main_.region, id), s_.vector,
                                      kernel::Space::registers),
                             Index(0), true};
    }
  }

  void run() {
    const IndexVar teams = b_.teams("teams", domains_);
    in_all([&](const StageContext& stage) {
      b_.comment("the first of what is read ahead");
      for (int k = 0; k < s_.prefetch - 1; ++k) {
        const Index domain = Index::var(main_.place.team) + Index::var(teams) * k;
        if_there(stage, domain, [&](const Position& position) { copy(stage, position, Index(k)); });
        b_.commit();
      }
      if (parameters_.empty()) return;
      if_there(stage, Index::var(main_.place.team), [&](const Position& p) { load_parameters(stage, p); });
    });
    const int after = gang_.turns;
    const IndexVar turn = b_.var("turn", (after + 1) * domains_), round = b_.var("round", domains_ + after),
                   next = b_.var("next", (after + 2) * domains_);
    b_.turns({turn, main_.place.team.id, next, round, teams.id, domains_, after},
             [&] { one(Index::var(turn), Index::var(round), Index::var(teams)); });
  }

 private:
  using ByReduction = Exchange::ByReduction;
  using Arrays = std::map<int, std::vector<kernel::ArrayId>>;  // by reduction
  static constexpr int kWarp = kGangWarp;

  static StagePlace with_thread(StagePlace place, const IndexVar& thread) {
    place.thread_reduced = Index::var(thread);
    return place;
  }

  // In all threads that go over domains. `body(stage)`: where they find themselves.
  template <class F>
  void in_all(F&& body) {
    b_.when(b_.inside({{thread_, 0, threads_of(s_)}}), [&] { body(main_); });
    if (main_.extent.few) in_warp(Role::has_few, [&] { body(few_); });
  }
  enum class Role : std::uint8_t { posts, collects, has_few };
  template <class F>
  void in_warp(Role role, F&& body) {
    const int first = threads_of(s_) + static_cast<int>(role) * kWarp;
    b_.when(b_.inside({{thread_, first, first + kWarp}}), body);
  }

  // How many turns ago the domain was new of which a leg is done.
  int back(int leg) const { return turns_of_leg(s_) * leg; }

  void one(const Index& turn, const Index& round, const Index& teams) {
    in_all([&](const StageContext& stage) {
      for (int leg = gang_.legs - 1; leg > 0; --leg)
        if_there(stage, turn - teams * back(leg), [&](const Position& p) { go_over(stage, leg, p, round); });
      if_there(stage, turn + teams * (s_.prefetch - 1),
               [&](const Position& p) { copy(stage, p, round + Index(s_.prefetch - 1)); });
      b_.commit();
      b_.await(s_.prefetch - 1);
      if_there(stage, turn, [&](const Position& p) { go_over(stage, 0, p, round); });
    });
    in_warp(Role::collects, [&] {
      for (int leg = 1; leg < gang_.legs; ++leg) {
        // What the leg will need in the next turn.
        if_there(warp_, turn - teams * (back(leg) - 1), [&](const Position& p) { collect(leg, p, round); });
      }
    });
    b_.barrier(kernel::Scope::block);
    in_warp(Role::posts, [&] {
      for (int leg = 0; leg + 1 < gang_.legs; ++leg)
        b_.when(b_.inside({{turn - teams * back(leg), 0, domains_}}), [&] { post(leg, round); });
    });
  }

  // Leaves what the thread has found to be posted: the threads that do that have time to put it together.
  void go_over(const StageContext& stage, int leg, const Position& position, const Index& round) {
    const Index number = round - Index(back(leg)), thread = thread_of(stage);
    ByReduction results;
    for (const auto& [r, arrays] : found_) {
      if (leg_of(r) < leg && leg <= gang_.last[static_cast<std::size_t>(r)])
        results[r] = states_.get(states_.dtypes(r), arrays, found_at(r, number, thread));
    }
    Memo given;
    for (const auto& [id, array] : given_[static_cast<std::size_t>(leg)])
      given[id] = b_.get(array, place_of(number, kGangGiven), main_.expr(id).dtype);
    const Leg phases = phases_of(leg, number, parameters_of(stage));
    for (const auto& [r, state] : lower_leg(stage, position, phases, std::move(given), results)) {
      if (main_.reduction(r).exchanges())
        states_.set(parts_.at(r), state, part_at(round, thread));
      else if (found_.contains(r))
        states_.set(found_.at(r), state, found_at(r, number, thread));
    }
  }

  Leg phases_of(int leg, const Index& number, const Held& parameters) const {
    Leg phases{region_phases(), 0, {}, {}};
    for (int p = 0; p < region_phases(); ++p) {
      const auto i = static_cast<std::size_t>(p);
      Held held = held_in(gang_.held[i], number), added;
      if (i + 1 < gang_.held.size()) {
        added = held_in(gang_.held[i + 1], number);
        std::erase_if(added, [&](const auto& one) { return held.contains(one.first); });
      }
      held.insert(parameters.begin(), parameters.end());
      phases.held.push_back(std::move(held));
      phases.added.push_back(std::move(added));
      if (gang_.leg[i] != leg) continue;
      phases.first = std::min(phases.first, p);
      phases.end = p + 1;
    }
    return phases;
  }

  // What all blocks of the gang have found for a leg, a lag of turns ago: each lane that of some of them. One thread makes of it what is
  // given to all.
  void collect(int leg, const Position& position, const Index& round) {
    b_.comment(fmt::format("what all have found for leg {}", leg));
    const int blocks = std::min(s_.gang, kWarp);
    const int each = std::max(1, s_.gang / kWarp);  // blocks of a lane
    std::vector<Arrays> of_blocks;
    for (int k = 0; k < each; ++k) of_blocks.push_back(empty_states(leg, k));
    b_.when(b_.inside({{Index::var(lane_), 0, blocks}}), [&] {
      std::vector<Index> at;
      std::vector<DType> types;
      for (int k = 0; k < each; ++k) {
        for_each_word(leg, [&](int r, std::size_t c, std::int64_t word) {
          at.push_back(
              slot_at(round - Index(s_.lag), word, Index(k * kWarp) + mod(Index::var(lane_), blocks)));
          types.push_back(message_dtype(states_.dtypes(r)[c]));
        });
      }
      const Handles words = b_.collect(main_.kernel.slots, std::move(at), round - Index(s_.lag), types);
      std::size_t next = 0;
      for (const Arrays& arrays : of_blocks) {
        for_each_word(leg, [&](int r, std::size_t c, std::int64_t) {
          const DType t = states_.dtypes(r)[c];
          Handle h = words[next++];
          if (t != message_dtype(t)) h = b_.apply(ScalarOp::cast, std::array{h}, t);
          b_.set(arrays.at(r)[c], Index(0), h);
        });
      }
    });
    std::vector<ByReduction> of_lane;
    for (const Arrays& one : of_blocks) {
      ByReduction& states = of_lane.emplace_back();
      for (const auto& [r, of] : one) states[r] = states_.get(states_.dtypes(r), of);
    }
    const ByReduction all = Exchange(warp_).across_lanes(of_lane);
    const Index number = round - Index(back(leg) - 1);
    b_.when(b_.inside({{Index::var(lane_), 0, 1}}), [&] {
      Values values(warp_, position);
      for (const auto& [r, state] : all) {
        if (found_.contains(r)) states_.set(found_.at(r), state, found_at(r, number, Index(0)));
        values.set_result(r, state);
      }
      values.compute_once(values.needs(gang_.given[static_cast<std::size_t>(leg)], {}, nullptr));
      for (const auto& [id, array] : given_[static_cast<std::size_t>(leg)])
        b_.set(array, place_of(number, kGangGiven), values.of(id, nullptr));
    });
  }

  // What the block has found in a leg: each lane puts together that of some threads.
  void post(int leg, const Index& round) {
    b_.comment(fmt::format("what the block has found in leg {}", leg));
    std::vector<ByReduction> of_lane;
    for (int first = 0; first < threads_; first += kWarp) {
      ByReduction& states = of_lane.emplace_back();
      for (const auto& [r, arrays] : parts_) {
        if (leg_of(r) == leg)
          states[r] =
              states_.get(states_.dtypes(r), arrays, part_at(round, Index::var(lane_) + Index(first)));
      }
    }
    const ByReduction all = Exchange(warp_).across_lanes(of_lane);
    b_.when(b_.inside({{Index::var(lane_), 0, 1}}), [&] {
      for_each_word(leg + 1, [&](int r, std::size_t c, std::int64_t word) {
        Handle h = all.at(r)[c];
        const DType t = message_dtype(b_.dtype(h));
        if (b_.dtype(h) != t) h = b_.apply(ScalarOp::cast, std::array{h}, t);
        b_.post(main_.kernel.slots, slot_at(round, word, main_.share), h, round);
      });
    });
  }

  template <class F>
  void if_there(const StageContext& stage, const Index& domain, F&& body) {
    b_.when(b_.inside({{domain, 0, domains_}}), [&] {
      const IndexVar d = b_.let("domain", domains_, domain);
      body(Position(stage, Index::var(d)));
    });
  }

  // `number` of `places` that are taken in turn; a number may be as far below 0 as domains are under way.
  Index place_of(const Index& number, int places) const {
    return mod(number + Index(ceil_div(gang_.turns, places) * places), places);
  }
  Held held_in(const std::map<ExprId, int>& arrays, const Index& number) const {
    Held held;
    for (const auto& [id, a] : arrays) {
      const auto i = static_cast<std::size_t>(a);
      held[id] = {rings_[i], place_of(number, gang_.arrays[i].places) * place_elements_};
    }
    return held;
  }

  void copy(const StageContext& stage, const Position& position, const Index& number) {
    const Held loads = held_in(gang_.held[0], number);
    for (std::int64_t i = 0; i < stage.extent.vectors; ++i) {
      Step step = position.step(Index(i), !position.is_inside(i));
      start_copies(stage, position, loads, step);
    }
  }

  const Held& parameters_of(const StageContext& stage) const {
    return &stage == &main_ ? parameters_ : few_parameters_;
  }
  void load_parameters(const StageContext& stage, const Position& position) {
    for (std::int64_t i = 0; i < stage.extent.vectors; ++i) {
      Step step = position.step(Index(i), !position.is_inside(i));
      for (const auto& [id, in] : parameters_of(stage)) {
        b_.at(stage.expr(id).node);
        b_.set(in.array, place_in(stage, position, in, step),
               load_value(stage, position, stage.expr(id), &step));
      }
    }
  }

  // Of the reductions that are exchanged for a leg.
  Arrays empty_states(int leg, int number) const {
    Arrays arrays;
    for (int r = 0; r < static_cast<int>(main_.region.reductions.size()); ++r) {
      if (is_for(leg, r))
        arrays[r] = states_.arrays(r, fmt::format("found{}_", number), states_.dtypes(r),
                                   main_.reduction(r).identity());
    }
    return arrays;
  }

  int region_phases() const { return main_.region.phases(); }
  int leg_of(int r) const { return gang_.leg[static_cast<std::size_t>(main_.reduction(r).phase)]; }
  bool is_for(int leg, int r) const { return main_.reduction(r).exchanges() && leg_of(r) + 1 == leg; }
  int places_of(int r) const { return gang_.places[static_cast<std::size_t>(r)]; }
  Index thread_of(const StageContext& stage) const {
    return &stage == &main_ ? main_.place.thread_reduced : Index::var(lane_) + Index(threads_of(s_));
  }
  // Of the result of a reduction: one for all threads, or one of each.
  Index found_at(int r, const Index& number, const Index& thread) const {
    const Index place = place_of(number, places_of(r));
    return main_.reduction(r).exchanges() ? place : place * threads_ + thread;
  }

  // Of what a thread has found.
  Index part_at(const Index& round, const Index& thread) const {
    return mod(round, kGangParts) * threads_ + thread;
  }

  // Runs `body(reduction, component)`.
  template <class F>
  void for_each_state(F&& body) const {
    for (int r = 0; r < static_cast<int>(main_.region.reductions.size()); ++r) {
      for (std::size_t c = 0; c < states_.dtypes(r).size(); ++c) body(r, c);
    }
  }
  // Runs `body(reduction, component, word)` for what is exchanged for a leg; words are counted over all legs.
  template <class F>
  void for_each_word(int leg, F&& body) const {
    std::int64_t word = 0;
    for_each_state([&](int r, std::size_t c) {
      if (!main_.reduction(r).exchanges()) return;
      if (is_for(leg, r)) {
        states_.at(r);
        body(r, c, word);
      }
      ++word;
    });
  }
  // Of a word, in a turn, of a block of the gang.
  Index slot_at(const Index& round, std::int64_t word, const Index& rank) const {
    const std::int64_t of_gang = slots_of(main_.region, s_), of_round = of_gang / slot_rounds(s_);
    return Index::var(main_.place.team) * of_gang +
           mod(round + Index(slot_rounds(s_)), slot_rounds(s_)) * of_round + Index(word * s_.gang) + rank;
  }

  const Schedule& s_;
  KernelBuilder& b_;
  Gang gang_;
  Index thread_;
  StagePlace main_place_;
  IndexVar lane_;
  StagePlace warp_place_;
  StageContext main_, warp_, few_;
  States states_;
  std::int64_t domains_;
  std::int64_t place_elements_;  // of a place of the ring
  int threads_;                  // that go over domains
  std::vector<kernel::ArrayId> rings_;
  Held parameters_, few_parameters_;
  std::vector<std::map<ExprId, kernel::ArrayId>> given_;  // by leg
  Arrays found_;                                          // what later legs need of reductions
  Arrays parts_;  // what threads have found that is exchanged, of this turn and the one before
};

}  // namespace

void lower_gang(const StageContext& stage) { GangLowering(stage).run(); }

}  // namespace bz::compiler
