// cli/serve.cpp -- `luminal serve MODEL`: a model behind OpenAI's interface, over HTTP.
#include "base/print.h"
#include "base/text.h"
#include "cli/lora_options.h"
#include "cli/program_graph.h"
#include "cli/run_draft.h"
#include "cli/serve_api.h"
#include "cli/serve_connections.h"
#include "cli/serve_embeddings.h"
#include "cli/serve_page.h"
#include "cli/serve_pictures.h"
#include "models/generator.h"
#include <chrono>
#include <csignal>
#include <fmt/format.h>
#include <functional>
#include <iostream>
#include <memory>
#include <thread>

namespace luminal::cli {
namespace {

struct ServeArguments {
  std::string model, host = "127.0.0.1", api_key, chat_template, alias, cache_type = "f32",
                     activations = "exact", max_memory, max_body, embeddings, draft, projector;
  std::vector<std::string> adapters;
  int port = 8080, threads = 0;
  int64_t context = 0, chunk = 128, parallel = 4, queue = 64, max_tokens = 0, timeout = 600, draft_count = 4;
  bool json = false, no_cache = false;
};

void answer(httplib::Response& response, int status, const Json& json) {
  response.status = status;
  response.set_content(json_text(json, -1) + "\n", "application/json");
}
void answer(httplib::Response& response, const ApiError& error) {
  answer(response, error.status, error.json());
}

/// The connection ends with this answer.
void end_with(httplib::Response& response) {
  response.set_header("Connection", "close");
  HttpServer::close_after_answer();
}

/// Equal for equal keys only, in a time that tells nothing of where they differ.
bool same_key(const std::string& given, const std::string& wanted) {
  size_t differ = given.size() ^ wanted.size();
  for (size_t i = 0; i < given.size(); i++) differ |= size_t(given[i] ^ wanted[i % wanted.size()]);
  return differ == 0;
}

std::string event_text(const Json& json) { return "data: " + json_text(json, -1) + "\n\n"; }

class Service {
public:
  Service(const ServeArguments& arguments, const ModelFile& file, models::Batch& batch,
          PictureService* pictures)
      : a_(arguments), scheduler_(file, batch, size_t(arguments.queue)) {
    if (!pictures && (!a_.chat_template.empty() || file.chat_template)) chat_.emplace(file, a_.chat_template);
    model_ = {.file = &file,
              .chat = chat_ ? &*chat_ : nullptr,
              .pictures = pictures,
              .name = a_.alias,
              .context = batch.context(),
              .most_tokens = a_.max_tokens,
              .most_texts = int64_t(scheduler_.most())};
    if (!a_.embeddings.empty()) embeddings_ = std::make_unique<EmbeddingService>(a_.embeddings, a_.threads);
    limits();
    routes();
  }

