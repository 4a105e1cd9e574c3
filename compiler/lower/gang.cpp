#include "compiler/lower/gang.h"

#include <array>

#include "compiler/lower/phases.h"

namespace bz::compiler {
namespace {

// Beside the threads of the schedule there are two warps that exchange: one posts, the other collects.
class GangLowering {
 public:
  explicit GangLowering(const StageContext& stage)
      : s_(stage.schedule),
        b_(stage.builder),
        thread_(stage.place.thread_reduced),
        main_place_(with_thread(stage.place, b_.let("tr", threads_of(s_), mod(thread_, threads_of(s_))))),
        lane_(b_.let("lane_of_warp", kWarp, mod(thread_, kWarp))),
        warp_place_(with_thread(stage.place, lane_)),
        main_(stage.kernel, stage.region, s_, main_place_),
        warp_(stage.kernel, stage.region, s_, warp_place_),
        states_(main_),
        domains_(stage.extent.blocks),
        place_elements_(vectors_ahead(stage.region, s_) * s_.vector * threads_of(s_)) {
    for (const ExprId id : loads_ahead(stage.region, s_))
      ring_[id].array = array("ring", id, gang_places(s_) * place_elements_, kernel::Space::shared);
    for_each_component([&](int r, std::size_t c) {
      totals_[r].push_back(
          b_.array(main_.array_name("total", r, c), states_.dtypes(r)[c], 2, kernel::Space::shared));
    });
    if (s_.parameters == Parameters::memory) return;
    const bool own = s_.parameters == Parameters::registers;
    for (const ExprId id : parameter_loads(stage.region, s_)) {
      parameters_[id] = {array("parameter", id, own ? place_elements_ / threads_of(s_) : place_elements_,
                               own ? kernel::Space::registers : kernel::Space::shared),
                         Index(0), own};
    }
  }

  void run() {
    const IndexVar teams = b_.teams("teams", domains_);
    in_main([&] {
      b_.comment("the first of what is read ahead");
      for (int k = 0; k < s_.prefetch; ++k) {
        const Index domain = Index::var(main_.place.team) + Index::var(teams) * k;
        if_there(domain, [&](const Position& position) {
          if (k == 0) load_parameters(position);
          copy(position, ring(Index(k)));
        });
        b_.commit();
      }
    });
    const IndexVar turn = b_.var("turn", (kGangLag + 1) * domains_),
                   round = b_.var("round", domains_ + kGangLag),
                   next = b_.var("next", (kGangLag + 2) * domains_);
    b_.turns({turn, main_.place.team.id, next, round, teams.id, domains_, kGangLag},
             [&] { one(Index::var(turn), Index::var(round), Index::var(teams)); });
  }

 private:
  using ByReduction = Exchange::ByReduction;
  using Arrays = std::map<int, std::vector<kernel::ArrayId>>;  // by reduction
  static constexpr int kWarp = kGangThreads / 2;

  static StagePlace with_thread(StagePlace place, const IndexVar& thread) {
    place.thread_reduced = Index::var(thread);
    return place;
  }

  template <class F>
  void in_main(F&& body) {
    b_.when(b_.inside({{thread_, 0, threads_of(s_)}}), body);
  }
  enum class Role : std::uint8_t { posts, collects };
  template <class F>
  void in_warp(Role role, F&& body) {
    const int first = threads_of(s_) + static_cast<int>(role) * kWarp;
    b_.when(b_.inside({{thread_, first, first + kWarp}}), body);
  }

  kernel::ArrayId array(std::string_view name, ExprId id, std::int64_t elements, kernel::Space space) const {
    return b_.array(main_.array_name(name, id), kept_dtype(main_.region, id), elements, space);
  }

  void one(const Index& turn, const Index& round, const Index& teams) {
    Exchange exchange(main_, round), of_block(warp_, round);
    const std::vector<IndexBound> has_late = {{round, kGangLag, domains_ + kGangLag}};
    Exchange::Parts parts;
    in_main([&] {
      b_.await(s_.prefetch - 1);
      if_there(turn, [&](const Position& position) {
        ByReduction states = lower_first_phase(main_, position, held(round));
        exchange.across_lanes(states);
        parts = exchange.put(states);
      });
    });
    in_warp(Role::collects,
            [&] { b_.when(b_.inside(has_late), [&] { collect(round - Index(kGangLag), mod(round, 2)); }); });
    b_.barrier(kernel::Scope::block);
    in_warp(Role::posts, [&] {
      b_.when(b_.inside({{turn, 0, domains_}}), [&] {
        ByReduction own;
        for_each_component([&](int r, std::size_t) { own[r]; });
        of_block.combine_parts(own, parts);
        post(own, round);
      });
    });
    in_main([&] {
      b_.when(b_.inside(has_late), [&] {
        const IndexVar domain = b_.let("late", domains_, turn - teams * kGangLag);
        ByReduction totals;
        for (const auto& [r, of] : totals_) totals[r] = states_.get(states_.dtypes(r), of, mod(round, 2));
        lower_later_phases(main_, Position(main_, Index::var(domain)), held(round - Index(kGangLag)), totals);
      });
      if_there(turn + teams * s_.prefetch,
               [&](const Position& position) { copy(position, ring(round + Index(s_.prefetch))); });
      b_.commit();
    });
  }

