// The program: parses the command line, runs one verb, prints its answer, and turns errors into
// messages and documented exit codes.
#include <algorithm>
#include <cstring>
#include <optional>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "graph/onnx/import.h"
#include "graph/support/doing.h"
#include "graph/support/error_category.h"
#include "graph/support/exceptions.h"
#include "runtime/launch/parent_watch.h"
#include "tools/cli/abrupt_end.h"
#include "tools/cli/flags.h"
#include "tools/cli/help_text.h"
#include "tools/cli/process.h"
#include "tools/cli/progress.h"
#include "tools/cli/text.h"
#include "tools/cli/usage_errors.h"
#include "tools/cli/verb.h"
#include "tools/cli/verb_options.h"
#include "tools/version.h"
#include "tools/workflow/launching.h"

namespace partita {
namespace {

// Dashes inside flag names are underscores: --time-limit is --time_limit.
std::vector<std::string> Normalized(int argc, char** argv) {
  std::vector<std::string> args;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg.rfind("--", 0) == 0) {
      for (size_t c = 2; c < arg.size() && arg[c] != '='; ++c) {
        if (arg[c] == '-') arg[c] = '_';
      }
    }
    args.push_back(std::move(arg));
  }
  return args;
}

// Takes off what `launch` is to start: a verb and all after it.
std::vector<std::string> TakeLaunched(std::vector<std::string>& args) {
  const auto launch = std::find(args.begin(), args.end(), "launch");
  const std::vector<std::string> verbs = VerbNames();
  const auto verb = std::find_if(launch, args.end(), [&](const std::string& arg) {
    return arg != "launch" && std::find(verbs.begin(), verbs.end(), arg) != verbs.end();
  });
  std::vector<std::string> launched(verb, args.end());
  args.erase(verb, args.end());
  return launched;
}

// An answer or an error, alone or as the last of the events.
void PrintJson(const char* event, const Json& json) {
  if (Streams()) return Emit(event, json);
  Print(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

// `unsupported`: the operators of a model that cannot be imported.
void PrintError(int code, const std::string& message,
                const std::vector<std::string>& unsupported = {}) {
  PrintToLog(absl::StrCat("partita: ", message));
  if (!Style().json) return;
  Json error = {{"schema_version", kSchemaVersion},
                {"error", {{"exit_code", code}, {"message", message}}}};
  if (!unsupported.empty()) error["unsupported"] = unsupported;
  PrintJson("error", error);
}

// The first argument that is no flag: the verb.
std::vector<std::string>::iterator WordIn(std::vector<std::string>& args) {
  return std::find_if(args.begin(), args.end(),
                      [](const std::string& arg) { return arg.empty() || arg[0] != '-'; });
}

// "help VERB" asks for what "VERB --help" does; the verb itself has the manual only. Returns the words
// behind "help".
std::vector<std::string> TakeHelp(std::vector<std::string>& args) {
  const auto word = WordIn(args);
  const auto asks = [](const std::string& arg) {
    return arg == "--help" || arg == "-h" || arg == "--man";
  };
  if (word == args.end() || *word != "help" || std::any_of(word, args.end(), asks)) return {};
  const auto behind = args.erase(word);
  std::vector<std::string> topic(behind, args.end());
  args.push_back("--help");
  return topic;
}

// Whether an output is to go to stdout.
bool WritesToStdout(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const auto& values = option->results();
    if (std::any_of(values.begin(), values.end(), IsStdout)) return true;
  }
  const std::vector<CLI::App*> verbs = app.get_subcommands();
  return std::any_of(verbs.begin(), verbs.end(),
                     [](const CLI::App* verb) { return WritesToStdout(*verb); });
}

// `to_log`: stdout has what the verb made.
int Finish(const absl::StatusOr<Answer>& answer, bool to_log) {
  if (!answer.ok()) {
    const int code = ExitCodeOf(answer.status());
    PrintError(code, TextOf(answer.status()), UnsupportedOperators(answer.status()));
    return code;
  }
  EndProgress();
  if (answer->silent) return answer->exit_code;
  if (Style().json) {
    Json out = {{"schema_version", kSchemaVersion}};
    out.update(answer->json);
    PrintJson("result", out);
  } else {
    const bool ended = answer->text.empty() || answer->text.back() == '\n';
    const std::string text = answer->text + (ended ? "" : "\n");
    if (to_log) {
      PrintToLog(std::string(absl::StripSuffix(text, "\n")));
    } else {
      Print(answer->is_file ? text : TextFor(text));
    }
  }
  if (answer->exit_code == 0 && g_interrupted.load()) return CodeOf(ErrorCategory::kInterrupted);
  return answer->exit_code;
}

// Reads the arguments. The exit code if they end the program: wrong usage, --help, --version.
std::optional<int> ParseOrSay(CLI::App& app, const std::vector<std::string>& args) {
  const auto refuse = [&app](const std::string& why) {
    PrintError(CodeOf(ErrorCategory::kUsage), absl::StrCat(why, "\nTry: ", HelpCommand(app)));
    return CodeOf(ErrorCategory::kUsage);
  };
  if (const std::string why = UnknownVerb(app, args); !why.empty()) return refuse(why);
  if (const std::string why = BadValue(args); !why.empty()) return refuse(why);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));  // as CLI11 wants them
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      const bool is_extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
      const std::string why = is_extra ? "" : MistypedFlags(app, args);
      return refuse(why.empty() ? ParseErrorText(app, error) : why);
    }
    std::ostringstream help;  // or the version
    app.exit(error, help);
    Print(help.str());
    return 0;
  }
  if (const std::string why = BadValue(app); !why.empty()) return refuse(why);
  if (Style().json && WritesToStdout(app)) {
    return refuse("/dev/stdout is where the answer of --json goes: give the output a file");
  }
  return std::nullopt;
}