  int listen() {
    const int port = a_.port == 0 ? server_.bind_to_any_port(a_.host)
                                  : (server_.bind_to_port(a_.host, a_.port) ? a_.port : -1);
    if (port < 0)
      throw Error(
          fmt::format("{}:{} cannot be listened at; --port and --host name another place", a_.host, a_.port));
    print_stderr("{} at http://{}:{}  ({} texts at once, context {}{})\n", model_.name, a_.host, port,
                 a_.parallel, model_.context,
                 model_.pictures ? ", one picture a text"
                 : model_.chat   ? ""
                                 : ", no chat template");
    if (a_.json)
      std::cout << Json{{"host", a_.host}, {"port", port}, {"model", model_.name}}.dump() << std::endl;
    std::jthread ending([this](const std::stop_token& done) {
      while (!done.stop_requested() && !interrupt_requested())
        std::this_thread::sleep_for(std::chrono::milliseconds(50));
      if (done.stop_requested()) return;
      print_stderr("ending: {} texts are being written\n", scheduler_.counts().running);
      scheduler_.drain(10);
      server_.stop();
    });
    const bool worked = server_.listen_after_bind();
    ending.request_stop();
    return worked || interrupt_requested() ? ok : failed;
  }

private:
  void limits() {
    max_body_ = size_t(parse_bytes(!a_.max_body.empty() ? a_.max_body : model_.pictures ? "20M" : "1M"));
    server_.set_body_limit(max_body_);
    server_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
      const bool open =
          a_.api_key.empty() || request.path == "/health" || (request.path == "/" && request.method == "GET");
      if (!open) {
        const std::string header = request.get_header_value("Authorization");
        const std::string key = header.starts_with("Bearer ") ? header.substr(7) : "";
        if (key.empty() || !same_key(key, a_.api_key)) {
          answer(response, ApiError{.status = 401,
                                    .message = "the API key is missing or wrong",
                                    .type = "authentication_error",
                                    .code = "invalid_api_key"});
          end_with(response);
          return httplib::Server::HandlerResponse::Handled;
        }
      }
      if (request.has_header("Content-Encoding")) { // a small body could become a large one
        answer(response, ApiError{.status = 415, .message = "bodies with a Content-Encoding are not read"});
        end_with(response);
        return httplib::Server::HandlerResponse::Handled;
      }
      return httplib::Server::HandlerResponse::Unhandled;
    });
    server_.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (!response.body.empty()) return;
      end_with(response); // a body may be left unread
      if (HttpServer::body_is_too_large()) response.status = 413;
      const int status = response.status;
      // What curl says of a body unless it is told otherwise; httplib reads 8 KiB of such.
      const bool form =
          request.get_header_value("Content-Type").starts_with("application/x-www-form-urlencoded");
      answer(response,
             ApiError{.status = status,
                      .message =
                          status == 404   ? fmt::format("there is no {} {}", request.method, request.path)
                          : status != 413 ? fmt::format("the request cannot be answered ({})", status)
                          : form ? "the body is larger than --max-body, or than the 8 KiB that are read of "
                                   "forms: name Content-Type: application/json"
                                 : "the body is larger than --max-body",
                      .type = status >= 500 ? "server_error" : "invalid_request_error"});
    });
    server_.set_exception_handler([](const httplib::Request&, httplib::Response& response,
                                     const std::exception_ptr& thrown) {
      try {
        std::rethrow_exception(thrown);
      } catch (const ApiError& error) {
        answer(response, error);
      } catch (const std::exception& error) {
        answer(response, ApiError{.status = 500, .message = error.what(), .type = "server_error"});
      } catch (...) {
        answer(response, ApiError{.status = 500, .message = "an unknown mistake", .type = "server_error"});
      }
    });
  }

  void routes() {
    server_.Get("/", [](const httplib::Request&, httplib::Response& r) {
      r.set_content(serve_page(), "text/html; charset=utf-8");
    });
    server_.Get("/health",
                [](const httplib::Request&, httplib::Response& r) { answer(r, 200, {{"status", "ok"}}); });
    server_.Get("/metrics", [this](const httplib::Request&, httplib::Response& r) {
      r.set_content(metrics(), "text/plain; version=0.0.4");
    });
    server_.Get("/v1/models", [this](const httplib::Request&, httplib::Response& r) {
      Json list = Json::array();
      const auto add = [&](const std::string& name, Json capabilities) {
        list.push_back({{"id", name},
                        {"object", "model"},
                        {"created", 0},
                        {"owned_by", "luminal"},
                        {"capabilities", std::move(capabilities)}}); // as llama.cpp's server names them
      };
      add(model_.name, model_.pictures ? Json{"completion", "multimodal"} : Json::array({"completion"}));
      if (embeddings_) add(embeddings_->name(), Json::array({"embedding"}));
      answer(r, 200, {{"object", "list"}, {"data", list}});
    });
    if (embeddings_)
      post("/v1/embeddings", [this](const httplib::Request& q, httplib::Response& r) {
        guarded(r, [&] { answer(r, 200, embeddings_->answer(q.body)); });
      });
    post("/v1/chat/completions", [this](const httplib::Request& q, httplib::Response& r) {
      generate([&] { return read_chat(q.body, model_); }, r);
    });
    post("/v1/completions", [this](const httplib::Request& q, httplib::Response& r) {
      generate([&] { return read_completion(q.body, model_); }, r);
    });
    post("/tokenize", [this](const httplib::Request& q, httplib::Response& r) {
      guarded(r, [&] { answer(r, 200, tokenized(q.body, model_)); });
    });
    post("/detokenize", [this](const httplib::Request& q, httplib::Response& r) {
      guarded(r, [&] { answer(r, 200, detokenized(q.body, model_)); });
    });
  }

  template <class F> void post(const char* path, F&& f) {
    server_.Post(path, [this, f = std::forward<F>(f)](const httplib::Request& q, httplib::Response& r) {
      if (q.body.size() <= max_body_) return f(q, r);
      r.status = 413; // it came in chunks, whose sum no header said; the handler of errors answers
    });
  }

  template <class F> void guarded(httplib::Response& response, F&& f) {
    try {
      f();
    } catch (const ApiError& error) {
      answer(response, error);
    }
  }

  template <class Read> void generate(Read&& read, httplib::Response& response) {
    guarded(response, [&] {
      const auto request = std::make_shared<ApiRequest>(read());
      const auto texts = texts_of(*request);
      if (!scheduler_.submit(texts))
        throw ApiError{.status = 503,
                       .message = "too many requests wait; try again later",
                       .type = "server_error",
                       .code = "overloaded"};
      if (request->stream)
        stream(request, response);
      else
        whole(*request, response);
    });
  }

  static std::vector<std::shared_ptr<Generation>> texts_of(const ApiRequest& request) {
    std::vector<std::shared_ptr<Generation>> texts;
    for (const ApiChoice& choice : request.choices) texts.push_back(choice.generation);
    return texts;
  }

  /// Calls on_piece with each piece of the texts as they come, which returns whether there is somebody to
  /// read on. Ends what is left of the texts where there is nobody, and where the time is over (ApiError).
  template <class F> bool collect(const ApiRequest& request, F&& on_piece) {
    const auto texts = texts_of(request);
    const auto cancel = [&] {
      for (const auto& text : texts) text->cancel();
    };
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(a_.timeout);
    try {
      for (size_t left = texts.size(); left > 0;) {
        const auto now = std::chrono::steady_clock::now();
        if (now >= end)
          throw ApiError{.status = 504,
                         .message = fmt::format("the answer took longer than {} s", a_.timeout),
                         .type = "server_error",
                         .code = "timeout"};
        const auto news = Generation::wait_any(texts, std::min<std::chrono::steady_clock::time_point>(
                                                          end, now + std::chrono::milliseconds(200)));
        if (!news ? HttpServer::client_is_gone() : !on_piece(news->first, news->second))
          return cancel(), false;
        if (news && !news->second.more) left--;
      }
    } catch (const Error& error) {
      cancel();
      if (!texts[0]->wanted.grammar) throw;
      throw ApiError{.message = error.what(), .parameter = "grammar"}; // it leaves no token that may follow
    } catch (...) {
      cancel();
      throw;
    }
    return true;
  }

  static void append(Generation::Piece& to, const Generation::Piece& piece) {
    to.text += piece.text;
    to.tokens.insert(to.tokens.end(), piece.tokens.begin(), piece.tokens.end());
  }

  void whole(ApiRequest& request, httplib::Response& response) {
    std::vector<Generation::Piece> pieces(request.choices.size());
    const bool complete = collect(request, [&](size_t choice, const Generation::Piece& piece) {
      append(pieces[choice], piece);
      return true;
    });
    if (!complete) return end_with(response); // nobody is there
    answer(response, 200, whole_answer(request, pieces, model_));
  }

  /// Events of all choices. The text of an answer that may be calls of tools is told when it is complete.
  bool write_events(ApiRequest& request, const std::function<bool(const std::string&)>& write) {
    std::vector<Generation::Piece> held(request.choices.size());
    return collect(request, [&](size_t choice, const Generation::Piece& piece) {
      append(held[choice], piece);
      std::string out;
      bool calls = false;
      const bool news = !held[choice].text.empty() || !held[choice].tokens.empty();
      if ((news || !request.choices[choice].begun) && (!request.tools || !piece.more)) {
        const Json event = stream_event(request, choice, held[choice], model_);
        calls = request.chat && event["choices"][0]["delta"].contains("tool_calls");
        out = event_text(event);
        held[choice] = {};
      }
      if (!piece.more) out += event_text(end_event(request, choice, calls));
      return out.empty() || write(out);
    });
  }

  void stream(const std::shared_ptr<ApiRequest>& request, httplib::Response& response) {
    response.set_header("Cache-Control", "no-store");
    response.set_chunked_content_provider(
        "text/event-stream",
        [this, request](size_t, httplib::DataSink& sink) {
          const auto write = [&](const std::string& text) {
            // Who does not read any more frees the place.
            return sink.is_writable() && sink.write(text.data(), text.size());
          };
          std::string out;
          try {
            if (!write_events(*request, write)) return false;
            if (request->include_usage) out = event_text(usage_event(*request));
          } catch (const ApiError& error) {
            out = event_text(error.json());
          } catch (const std::exception& error) {
            out = event_text(ApiError{.message = error.what(), .type = "server_error"}.json());
          }
          if (!write(out + "data: [DONE]\n\n")) return false;
          sink.done();
          return true;
        },
        [request](bool) {
          for (const ApiChoice& choice : request->choices) choice.generation->cancel();
        });
  }

  std::string metrics() const {
    const Scheduler::Counts c = scheduler_.counts();
    std::string text;
    const auto row = [&](const char* name, const char* kind, const char* what, double value) {
      text += fmt::format("# HELP luminal_{0} {1}\n# TYPE luminal_{0} {2}\nluminal_{0} {3}\n", name, what,
                          kind, value);
    };
    row("requests_total", "counter", "Texts that were asked for.", double(c.requests));
    row("prompt_tokens_total", "counter", "Tokens of prompts.", double(c.prompt_tokens));
    row("prompt_tokens_cached_total", "counter", "Of these, tokens that were in the cache.",
        double(c.reused_tokens));
    row("generated_tokens_total", "counter", "Tokens that were generated.", double(c.generated_tokens));
    if (!a_.draft.empty()) {
      row("draft_tokens_total", "counter", "Tokens that the draft proposed.", double(c.proposed_tokens));
      row("draft_tokens_accepted_total", "counter", "Of these, tokens that were accepted.",
          double(c.accepted_tokens));
    }
    row("steps_total", "counter", "Steps of the batch.", double(c.steps));
    row("busy_seconds_total", "counter", "Seconds in steps.", c.busy_seconds);
    row("requests_running", "gauge", "Texts that are being written.", double(c.running));
    row("requests_waiting", "gauge", "Texts that wait for a place.", double(c.waiting));
    return text;
  }

  const ServeArguments& a_;
  std::optional<models::ChatFormat> chat_;
  ApiModel model_;
  std::unique_ptr<EmbeddingService> embeddings_; ///< null: there is no model for it
  Scheduler scheduler_;
  size_t max_body_ = 0;
  HttpServer server_;
};

