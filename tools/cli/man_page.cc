#include "tools/cli/man_page.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "graph/support/error_category.h"
#include "tools/cli/verb.h"
#include "tools/version.h"

namespace partita {
namespace {

struct NamedText {
  const char* name;
  const char* text;
};

constexpr NamedText kEnvironment[] = {
    {"COLUMNS", "width of lines on a terminal, in place of the terminal's own"},
    {"RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT",
     "which of the processes of a run this is, as torchrun sets them; MPI's own variables do the "
     "same"},
    {"PARTITA_KEY", "the key that the processes of a run show each other (see --key_file)"}};

constexpr NamedText kFiles[] = {
    {"MODEL.plan.textproto", "a plan, which plan writes"},
    {"partita.profile.db", "measured times of kernels, in the current folder (see --profile)"},
    {"machine.textproto", "a machine, which the machine verbs write"},
    {"PLAN.timeline.json", "the predicted timeline of a step, which simulate writes"},
    {"PLAN.measured.json", "the measured timeline of the last step, which run writes"},
    {"NAME, NAME.step-000100, NAME.best, NAME.failed",
     "checkpoints of run --save NAME: the end, on the way, the best, and the last good state of a "
     "run that failed"}};

// Text of a line: nothing in it is a request.
std::string Roff(absl::string_view text) {
  std::string plain = absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}});
  if (plain.starts_with(".") || plain.starts_with("'")) plain.insert(0, "\\&");
  return plain;
}

std::string Quoted(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(Roff(text), {{"\"", "\\(dq"}}), "\"");
}

std::string Tagged(absl::string_view tag, absl::string_view text) {
  return absl::StrCat(".TP\n.B ", Quoted(tag), "\n", Roff(text), "\n");
}

// Lines as they stand.
std::string Verbatim(absl::string_view lines) {
  std::string text = ".PP\n.nf\n";
  for (absl::string_view line : absl::StrSplit(lines, '\n', absl::SkipEmpty())) {
    absl::StrAppend(&text, Roff(line), "\n");
  }
  return absl::StrCat(text, ".fi\n");
}

std::string VerbText(const VerbPage& verb) {
  std::string text = absl::StrCat(".SS ", Quoted(verb.name), "\n", Roff(verb.help), ".\n.PP\n.B ",
                                  Quoted(verb.Usage()), "\n");
  for (const OptionPage& option : verb.options) {
    if (option.positional) text += Tagged(option.Form(), option.Text());
  }
  for (const std::string& group : verb.Groups()) {
    absl::StrAppend(&text, ".PP\n.I ", Quoted(group), "\n");
    for (const OptionPage& option : verb.options) {
      if (option.positional || option.group != group) continue;
      text += Tagged(option.Form(), option.Text());
    }
  }
  return text + Verbatim(verb.examples);
}

}  // namespace

std::string ManPage(std::span<const VerbPage> verbs) {
  std::string text = absl::StrCat(
      ".TH PARTITA 1 \"\" ", Quoted(absl::StrCat("partita ", kVersion)),
      " \"User Commands\"\n.SH NAME\npartita \\- parallel training plans of neural networks\n"
      ".SH SYNOPSIS\n.B partita\n.I VERB\n[FLAGS] ...\n.SH DESCRIPTION\n",
      Roff(kProgramDescription),
      "\nData go to standard output, progress and messages to standard error. Dashes within the "
      "name of a flag may be written for underscores.\n"
      ".SH VERBS\n");
  std::string group;
  for (const VerbPage& verb : verbs) {
    const bool is_word = verb.name.find(' ') == std::string::npos;
    if (is_word && verb.group != group) {
      group = verb.group;
      absl::StrAppend(&text, ".PP\n.I ", Quoted(group), "\n");
    }
    if (is_word) text += Tagged(verb.name, verb.help);
  }
  text += ".SH FLAGS OF EVERY VERB\n";
  for (const OptionPage& option : CommonOptions()) text += Tagged(option.Form(), option.Text());
  text += ".SH ARGUMENTS AND FLAGS OF EACH VERB\n";
  for (const VerbPage& verb : verbs) text += VerbText(verb);
  text += ".SH EXIT STATUS\n";
  text += Tagged("0", "good");
  for (const ErrorCategoryRow& row : ErrorCategories()) {
    text += Tagged(absl::StrCat(static_cast<int>(row.category)), row.description);
  }
  text += ".SH ENVIRONMENT\n";
  for (const NamedText& one : kEnvironment) text += Tagged(one.name, one.text);
  text += ".SH FILES\n";
  for (const NamedText& one : kFiles) text += Tagged(one.name, one.text);
  return absl::StrCat(text, ".SH EXAMPLES\n", Verbatim(ExamplesOf("")));
}

}  // namespace partita
