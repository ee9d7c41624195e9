// SPDX-License-Identifier: BSD-3-Clause
// Advantage actor-critic (Mnih et al. 2016) learns to balance a pole on a cart (Barto, Sutton and
// Anderson 1983). Sixteen carts drive side by side; a step of learning follows every few moves.
#include <reel/reel.hpp>

#include <cmath>
#include <random>

#include "options.hpp"

using namespace reel;

struct Options : CommonOptions {
  int updates = 4000, carts = 16, moves = 16, hidden = 64;
  double rate = 2e-3, discount = 0.99, entropy = 0.01;
};

/// A cart with a pole on it. A move pushes it to the left or to the right for a fiftieth of a
/// second. It falls when it is 2.4 m away, or the pole 12 degrees off; every move before that
/// counts 1.
struct Cart {
  float place, speed, angle, turning;
  int moves;
  explicit Cart(std::mt19937& random) {
    std::uniform_real_distribution<float> near(-0.05f, 0.05f);
    place = near(random), speed = near(random), angle = near(random), turning = near(random);
    moves = 0;
  }
  void push(bool right) {
    constexpr float gravity = 9.8f, cart = 1, pole = 0.1f, half_length = 0.5f, force = 10;
    constexpr float seconds = 0.02f, mass = cart + pole;
    const float sine = std::sin(angle), cosine = std::cos(angle);
    const float push =
        ((right ? force : -force) + pole * half_length * turning * turning * sine) / mass;
    const float turn = (gravity * sine - cosine * push) /
                       (half_length * (4.0f / 3 - pole * cosine * cosine / mass));
    const float pull = push - pole * half_length * turn * cosine / mass;
    place += seconds * speed, speed += seconds * pull;
    angle += seconds * turning, turning += seconds * turn;
    ++moves;
  }
  bool fallen() const { return std::abs(place) > 2.4f || std::abs(angle) > 0.2095f; }
  bool ended() const { return fallen() || moves == 500; }
};

/// What the model sees of carts: [carts, 4].
Tensor seen(const std::vector<Cart>& carts) {
  std::vector<float> numbers;
  for (const Cart& c : carts) numbers.insert(numbers.end(), {c.place, c.speed, c.angle, c.turning});
  return from_span(numbers, {carts.size(), 4});
}

struct Model {
  nn::Linear actor_hidden, actor, critic_hidden, critic;
  explicit Model(int hidden)
      : actor_hidden(4, hidden, Activation::tanh),
        actor(hidden, 2),
        critic_hidden(4, hidden, Activation::tanh),
        critic(hidden, 1) {}
  REEL_FIELDS(actor_hidden, actor, critic_hidden, critic)
  /// Scores of left and right [..., 2].
  Tensor scores(const Tensor& x) const { return actor(actor_hidden(x)); }
  /// How many moves are to be expected [...], those to come later discounted.
  Tensor values(const Tensor& x) const { return squeeze(critic(critic_hidden(x)), -1); }
};

void train(const Model& model, const Options& options) {
  std::mt19937 random(static_cast<unsigned>(options.seed));
  optim::Adam adam(parameters(model), {.learning_rate = options.rate});
  optim::Schedule schedule(adam, optim::linear_decay(options.updates));
  std::vector<Cart> carts(static_cast<std::size_t>(options.carts), Cart(random));
  bench::Progress progress("updates", options.updates);
  double average = 20;  // of the length of runs
  for (int update = 1; update <= options.updates; ++update) {
    std::vector<Tensor> states, actions, going;
    for (int move = 0; move < options.moves; ++move) {
      states.push_back(seen(carts));
      actions.push_back(random::categorical(model.scores(states.back())));
      const auto right = actions.back().values<std::int64_t>();
      std::vector<float> goes;
      for (std::size_t i = 0; i < carts.size(); ++i) {
        carts[i].push(right[i] == 1);
        goes.push_back(!carts[i].ended());
        if (!carts[i].ended()) continue;
        average += 0.01 * (carts[i].moves - average);
        carts[i] = Cart(random);
      }
      going.push_back(tensor(goes));
    }
    // What each move earned, the later ones discounted, and the critic's guess behind the last one.
    std::vector<Tensor> returns(states.size());
    Tensor next = model.values(seen(carts));
    for (std::size_t t = states.size(); t-- > 0;)
      returns[t] = next = 1 + options.discount * going[t] * next;

    const Tensor x = concat(states), action = concat(actions), earned = concat(returns);
    GradientTape tape;
    const Tensor values = model.values(x), log_chance = log_softmax(model.scores(x));
    const Tensor advantage = stop_gradient(earned - values);
    const Tensor taken = pick(log_chance, action);
    const Tensor entropy = -mean(sum(exp(log_chance) * log_chance, 1));
    const Tensor loss =
        0.05 * mse_loss(values, earned) - mean(taken * advantage) - options.entropy * entropy;
    adam.step(optim::clip_by_global_norm(tape.gradient(loss, parameters(model)), 0.5));
    schedule.step();
    progress.show(update, fmt::format("mean return {:.0f}", average));
  }
  progress.end_line();
}

/// The mean return of a hundred carts.
double evaluate(const Model& model, const Options& options) {
  std::mt19937 random(static_cast<unsigned>(options.seed + 1));
  std::vector<Cart> carts;
  for (int i = 0; i < 100; ++i) carts.emplace_back(random);
  double total = 0;
  while (!carts.empty()) {
    const auto right = random::categorical(model.scores(seen(carts))).values<std::int64_t>();
    for (std::size_t i = 0; i < carts.size(); ++i) carts[i].push(right[i] == 1);
    for (const Cart& c : carts) total += c.ended() ? c.moves : 0;
    std::erase_if(carts, [](const Cart& c) { return c.ended(); });
  }
  return total / 100;
}

int main(int argc, char** argv) {
  Options options;
  CommandLine line("An actor and a critic learn to balance a pole.", options);
  line.add("--updates", options.updates, "training steps")->check(CLI::PositiveNumber);
  return line.run(argc, argv, [&] {
    const Model model(options.hidden);
    fmt::print("{}mean return of 100 runs before: {:.0f}\n", summary(model),
               evaluate(model, options));
    train(model, options);
    fmt::print("mean return of 100 runs after: {:.0f} of 500\n", evaluate(model, options));
  });
}