int serve(ServeArguments& a) {
  end_on_interrupt();
  auto opened = open_model(a.model);
  if (!opened) throw Error(opened.error());
  apply_adapters(*opened, a.adapters);
  std::optional<models::Moondream> moondream;
  if (models::Moondream::is_one(*opened) || !a.projector.empty()) {
    moondream.emplace(*opened, a.projector);
    opened = moondream->text();
  }
  const ModelFile& file = *opened;
  const ModelConfig& config = file.require_config();
  file.require_tokenizer();
  if (a.alias.empty()) {
    const std::string path = a.model.substr(0, a.model.find_last_not_of('/') + 1);
    a.alias = config.name.empty() ? printable(path.substr(path.rfind('/') + 1)) : printable(config.name);
  }
  models::BatchOptions options;
  options.model = llama_options(file, a.context, a.chunk, a.cache_type, a.activations);
  options.model.slots = a.parallel;
  if (moondream) moondream->prepare(options.model);
  options.compile.threads = a.threads;
  options.compile.cache = !a.no_cache;
  if (a.host != "127.0.0.1" && a.host != "localhost" && a.host != "::1" && a.api_key.empty())
    print_stderr("note: {} can be reached from other machines, and there is no --api-key\n", a.host);
  const auto draft = prepare_batch(file,
                                   {.draft = a.draft,
                                    .max_memory = a.max_memory,
                                    .draft_count = a.draft_count,
                                    .beside = moondream ? moondream->vision_bytes() : 0},
                                   options);
  std::optional<PictureService> pictures;
  if (moondream) pictures.emplace(std::move(*moondream), a.threads, !a.no_cache);
  models::Batch batch(file, options);
  Service service(a, file, batch, pictures ? &*pictures : nullptr);
  catch_interrupts();
  std::signal(SIGTERM, [](int) { std::raise(SIGINT); });
  std::signal(SIGPIPE, SIG_IGN);
  return service.listen();
}

} // namespace

