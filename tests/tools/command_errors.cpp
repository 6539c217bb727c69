#include <catch2/catch.hpp>

#include "tools/run_command.h"

namespace gspmd {

TEST_CASE("a wrong command line, file or module is one message and exit code 2") {
  const auto [arguments, message] = GENERATE(table<std::string, std::string>({
      {"", "gspmd --help"},
      {"frob -", "gspmd --help"},
      {"print", "FILE is required"},
      {"print - --frob", "--frob"},
      {"print no/such/file.hlo", "no/such/file.hlo: cannot be opened: No such file"},
      {"print .", "cannot be read"},
      {"run - --num-devices 0", "--num-devices 0: give an integer of 1 to 2147483648"},
      {"run - --num-devices two", "--num-devices"},
      {"run - --num-devices 4", "the program has 4 devices"},
      {"run - --inputs no/such.npz", "no/such.npz: cannot be read as npz: No such file"},
      {"run - --outputs no/such.npz", "--outputs no/such.npz: there is no folder no"},
      {"run - --outputs .", "--outputs .: is a folder"},
      {"run - --time-limit 0", "--time-limit 0: give a number of seconds above 0"},
      {"run - --time-limit nan", "--time-limit nan: give a number"},
      {"run - --rtol 1", "--rtol"},
      {"print - --num-devices 2", "--num-devices"},
      {"run - --option cache_all_gather=maybe", "cache_all_gather takes true or false"},
      {"run - --option max_windowed_einsum_iteration=x", "takes an integer"},
      {"run - --values ones", "--values ones: use integers or uniform"},
      {"run - --seed -1", "--seed"},
      {"run - --threads 100000", "--threads 100000: give an integer of 0 to 1024"},
      {"run - --disable frob", "there is no pass \"frob\""},
      {"run - --disable keep-local", "keep-local keeps a stage of the module that is read later"},
      {"cost - --disable keep-completed", "keep-completed keeps a stage of the module"},
      {"run - --dump-after frob", "there is no such pass"},
      {"run - --option frob=1", "there is no option \"frob\"; options are conv_halo"},
      {"run - --option frob", "give name=value"},
      {"verify - --reference frob", "use oracle or fast"},
      {"verify - --rtol -1", "--rtol -1: a tolerance is not negative"},
      {"propagate - --allow-output-propagation=maybe", "\"maybe\" is not true or false"},
      {"propagate - --allow-output-propagation=1,0,1", "3 values given; give one, or 2"},
      {"propagate - --allow-parameter-propagation=1,0", "2 values given; give one, or 3"},
  }));
  CAPTURE(arguments);
  const CommandResult result = run_command(arguments, kNetwork);
  CHECK(result.code == 2);
  CHECK(result.out == "");
  CHECK_THAT(result.err, Catch::StartsWith("gspmd: ") && Catch::Contains(message));
  CHECK(std::count(result.err.begin(), result.err.end(), '\n') == 1);
}

TEST_CASE("an error in the text names standard input, line and column") {
  const CommandResult result = run_command("print -", "HloModule m\nENTRY e { a = f32[2 }\n");
  CHECK(result.code == 2);
  CHECK(result.err ==
        "gspmd: <stdin>:2:21: expected ',' between dims, found '}'\n"
        "  ENTRY e { a = f32[2 }\n"
        "                      ^\n");
}

TEST_CASE("a module of several replicas is refused where it would be partitioned") {
  const std::string text = "HloModule m, replica_count=2\nENTRY e { ROOT a = f32[] parameter(0) }";
  CHECK(run_command("print -", text).code == 0);
  const CommandResult result = run_command("run -", text);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Catch::Contains("replica_count=2"));
}