// The command line, with all verbs.
struct CommandLine {
  CommandLine();

  CLI::App app{kProgramDescription};
  VerbTable verbs;
};

CommandLine::CommandLine() {
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_version_flag("--version", std::string("partita ") + kVersion);
  app.require_subcommand(1);
  for (const OptionPage& option : CommonOptions()) {
    if (option.name != "help") app.add_flag("--" + option.name, option.help);
  }
  app.fallthrough();
  app.option_defaults()->always_capture_default();
  for (const VerbRow& row : Verbs()) {
    row.add(app, verbs);
    app.get_subcommand(row.name)->group(row.group);
  }
}

int Main(int argc, char** argv) {
  std::vector<std::string> args = Normalized(argc, argv);
  if (argc > 0 && *argv[0] != '\0') g_program = argv[0];
  g_launched = !args.empty() && args[0].rfind(kLaunchedFlag, 0) == 0;
  if (g_launched) {
    g_verdict_line = argv[1] + std::strlen(kLaunchedFlag);
    args.erase(args.begin());
    EndWithParent(CodeOfRank(CodeOf(ErrorCategory::kSystem)));
  }
  CommandLine line;
  VerbTable& verbs = line.verbs;
  const auto asks = [&args](const char* flag) {
    return std::find(args.begin(), args.end(), flag) != args.end();
  };
  const bool streams = asks("--json_lines");
  SetOutputStyle(
      {.quiet = asks("--quiet"), .json = asks("--json") || streams, .json_lines = streams});
  SayAbruptEndsInJson(Style().json, streams);
  if (const std::string why = UnknownTopic(line.app, TakeHelp(args)); !why.empty()) {
    PrintError(CodeOf(ErrorCategory::kUsage), why + "\nTry: partita --help");
    return CodeOf(ErrorCategory::kUsage);
  }
  verbs.launched = TakeLaunched(args);
  if (const auto code = ParseOrSay(line.app, args)) return *code;
  // What is wrong for every rank is said once.
  if (!verbs.launched.empty()) {
    CommandLine each;
    if (const auto code = ParseOrSay(each.app, verbs.launched)) return *code;
  }
  for (const auto& [verb, run] : verbs.verbs) {
    if (!verb->parsed()) continue;
    const std::string name = verb->get_name();
    const Doing doing("carrying out", name);
    BeginEvents(name);
    return Finish(Catching(run), WritesToStdout(line.app));
  }
  return CodeOf(ErrorCategory::kUsage);
}

}  // namespace
}  // namespace partita

int main(int argc, char** argv) {
  using namespace partita;
  SetUpProcess();
  WatchAbruptEnds();
  int code = 0;
  const absl::Status thrown = Catching([&] { code = Main(argc, argv); });
  if (!thrown.ok()) {
    std::fprintf(stderr, "partita: %s\n", TextOf(thrown).c_str());
    code = ExitCodeOf(thrown);
  }
  code = CodeOfOutput(code);
  return EndInOrder(g_launched ? CodeOfRank(code) : code);
}
