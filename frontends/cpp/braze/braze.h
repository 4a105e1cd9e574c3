// Braze from C++: build a graph of elementwise maps, reductions and views, compile it, run it.
//
//   #include <braze/braze.h>
//
//   bz::Graph g;
//   auto x = g.input("x", bz::f32, {128, 64, 126, 126});
//   auto gamma = g.input("gamma", bz::f32, {64}), beta = g.input("beta", bz::f32, {64});
//   auto n = bz::group_norm(x, 16, gamma, beta, 1e-5);
//   g.output("y", bz::logsumexp(x + bz::hardswish(bz::tanh(n)), {1}, bz::keepdims));
//   auto exe = bz::compile(g, bz::Device::best());        // a GPU if there is one, else the simulator
//   fmt::print("{}\n{}", exe.explain(), exe.dump(bz::Stage::ptx));
//
// A mistake in a program is a bz::Error that names the line of the caller:
//
//   gn.cpp:14: error: cannot add f32[3,4] and f32[4,3]: dimension 0 is 3 on the left and 4 on the right
#pragma once

#include <braze/device.h>
#include <braze/executable.h>
#include <braze/operations.h>
#include <braze/reference.h>
#include <braze/tensor.h>

#include "ir/compare.h"
#include "ir/interpret.h"
#include "ir/npy.h"
#include "ir/parse.h"
#include "ir/print.h"