TEST_CASE("branches that double at every level are refused, not written out") {
  std::string text =
      "HloModule m, num_partitions=2\n"
      "f0 { x = f32[4] parameter(0)\n ROOT y = f32[4] negate(x) }\n";
  for (int i = 1; i < 40; ++i)
    text += fmt::format(
        "f{0} {{ x = f32[4] parameter(0)\n i = s32[] constant(1)\n"
        " ROOT z = f32[4] conditional(i, x, x), branch_computations={{f{1}, f{1}}} }}\n",
        i, i - 1);
  for (const char* arguments : {"partition -", "run - --num-devices 1", "verify -", "cost -"}) {
    CAPTURE(arguments);
    const CommandResult result = run_command(arguments, text);
    CHECK(result.code == 2);
    CHECK_THAT(result.err, Catch::Contains("with its calls, loops and branches written out"));
  }
}

TEST_CASE("the options of the partitioner are accepted by name") {
  for (const char* option : {"cache_all_gather=true", "threshold_for_windowed_einsum_mib=256",
                             "preferred_gather_partition_methods=index_parallel"}) {
    CAPTURE(option);
    const CommandResult result =
        run_command(std::string("run - --json --option ") + option, kNetwork);
    CHECK(result.code == 0);
    CHECK(result.out[0] == '{');
  }
}

TEST_CASE("every verb explains itself, with its JSON and the exit codes") {
  for (const char* verb :
       {"print", "propagate", "partition", "run", "verify", "explain", "cost", "ops"}) {
    CAPTURE(verb);
    const CommandResult result = run_command(std::string(verb) + " --help");
    CHECK(result.code == 0);
    CHECK(result.err == "");
    CHECK_THAT(result.out, Catch::Contains("--json") && Catch::Contains("\nJSON\n") &&
                               Catch::Contains("Exit codes"));
    CHECK_THAT(run_command("--help").out, Catch::Contains(verb));
  }
}

TEST_CASE("a number of the command line that does not fit is an error that shows it as given") {
  const std::string most = "18446744073709551615", more = "18446744073709551616";
  const auto [option, number] = GENERATE_COPY(table<std::string, std::string>({
      {"--num-devices", "99999999999999999999"},
      {"--num-devices", "-99999999999999999999"},
      {"--num-devices", "8x"},
      {"--threads", "4294967297"},
      {"--threads", "99999999999999999999"},
      {"--seed", more},
      {"--seed", "0x10000000000000000"},
      {"--seed", "1.5"},
      {"--seed", "''"},
      {"--rtol", "1e400"},
      {"--atol", "1e-400"},
      {"--time-limit", "1e400"},
      {"--memory-limit", "4611686018427387904"},
      {"--memory-limit", "99999999999999999999"},
      {"--memory-limit", "8388608TiB"},
      {"--option max_windowed_einsum_iteration", "9223372036854775808"},
  }));
  CAPTURE(option, number);
  const bool named = option.find(' ') != std::string::npos;
  const CommandResult result =
      run_command(fmt::format("verify - {}{}{}", option, named ? "=" : " ", number), kNetwork);
  CHECK(result.code == 2);
  CHECK(result.out == "");
  CHECK_THAT(result.err, Catch::Contains(number == "''" ? "--seed" : number));
  CHECK(run_command("run - --seed " + most, kNetwork).code == 0);
  CHECK(run_command("run - --seed 0xffffffffffffffff", kNetwork).out ==
        run_command("run - --seed " + most, kNetwork).out);
}

TEST_CASE("calls that would write out to 2^40 instructions are refused") {
  std::string text = "HloModule m\nf0 { x = f32[] parameter(0)\n ROOT y = f32[] add(x, x) }\n";
  for (int i = 1; i < 40; ++i)
    text += fmt::format(
        "f{0} {{ x = f32[] parameter(0)\n y = f32[] call(x), to_apply=f{1}\n"
        " ROOT z = f32[] call(y), to_apply=f{1} }}\n",
        i, i - 1);
  const CommandResult result = run_command("run -", text);
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Catch::Contains("with its calls, loops and branches written out"));
}

TEST_CASE("a run that does not fit into memory is refused with the bytes it needs") {
  const CommandResult result =
      run_command("run -",
                  "HloModule m\nENTRY e { a = f32[1000000,1000000] parameter(0)\n"
                  " ROOT r = f32[1000000,1000000] tanh(a) }");
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Catch::Contains("run on 1 devices: 16000000001024 bytes are needed"));
}