  // What all blocks of the gang have found in a round: each lane that of some of them.
  void collect(const Index& round, const Index& place) {
    b_.comment("what all have found");
    const int blocks = std::min(s_.gang, kWarp);
    const int each = std::max(1, s_.gang / kWarp);  // blocks of a lane
    std::vector<Arrays> found;
    for (int k = 0; k < each; ++k) found.push_back(empty_states("found", k));
    b_.when(b_.inside({{Index::var(lane_), 0, blocks}}), [&] {
      std::vector<Index> at;
      std::vector<DType> types;
      for (int k = 0; k < each; ++k) {
        for_each_component([&](int r, std::size_t c) {
          at.push_back(slot_at(round, Index(k * kWarp) + mod(Index::var(lane_), blocks)));
          types.push_back(message_dtype(states_.dtypes(r)[c]));
        });
      }
      const Handles words = b_.collect(main_.kernel.slots, std::move(at), round, types);
      std::size_t word = 0;
      for (int k = 0; k < each; ++k) {
        for_each_component([&](int r, std::size_t c) {
          const DType t = states_.dtypes(r)[c];
          Handle h = words[word++];
          if (t != message_dtype(t)) h = b_.apply(ScalarOp::cast, std::array{h}, t);
          b_.set(found[static_cast<std::size_t>(k)].at(r)[c], Index(0), h);
        });
      }
    });
    std::vector<ByReduction> of_lane;
    for (const Arrays& one : found) {
      ByReduction& states = of_lane.emplace_back();
      for (const auto& [r, of] : one) states[r] = states_.get(states_.dtypes(r), of);
    }
    const ByReduction all = Exchange(warp_).across_lanes(of_lane);
    b_.when(b_.inside({{Index::var(lane_), 0, 1}}), [&] {
      for (const auto& [r, state] : all) states_.set(totals_.at(r), state, place);
    });
  }

  // What the block has found, by one lane.
  void post(const ByReduction& states, const Index& round) {
    b_.when(b_.inside({{Index::var(lane_), 0, 1}}), [&] {
      for_each_component([&](int r, std::size_t c) {
        Handle h = states.at(r)[c];
        const DType t = message_dtype(b_.dtype(h));
        if (b_.dtype(h) != t) h = b_.apply(ScalarOp::cast, std::array{h}, t);
        b_.post(main_.kernel.slots, slot_at(round, main_.share), h, round);
      });
    });
  }

  template <class F>
  void if_there(const Index& domain, F&& body) {
    b_.when(b_.inside({{domain, 0, domains_}}), [&] {
      const IndexVar d = b_.let("domain", domains_, domain);
      body(Position(main_, Index::var(d)));
    });
  }

  // What shared memory has of the domain of a round.
  Held ring(const Index& round) const {
    Held held;
    const int places = gang_places(s_);
    for (const auto& [id, in] : ring_)
      held[id] = {in.array, mod(round + Index(places), places) * place_elements_};
    return held;
  }
  Held held(const Index& round) const {
    Held held = ring(round);
    held.insert(parameters_.begin(), parameters_.end());
    return held;
  }

  void copy(const Position& position, const Held& loads) {
    for (std::int64_t i = 0; i < vectors_ahead(main_.region, s_); ++i) {
      Step step = position.step(Index(i), !position.is_inside(i));
      start_copies(main_, position, loads, step);
    }
  }

  void load_parameters(const Position& position) {
    for (std::int64_t i = 0; i < vectors_ahead(main_.region, s_); ++i) {
      Step step = position.step(Index(i), !position.is_inside(i));
      for (const auto& [id, in] : parameters_) {
        b_.at(main_.expr(id).node);
        b_.set(in.array, in.at(step), load_value(main_, position, main_.expr(id), &step));
      }
    }
  }

  Arrays empty_states(std::string_view name, int number) const {
    Arrays arrays;
    for (int r = 0; r < static_cast<int>(main_.region.reductions.size()); ++r) {
      arrays[r] = states_.arrays(r, fmt::format("{}{}_", name, number), states_.dtypes(r),
                                 main_.reduction(r).identity());
    }
    return arrays;
  }

  // Runs `body(reduction, component)`; `component_` is its number among all.
  template <class F>
  void for_each_component(F&& body) {
    component_ = 0;
    for (std::size_t r = 0; r < main_.region.reductions.size(); ++r) {
      states_.at(static_cast<int>(r));
      for (std::size_t c = 0; c < states_.dtypes(static_cast<int>(r)).size(); ++c, ++component_)
        body(static_cast<int>(r), c);
    }
  }
  // Of the component, in a round, of a block of the gang.
  Index slot_at(const Index& round, const Index& rank) const {
    const std::int64_t of_gang = slots_of(main_.region, s_), of_round = of_gang / kGangRounds;
    return Index::var(main_.place.team) * of_gang + mod(round + Index(kGangRounds), kGangRounds) * of_round +
           Index(component_ * s_.gang) + rank;
  }

  const Schedule& s_;
  KernelBuilder& b_;
  Index thread_;
  StagePlace main_place_;
  IndexVar lane_;
  StagePlace warp_place_;
  StageContext main_, warp_;
  States states_;
  std::int64_t domains_;
  std::int64_t place_elements_;  // of a place of the ring
  Held ring_, parameters_;
  Arrays totals_;
  std::int64_t component_ = 0;
};

}  // namespace

void lower_gang(const StageContext& stage) { GangLowering(stage).run(); }

}  // namespace bz::compiler
