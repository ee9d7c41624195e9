// SPDX-License-Identifier: BSD-3-Clause
// The answers to commands, about a step of training whose numbers are known.
#include "debug/model.hpp"
#include "support/catch.hpp"

namespace reel::tests {
TEST_CASE("answers to commands") {
  const Model model;
  const debug::Watch watch({.stop = "", .values = true, .keep_steps = 2});
  const Tensor x = tensor({{1.0f, 0.0f, 2.0f}, {0.0f, 1.0f, 0.0f}});
  const Tensor y = tensor({{1.0f, 0.0f}, {2.0f, 1.0f}});
  for (int i = 0; i < 3; ++i) model.step(x, y);
  const std::pair<const char*, const char*> golden[] = {
      {R"(info)",
       R"(running
step 2: 15 results, 5 of them backward, 6 on a tape
2 steps are kept, with 308 B of values
)"},
      {R"(tensors)",
       R"(  N  op                  line          type                 min      max     norm   zeros
 #1  matmul              model.cpp:12  float32 (2, 2)    -0.875        2    2.418       0
 #2  add                 model.cpp:12  float32 (2, 2)   -0.4688        2    2.386       0
 #3  relu                model.cpp:13  float32 (2, 2)         0        2    2.339    0.25
 #4  subtract            model.cpp:14  float32 (2, 2)   -0.3125        0   0.3125    0.75
 #5  square              model.cpp:14  float32 (2, 2)         0  0.09766  0.09766    0.75
 #6  sum                 model.cpp:14  float32 ()       0.09766  0.09766  0.09766       0
 #7  broadcast_to        model.cpp:14  float32 (2, 2)         1        1        2       0
 #8  gradient of square  model.cpp:14  float32 (2, 2)    -0.625        0    0.625    0.75
 #9  gradient of relu    model.cpp:13  float32 (2, 2)    -0.625        0    0.625    0.75
#10  sum_to              model.cpp:12  float32 (2,)      -0.625        0    0.625     0.5
#11  matmul              model.cpp:12  float32 (3, 2)    -0.625        0    0.625  0.8333
#12  multiply            model.cpp:16  float32 (3, 2)  -0.07812        0  0.07812  0.8333
#13  assign_sub          model.cpp:16  float32 (3, 2)    -1.375        2    2.661  0.1667
#14  multiply            model.cpp:17  float32 (2,)    -0.07812        0  0.07812     0.5
#15  assign_sub          model.cpp:17  float32 (2,)           0   0.4844   0.4844     0.5
)"},
      {R"(tensors has_nan)",
       R"(None of 15 results of step 2.
)"},
      {R"(tensors norm > 2 and not backward)",
       R"(  N  op          line          type                min  max   norm   zeros
 #1  matmul      model.cpp:12  float32 (2, 2)   -0.875    2  2.418       0
 #2  add         model.cpp:12  float32 (2, 2)  -0.4688    2  2.386       0
 #3  relu        model.cpp:13  float32 (2, 2)        0    2  2.339    0.25
#13  assign_sub  model.cpp:16  float32 (3, 2)   -1.375    2  2.661  0.1667
)"},
      {R"(tensors op=^(relu|square)$)",
       R"( N  op      line          type            min      max     norm  zeros
#3  relu    model.cpp:13  float32 (2, 2)    0        2    2.339   0.25
#5  square  model.cpp:14  float32 (2, 2)    0  0.09766  0.09766   0.75
)"},
      {R"(tensors sort=op -r)",
       R"(  N  op                  line          type                 min      max     norm   zeros
#10  sum_to              model.cpp:12  float32 (2,)      -0.625        0    0.625     0.5
 #6  sum                 model.cpp:14  float32 ()       0.09766  0.09766  0.09766       0
 #4  subtract            model.cpp:14  float32 (2, 2)   -0.3125        0   0.3125    0.75
 #5  square              model.cpp:14  float32 (2, 2)         0  0.09766  0.09766    0.75
 #3  relu                model.cpp:13  float32 (2, 2)         0        2    2.339    0.25
#14  multiply            model.cpp:17  float32 (2,)    -0.07812        0  0.07812     0.5
#12  multiply            model.cpp:16  float32 (3, 2)  -0.07812        0  0.07812  0.8333
#11  matmul              model.cpp:12  float32 (3, 2)    -0.625        0    0.625  0.8333
 #1  matmul              model.cpp:12  float32 (2, 2)    -0.875        2    2.418       0
 #8  gradient of square  model.cpp:14  float32 (2, 2)    -0.625        0    0.625    0.75
 #9  gradient of relu    model.cpp:13  float32 (2, 2)    -0.625        0    0.625    0.75
 #7  broadcast_to        model.cpp:14  float32 (2, 2)         1        1        2       0
#15  assign_sub          model.cpp:17  float32 (2,)           0   0.4844   0.4844     0.5
#13  assign_sub          model.cpp:16  float32 (3, 2)    -1.375        2    2.661  0.1667
 #2  add                 model.cpp:12  float32 (2, 2)   -0.4688        2    2.386       0
)"},
      {R"(tensors sort=colour)",
       R"(expected sort=time, sort=size, sort=op or sort=max, got "sort=colour"
)"},
      {R"(tensors op=[)",
       R"(expected a regular expression (ECMAScript), got "[". Unexpected character within '[...]' in regular expression
)"},
      {R"(inputs)",
       R"( N  name     type               min     max    norm   zeros  hash                                   read by
@1  outside  float32 (2, 3)       0       2   2.449     0.5  8a0081b9929428fe        #1 matmul model.cpp:12
@2  "w"      float32 (3, 2)  -1.375       2   2.652  0.1667  290d0dbf416f8b87        #1 matmul model.cpp:12
@3  "b"      float32 (2,)         0  0.4062  0.4062     0.5  d4a33aa5bdf105eb           #2 add model.cpp:12
@4  outside  float32 (2, 2)       0       2   2.449    0.25  bbeef2e028b90511      #4 subtract model.cpp:14
@5  outside  float32 ()           1       1       1       0  19a7d00dc11ab445  #7 broadcast_to model.cpp:14
@8  outside  float32 ()       0.125   0.125   0.125       0  51e858c7986d4908     #12 multiply model.cpp:16
)"},
      {R"(variables)",
       R"(name  type            reads  writes  kind
"w"   float32 (3, 2)      6       3  trained
"b"   float32 (2,)        6       3  trained
)"},
      {R"(op relu)",
       R"(#3 relu at model.cpp:13, call 1 at this line in step 2
on a tape
          what                       min  max   norm  zeros
input 0   #2 add float32 (2, 2)  -0.4688    2  2.386      0
output 0  float32 (2, 2)               0    2  2.339   0.25
)"},
      {R"(op 7)",
       R"(#7 broadcast_to at model.cpp:14, call 1 at this line in step 2
layer: gradient
options: shape=(2, 2)
backward
          what                   min  max  norm  zeros
input 0   @5 outside float32 ()    1    1     1      0
output 0  float32 (2, 2)           1    1     2      0
)"},
      {R"(op 99)",
       R"(expected a result from #1 to #15 of step 2, or an op that it has called, got "99"
)"},
      {R"(from loss 3)",
       R"(#6 sum float32 () at model.cpp:14
  #5 square float32 (2, 2) at model.cpp:14
    #4 subtract float32 (2, 2) at model.cpp:14
      #3 relu float32 (2, 2) at model.cpp:13
      @4 outside float32 (2, 2)
)"},
      {R"(to #1)",
       R"(#1 matmul float32 (2, 2) at model.cpp:12
  #2 add float32 (2, 2) at model.cpp:12
)"},
      {R"(print #1)",
       R"(float32 (2, 2)
[[ 1.0000, -0.8750],
 [ 2.0000,  0.2812]]
)"},
      {R"(print #1[0, :])",
       R"(float32 (2,)
[ 1.000, -0.875]
)"},
      {R"(print #1[0:5:x])",
       R"(expected slices such as 0:3, :, ::2 or -1, separated by commas, got "0:5:x"
)"},
      {R"(print #1[9])",
       R"(expected an index from -2 to 1 for axis 0, got 9
)"},
      {R"(print w)",
       R"(float32 (3, 2)
[[ 1.0000, -1.3750],
 [ 2.0000,  0.2812],
 [ 0.0000,  0.2500]]
)"},
      {R"(print #1 highlight x > 1)",
       R"(float32 (2, 2)
place   element
[1, 0]        2
1 of 4 elements
)"},
      {R"(summary 1)",
       R"(#1 matmul at model.cpp:12: float32 (2, 2) from -0.875 to 2
elements  nan  inf  zeros  dead  saturated     min  max    mean   norm
       4    0    0      0     0          0  -0.875    2  0.6016  2.418
    -0.875        1 ########################################
    -0.588        0 
      -0.3        0 
   -0.0125        0 
     0.275        1 ########################################
     0.562        0 
      0.85        1 ########################################
      1.14        0 
      1.42        0 
      1.71        1 ########################################
)"},
      {R"(show 1)",
       R"(#1 matmul at model.cpp:12: float32 (2, 2) from -0.875 to 2
|* |
|@=|
' ' is -0.875, '@' is 2, '!' is nan or inf
)"},
      {R"(eval norm(#1) / 2)",
       R"(1.20879
)"},
      {R"(eval #1 + 1)",
       R"(float32 (2, 2)
[[2.0000, 0.1250],
 [3.0000, 1.2812]]
)"},
      {R"(eval frobnicate(#1))",
       R"(expected an op or one of norm, min, max, mean, zeros, saturated, nans, sum, dead, any, infinities, elements, has_nan, has_inf, has_inf_or_nan, all, got "frobnicate"
)"},
      {R"(eval 1 +)",
       R"(expected a number, #12, @3, a name or "(", got the end. At character 4 of "1 +"
)"},
      {R"(eval mean(@1))",
       R"(0.666667
)"},
      {R"(print @2)",
       R"(float32 (3, 2)
[[ 1.0000, -1.3750],
 [ 2.0000,  0.2812],
 [ 0.0000,  0.2500]]
)"},
      {R"(print @99)",
       R"(expected an input from @1 to @8; `inputs` lists them, got @99
)"},
      {R"(try #4[0, 0] = 0)",
       R"(10 results are computed again; the program is unchanged.
  N  op                  line          norm before  norm now  nan  inf
 #4  subtract            model.cpp:14       0.3125    0.3125    0    0
 #5  square              model.cpp:14      0.09766   0.09766    0    0
 #6  sum                 model.cpp:14      0.09766   0.09766    0    0
 #8  gradient of square  model.cpp:14        0.625     0.625    0    0
 #9  gradient of relu    model.cpp:13        0.625     0.625    0    0
#10  sum_to              model.cpp:12        0.625     0.625    0    0
#11  matmul              model.cpp:12        0.625     0.625    0    0
#12  multiply            model.cpp:16      0.07812   0.07812    0    0
#13  assign_sub          model.cpp:16        2.661     2.661    0    0
#14  multiply            model.cpp:17      0.07812   0.07812    0    0
#15  assign_sub          model.cpp:17       0.4844    0.4844    0    0
)"},
      {R"(try #4)",
       R"(expected #N = EXPRESSION, as in: try #12 = 0, got "#4"
)"},
      {R"(set #4 = 0)",
       R"(expected a program that has stopped at a prompt, got one that runs. Stop it with REEL_DEBUG=cli, debug::cli(), or a Watch with {.prompt = true}
)"},
      {R"(replay)",
       R"(step 2: 15 of 15 results have the same bits again
)"},
      {R"(profile)",
       R"(expected a profile that has been measured, got none. `run profile N` measures the next N steps
)"},
      {R"(history)",
       R"(step  results  values  complete
   1       15  308 B   yes
   2       15  308 B   yes
config keep_steps 2
)"},
      {R"(history w)",
       R"(step   norm  norm of gradient  norm of update
   1   2.64              1.25          0.1562
   2  2.652             0.625         0.07812
)"},
      {R"(look 1)",
       R"(step 1: 15 results
)"},
      {R"(look -1)",
       R"(step 1: 15 results
)"},
      {R"(look 7)",
       R"(expected a step that is kept; `history` lists them, got step 7
)"},
      {R"(look)",
       R"(step 2: 15 results
)"},
      {R"(path loss w)",
       R"( N  op        line             norm  norm of gradient
#6  sum       model.cpp:14  0.09766                 1
#5  square    model.cpp:14  0.09766                 2
#4  subtract  model.cpp:14   0.3125             0.625
#3  relu      model.cpp:13    2.339             0.625
#2  add       model.cpp:12    2.386             0.625
#1  matmul    model.cpp:12    2.418             0.625
)"},
      {R"(why loss b)",
       R"(The gradient is there: its norm is 0.625 at #2 add at model.cpp:12.
)"},
      {R"(gradients)",
       R"(Variable  type               min  max   norm   zeros  norm of value
"b"       float32 (2,)    -0.625    0  0.625     0.5         0.4062
"w"       float32 (3, 2)  -0.625    0  0.625  0.8333          2.652
)"},
      {R"(gradients relu)",
       R"(call   N  op    line           norm  norm of gradient
   1  #3  relu  model.cpp:13  2.339             0.625
)"},
      {R"(updates)",
       R"(Variable  op          line            norm  norm of update    ratio
"w"       assign_sub  model.cpp:16   2.661         0.07812  0.02936
"b"       assign_sub  model.cpp:17  0.4844         0.07812   0.1613
)"},
      {R"(break tanh)",
       R"(stop 1: tanh
)"},
      {R"(break nonsense)",
       R"(expected an op such as tanh, a line such as model.cpp:12 or 12, or a Variable such as "w", "b", got "nonsense"
)"},
      {R"(break relu if norm > 3)",
       R"(stop 2: relu if norm > 3
)"},
      {R"(break)",
       R"(stop  at                hits
   1  tanh                 0
   2  relu if norm > 3     0
)"},
      {R"(delete 1)",
       R"(Removed stop 1.
)"},
      {R"(delete 9)",
       R"(expected the number of a stop; `break` lists them, got "9"
)"},
      {R"(except log)",
       R"(Stops leave out ops and lines that match log
)"},
      {R"(config digits 6)",
       R"(name            value
digits              6
rows               40
width              64
bytes       268435456
keep_steps          2
)"},
      {R"(config colour 3)",
       R"(expected digits, rows, width, bytes or keep_steps, got "colour"
)"},
      {R"(step)",
       R"(expected a program that has stopped at a prompt, got one that runs. Stop it with REEL_DEBUG=cli, debug::cli(), or a Watch with {.prompt = true}
)"},
      {R"(cont)",
       R"(expected a program that has stopped at a prompt, got one that runs. Stop it with REEL_DEBUG=cli, debug::cli(), or a Watch with {.prompt = true}
)"},
      {R"(frobnicate)",
       R"(expected a command; `help` lists them, got "frobnicate"
)"},
      {R"(help op)",
       R"(command  arguments
op       [N]        a result: its op, options, inputs, outputs, layer, line
)"},
  };
  for (const auto& [command, answer] : golden) {
    INFO(command);
    CHECK(watch.answer(command) == answer);
  }
}

TEST_CASE("commands have their names of tfdbg too") {
  const Model model;
  const debug::Watch watch({.stop = "", .values = true, .keep_steps = 2});
  for (int i = 0; i < 2; ++i) model.step(ones({2, 3}), ones({2, 2}));
  const std::pair<const char*, const char*> names[] = {
      {"run_info", "info"},
      {"list_tensors has_nan", "tensors has_nan"},
      {"list_tensors -r sort=max", "tensors -r sort=max"},
      {"node_info relu", "op relu"},
      {"list_inputs loss 2", "from loss 2"},
      {"list_outputs #1 2", "to #1 2"},
      {"print_tensor #1[0, :]", "print #1[0, :]"},
      {"print_source model.cpp:12", "source model.cpp:12"},
      {"list_source", "sources"},
      {"list_profile", "profile"},
      {"print_feed", "inputs"},
      {"feeds", "inputs"},
      {"invoke_stepper", "step"},
      {"help node_info", "help op"},
      {"help ten", "help tensors"}};
  for (const auto& [theirs, ours] : names) {
    INFO(theirs);
    CHECK(watch.answer(theirs) == watch.answer(ours));
    CHECK(!has(watch.answer(ours), "expected a command"));
  }
  CHECK(
      has(watch.answer("source model.cpp:12"), "expected a file that can be read, got model.cpp"));
  CHECK(has(watch.answer("eval norm(#1)"), "."));
  CHECK(has(watch.answer("config"), "digits"));
  CHECK(has(watch.answer("pr"), "expected one of print, profile, got \"pr\""));
}

TEST_CASE("answers as JSON, names with control characters, and long commands") {
  const Variable odd("odd\n\"name\"\x01\xff", ones({2}));
  const debug::Watch watch({.stop = "", .values = true});
  const std::string line = std::to_string(__LINE__ + 1);
  const Tensor y = odd * 2;
  CHECK(
      watch.answer("op", debug::Form::json) ==
      "{\"ok\":true,\"lines\":[\"#1 multiply at commands.cpp:" + line +
          ", call 1 at this line in step "
          "0\"],\"columns\":[\"\",\"what\",\"min\",\"max\",\"norm\",\"zeros\"],\"rows\":[[\"input "
          "0\",\"@1 \\\"odd\\\\x0a\\\"name\\\"\\\\x01\\ufffd\\\" float32 "
          "(2,)\",1,1,1.414,0],[\"input "
          "1\",\"@2 outside float32 ()\",2,2,2,0],[\"output 0\",\"float32 "
          "(2,)\",2,2,2.828,0]],\"notes\":[],\"goes_on\":false}");
  CHECK(has(watch.answer("frobnicate", debug::Form::json),
            "{\"ok\":false,\"error\":\"expected a command"));
  CHECK(
      has(watch.answer(std::string(20000, 'x')), "expected a command of at most 10000 characters"));
  CHECK(watch.answer("").empty());
  CHECK(watch.answer("   ").empty());
  CHECK(has(watch.answer("/["), "expected a regular expression"));
  watch.answer("tensors");
  CHECK(has(watch.answer("/multi"), "multiply"));
}
}  // namespace reel::tests