TEST_CASE("a run that would not end for a lifetime is refused with what it has to do") {
  const CommandResult result =
      run_command("run -",
                  "HloModule m\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = "
                  "f32[] add(x, y) }\n"
                  "ENTRY e { z = f32[] constant(1)\n"
                  " b = f32[1000000000,10000000] broadcast(z), dimensions={}\n"
                  " ROOT r = f32[] reduce(b, z), dimensions={0,1}, to_apply=add }");
  CHECK(result.code == 2);
  CHECK_THAT(result.err, Catch::Contains("do not end within 600 seconds"));
}

TEST_CASE("a run is refused only for what it has to do at least") {
  // Eight million sums of up to eight million elements, each of which is one addition more.
  CHECK(run_command("run - --time-limit 30",
                    "HloModule m\nadd { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT s = "
                    "f32[] add(x, y) }\n"
                    "ENTRY e { a = f32[8000000] parameter(0)\n z = f32[] constant(0)\n"
                    " w = f32[8000000] reduce-window(a, z), window={size=8000000 pad=7999999_0}, "
                    "to_apply=add\n ROOT r = f32[1] slice(w), slice={[7999999:8000000]} }")
            .code == 0);
  // Three thousand runs of which any might multiply, and none does.
  CHECK(run_command(
            "run - --time-limit 30",
            "HloModule m\nheavy { a = f32[2048,2048] parameter(0)\n d = f32[2048,2048] dot(a, a), "
            "lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
            " s = f32[1,1] slice(d), slice={[0:1], [0:1]}\n ROOT r = f32[] reshape(s) }\n"
            "light { a = f32[2048,2048] parameter(0)\n s = f32[1,1] slice(a), "
            "slice={[0:1], [0:1]}\n ROOT r = f32[] reshape(s) }\n"
            "below { s = (s32[], f32[], f32[2048,2048]) parameter(0)\n i = s32[] "
            "get-tuple-element(s), index=0\n n = s32[] constant(3000)\n ROOT c = pred[] "
            "compare(i, n), direction=LT }\n"
            "body { s = (s32[], f32[], f32[2048,2048]) parameter(0)\n i = s32[] "
            "get-tuple-element(s), index=0\n a = f32[2048,2048] get-tuple-element(s), index=2\n"
            " o = s32[] constant(1)\n l = s32[] constant(-1)\n c = pred[] compare(i, l), "
            "direction=LT\n j = s32[] add(i, o)\n b = f32[] conditional(c, a, a), "
            "true_computation=heavy, false_computation=light\n"
            " ROOT t = (s32[], f32[], f32[2048,2048]) tuple(j, b, a) }\n"
            "ENTRY e { z = s32[] constant(0)\n v = f32[] constant(0)\n"
            " a = f32[2048,2048] parameter(0)\n t = (s32[], f32[], f32[2048,2048]) "
            "tuple(z, v, a)\n w = (s32[], f32[], f32[2048,2048]) while(t), condition=below, "
            "body=body\n ROOT r = f32[] get-tuple-element(w), index=1 }")
            .code == 0);
}

TEST_CASE("an unknown custom call is kept by print and propagate, and refused by run") {
  const std::string text =
      "HloModule m\nENTRY e { a = f32[4] parameter(0)\n"
      " ROOT r = f32[4] custom-call(a), custom_call_target=\"frob\" }";
  CHECK(run_command("print -", text).code == 0);
  CHECK(run_command("propagate -", text).code == 0);
  for (const char* verb : {"partition", "explain", "cost"}) {
    CAPTURE(verb);
    const CommandResult kept = run_command(std::string(verb) + " - --num-devices 2", text);
    CHECK(kept.code == 0);
    CHECK_THAT(kept.err, Catch::Contains("warning: -: custom-call: \"r\": target \"frob\""));
  }
  for (const char* verb : {"run", "verify"}) {
    CAPTURE(verb);
    const CommandResult result = run_command(std::string(verb) + " - --num-devices 2", text);
    CHECK(result.code != 0);
    CHECK_THAT(result.err, Catch::Contains("target \"frob\" is not known, so it cannot run"));
  }
}