void add_serve(CLI::App& app, int& exit_code) {
  auto a = std::make_shared<ServeArguments>();
  auto* verb = app.add_subcommand("serve", "Serve a model over HTTP, as OpenAI's interface has it");
  verb->footer("GET / (a page), /health, /metrics, /v1/models; POST /v1/chat/completions, /v1/completions, "
               "/v1/embeddings, /tokenize, /detokenize. SIGTERM and Ctrl-C end it when the texts that are "
               "being written are "
               "complete, after 10 s at the latest.");
  verb->add_option("model", a->model, "The file or folder")->required();
  verb->add_option("--embeddings", a->embeddings,
                   "A Hugging Face folder of a BERT model, which answers /v1/embeddings");
  verb->add_option("--host", a->host, "The address to listen at")->capture_default_str();
  verb->add_option("--port", a->port, "The port; 0: any that is free")
      ->check(whole(0, 65535))
      ->capture_default_str();
  verb->add_option("--api-key", a->api_key, "What requests must name: Authorization: Bearer KEY")
      ->envname("LUMINAL_API_KEY");
  verb->add_option("--parallel,--np", a->parallel, "Texts at once")
      ->check(whole(1, 256))
      ->capture_default_str();
  verb->add_option("--queue", a->queue, "Requests that may wait for a place; more are refused (503)")
      ->check(whole(0, 100000))
      ->capture_default_str();
  verb->add_option("-c,--ctx,--ctx-size", a->context,
                   "Positions of each text (default: what the model declares, at most 4096)")
      ->check(whole(0, 1 << 30));
  verb->add_option("-b,--batch,--batch-size", a->chunk, "Most tokens in one step")
      ->check(whole(1, 4096))
      ->capture_default_str();
  verb->add_option("--max-tokens", a->max_tokens, "Most tokens of one answer; 0: until the context is full")
      ->check(whole(0, 1 << 30))
      ->capture_default_str();
  verb->add_option("--timeout", a->timeout, "Seconds that one answer may take")
      ->check(whole(1, 1 << 30))
      ->capture_default_str();
  verb->add_option("--max-body", a->max_body,
                   "Largest body of a request (default: 1M, of a model that takes pictures 20M)")
      ->check(memory_amount());
  verb->add_option("--mmproj", a->projector, "The vision part of a Moondream 2 whose text model is GGUF");
  verb->add_option("--chat-template", a->chat_template,
                   "chatml, or a file with a template, in place of the model's own");
  verb->add_option("--alias", a->alias, "The model's name in answers");
  verb->add_option("-t,--threads", a->threads, "Worker threads (0: LUMINAL_THREADS, or all cores)")
      ->check(whole(0, 1024));
  verb->add_option("--cache-type", a->cache_type, "Type of the key-value cache")
      ->check(one_of({"f32", "f16"}))
      ->capture_default_str();
  verb->add_option("--activations", a->activations, "As of luminal run")
      ->check(one_of(models::activations_names()))
      ->capture_default_str();
  add_lora_option(*verb, a->adapters);
  verb->add_option(
      "--draft,--model-draft", a->draft,
      "A small model with the same tokenizer proposes tokens of each text; this one checks those of "
      "all texts in one step");
  verb->add_option("--draft-count,--draft-max,--draft-tokens", a->draft_count,
                   "With --draft: tokens in one proposal")
      ->check(whole(1, 64))
      ->capture_default_str();
  verb->add_option("--max-memory", a->max_memory, "Refuse to start if more may be needed: 512M, 8G")
      ->check(memory_amount());
  verb->add_flag("--no-cache", a->no_cache, "Do not read or write machine code on disk");
  verb->add_flag("--json", a->json, "One JSON object when requests are taken: host, port, model");
  verb->callback([a, verb, &exit_code] {
    if (a->draft.empty()) refuse_options(*verb, {"--draft-count"}, "it is for --draft");
    exit_code = serve(*a);
  });
}

} // namespace luminal::cli
