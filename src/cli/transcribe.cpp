// cli/transcribe.cpp -- luminal transcribe: speech to text with times.
#include "base/clock.h"
#include "base/file.h"
#include "base/print.h"
#include "base/text.h"
#include "cli/model_verbs.h"
#include "formats/audio.h"
#include "models/transcriber.h"
#include <filesystem>
#include <fmt/format.h>
#include <iostream>
#include <memory>

namespace luminal::cli {
namespace {

using namespace models;

const std::vector<std::string> format_names{"txt", "srt", "vtt", "tsv", "json"};

struct TranscribeArguments {
  std::string model, out, task = "transcribe";
  std::vector<std::string> files, formats;
  SpeechOptions speech;
  int threads = 0;
  bool json = false, no_times = false, apart = false;
};

/// The keys of openai/whisper, and the file.
Json as_json(const std::string& file, const Transcript& transcript) {
  Json segments = Json::array();
  for (const SpeechSegment& s : transcript.segments)
    segments.push_back({{"id", segments.size()},
                        {"seek", s.frame},
                        {"start", s.line.start},
                        {"end", s.line.end},
                        {"text", s.line.text},
                        {"tokens", s.tokens},
                        {"temperature", s.window.temperature},
                        {"avg_logprob", s.window.likelihood},
                        {"compression_ratio", s.window.compression},
                        {"no_speech_prob", s.window.no_speech}});
  return {{"file", file},
          {"language", transcript.language},
          {"duration", transcript.seconds},
          {"text", transcript.text()},
          {"segments", segments}};
}

std::string written(const std::string& file, const Transcript& transcript, const std::string& format) {
  std::vector<TimedText> lines;
  for (const SpeechSegment& segment : transcript.segments) lines.push_back(segment.line);
  if (format == "txt") return to_txt(lines);
  if (format == "srt") return to_srt(lines);
  if (format == "vtt") return to_vtt(lines);
  if (format == "tsv") return to_tsv(lines);
  return json_text(as_json(file, transcript)) + "\n";
}

/// Rates that the model does not take are changed to its own.
std::vector<float> samples_of(const Audio& audio) {
  return resampled(audio.samples, audio.rate, SpeechModel::rate);
}

int transcribe(TranscribeArguments& a) {
  end_on_interrupt();
  a.speech.translate = a.task == "translate";
  a.speech.times = !a.no_times;
  a.speech.follow = !a.apart;
  if (a.speech.language == "auto") a.speech.language.clear();
  if (a.formats.size() > 1 && a.out.empty())
    throw UsageError("several formats go into files: --out FOLDER, or one --format");
  if (a.json && !a.formats.empty() && a.out.empty())
    throw UsageError("--json and --format both say what goes to standard output");
  std::vector<Audio> sounds; // a wrong file is told before the model loads
  for (const std::string& file : a.files) sounds.push_back(open_audio(file).value());
  if (!a.out.empty() && !is_directory(a.out)) throw Error(fmt::format("{}: no such folder", a.out));
  const double begin = seconds_now();
  Transcriber transcriber(a.model, a.speech, a.threads);
  const double loaded = seconds_now();
  catch_interrupts();
  Json results = Json::array();
  double seconds = 0;
  bool stopped = false;
  for (size_t i = 0; i < sounds.size() && !stopped; i++) {
    const std::string& file = a.files[i];
    const bool running = !a.json && a.formats.empty(); // lines appear while the model listens
    if (running && sounds.size() > 1) fmt::print("{}\n", printable(file, 400));
    Progress progress("transcribe");
    const auto on_segment = [&](const SpeechSegment& s) {
      if (running) {
        fmt::print("[{} --> {}] {}\n", time_text(s.line.start, true), time_text(s.line.end, true),
                   printable(s.line.text, 100000));
        std::fflush(stdout);
      } else {
        progress.update(std::min(1.0, s.line.end / sounds[i].seconds()), file);
      }
      return !interrupt_requested();
    };
    const Transcript transcript = transcriber.transcribe(samples_of(sounds[i]), on_segment);
    seconds += transcript.seconds;
    stopped = transcript.stopped;
    if (a.json) results.push_back(as_json(file, transcript));
    for (const std::string& format : a.formats) {
      const std::string text = written(file, transcript, format);
      if (a.out.empty()) {
        std::cout << text << std::flush;
        continue;
      }
      const std::string stem = std::filesystem::path(file).stem().string();
      write_file(fmt::format("{}/{}.{}", a.out, stem, format), text).value();
    }
  }
  if (a.json) std::cout << json_text(Json{{"model", a.model}, {"results", results}}) << std::endl;
  const double took = seconds_now() - loaded;
  print_stderr("load {:.2f} s  {:.1f} s of sound in {:.2f} s ({:.1f} times as fast)  peak {}\n",
               loaded - begin, seconds, took, took > 0 ? seconds / took : 0, show_bytes(peak_memory()));
  if (stopped) return interrupted;
  return std::cout ? ok : failed;
}

} // namespace

void add_transcribe(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<TranscribeArguments>();
  auto* verb = app.add_subcommand("transcribe", "Speech to text with times, by a Whisper model");
  verb->footer("Lines with their times as they are heard; --format for subtitles and other forms.");
  verb->add_option("model", a->model,
                   "A Hugging Face folder of a Whisper model, or a file of whisper.cpp (ggml-base.en.bin)")
      ->required();
  verb->add_option("audio", a->files, "Sound files: WAV, FLAC, MP3, Ogg")->required();
  verb->add_option("-l,--language", a->speech.language, "Of the speech, as en; auto: the model hears it")
      ->default_str("auto");
  verb->add_option("--task", a->task, "translate: into English")
      ->check(one_of({"transcribe", "translate"}))
      ->capture_default_str();
  verb->add_option("--format", a->formats,
                   "On standard output: txt, srt, vtt, tsv or json; with --out several")
      ->delimiter(',')
      ->check(one_of(format_names));
  verb->add_option("-o,--out", a->out, "Folder for files with the sound's name, one a --format");
  verb->add_flag("--no-timestamps", a->no_times, "One line for each 30 seconds, without times inside");
  verb->add_option("--prompt", a->speech.prompt, "Text in front of the first window: names, spelling");
  verb->add_flag("--no-context", a->apart, "Each window alone, not as what follows the one before");
  verb->add_option("--beam-size", a->speech.beams, "Texts of the search; 1: the likeliest token, always")
      ->check(whole(1, 64))
      ->capture_default_str();
  verb->add_option("--best-of", a->speech.best_of, "Texts that are sampled where the search gave no good one")
      ->check(whole(1, 64))
      ->capture_default_str();
  verb->add_option("--temp,--temperature", a->speech.temperature, "Of the first try; 0: the search")
      ->check(between(0, 1))
      ->capture_default_str();
  verb->add_option(
          "--temp-step", a->speech.temperature_step,
          "Added for each further try, up to 1, while a text repeats itself or is unlikely; 0: one try")
      ->check(between(0, 1))
      ->capture_default_str();
  verb->add_option("-s,--seed", a->speech.seed, "Seed of the sampling")->capture_default_str();
  verb->add_option("-t,--threads", a->threads, "Worker threads (0: LUMINAL_THREADS, or all cores)")
      ->check(whole(0, 1024));
  verb->add_flag("--json", a->json, "The results as JSON on standard output");
  verb->callback([a, &exit_code] { exit_code = transcribe(*a); });
}

} // namespace luminal::cli