TEST_CASE("an attribute that nobody knows is kept, with a warning") {
  const std::string text =
      "HloModule m\nENTRY e { a = f32[4] parameter(0)\n"
      " n = f32[4] negate(a), rounding=UP, result_accuracy={mode=highest}\n"
      " ROOT r = f32[4] negate(n), rounding=UP }";
  for (const char* verb : {"run", "cost"}) {
    CAPTURE(verb);
    const CommandResult kept = run_command(std::string(verb) + " - ", text);
    CHECK(kept.code == 0);
    CHECK(kept.err ==
          "gspmd: warning: -: negate: \"n\": attribute rounding is not known; it is kept and "
          "changes no value\n");
  }
  CHECK_THAT(run_command("print -", text).out, Catch::Contains("rounding=UP"));
}

TEST_CASE("an unknown custom call keeps the computations that it calls") {
  const CommandResult result = run_command(
      "partition - --num-devices 2",
      "HloModule m\nf { x = f32[4] parameter(0)\n ROOT n = f32[4] negate(x) }\n"
      "ENTRY e { a = f32[4] parameter(0), sharding={devices=[2]<=[2]}\n"
      " ROOT r = f32[4] custom-call(a), custom_call_target=\"frob\", called_computations={f} }");
  CHECK(result.code == 0);
  CHECK_THAT(result.out, Catch::Contains("called_computations={%f}"));
  CHECK_THAT(result.out, Catch::Contains("%n = f32[4] negate(%x)"));
}

TEST_CASE("a collective without a kernel is refused where it runs") {
  const CommandResult result =
      run_command("run -",
                  "HloModule m\nENTRY e { a = f32[4] parameter(0)\n i = s32[1] parameter(1)\n"
                  " ROOT r = f32[4] ragged-all-to-all(a, a, i, i, i, i), replica_groups={{0}} }");
  CHECK(result.code != 0);
  CHECK_THAT(result.err, Catch::Contains("ragged-all-to-all: \"r\" cannot run here"));
}

TEST_CASE("elements that the text leaves out are kept by every verb that computes nothing") {
  const std::string text =
      "HloModule m, num_partitions=2\nENTRY e { a = f32[4,6] parameter(0), "
      "sharding={devices=[2,1]<=[2]}\n"
      " c = f32[4,6] constant({...})\n d = f32[4,6] constant({...})\n i = s32[2] constant({...})\n"
      " s = f32[4,6] subtract(c, d)\n t = f32[4,6] add(a, s)\n"
      " ROOT r = f32[2,6] gather(t, i), offset_dims={1}, collapsed_slice_dims={0}, "
      "start_index_map={0}, index_vector_dim=1, slice_sizes={1,6} }";
  for (const char* verb : {"print", "propagate", "partition", "explain", "cost", "visualize"}) {
    CAPTURE(verb);
    CHECK(run_command(std::string(verb) + " -", text).code == 0);
  }
  CHECK_THAT(run_command("print -", text).out, Catch::Contains("%c = f32[4,6] constant({...})"));
  // They may differ: two of them stay two.
  const std::string local = run_command("partition - --num-devices 2", text).out;
  const size_t first = local.find("f32[4,6] constant({...})");
  CHECK(local.find("f32[4,6] constant({...})", first + 1) != std::string::npos);
  for (const char* options : {"run - --num-devices 1", "run - --num-devices 2", "verify -"}) {
    CAPTURE(options);
    const CommandResult result = run_command(options, text);
    CHECK(result.code != 0);
    CHECK_THAT(result.err, Catch::Contains("were left out ({...}); print the module with large"));
  }
}

TEST_CASE("option --dump-after shows the module on standard error only") {
  const CommandResult result = run_command("run - --json --dump-after partition", kNetwork);
  CHECK(result.code == 0);
  CHECK_THAT(result.err, Catch::StartsWith("// after partition\nHloModule network"));
  CHECK(result.out[0] == '{');
}

}  // namespace gspmd
