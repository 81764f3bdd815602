// cli/serve_page.cpp -- the page of the server: one conversation, nothing from anywhere else.
#include "cli/serve_page.h"

namespace luminal::cli {

const char* serve_page() {
  return R"page(<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>luminal</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 46rem; padding: 1rem; }
#log { min-height: 60vh; }
#log div { white-space: pre-wrap; margin: .5rem 0; padding: .5rem .8rem; border-radius: .5rem; }
.user { background: #e8eefc; } .assistant { background: #f3f3f3; } .error { background: #fde8e8; }
form { display: flex; gap: .5rem; } textarea { flex: 1; font: inherit; padding: .5rem; }
#log img { display: block; max-width: 20rem; max-height: 20rem; } #picture { max-width: 10rem; }
@media (prefers-color-scheme: dark) { body { background: #1b1b1b; color: #eee; }
  .user { background: #26304a; } .assistant { background: #2a2a2a; } .error { background: #4a2626; } }
</style></head><body>
<h1>luminal</h1><div id="log" aria-live="polite"></div>
<form id="form"><textarea id="text" rows="2" placeholder="Message" autofocus></textarea>
<input id="picture" type="file" accept="image/*" aria-label="Picture" hidden><button id="send">Send</button></form>
<script>
const log = document.getElementById("log"), text = document.getElementById("text");
const send = document.getElementById("send"), messages = [];
const picture = document.getElementById("picture");
fetch("v1/models").then((answer) => answer.json()).then((models) => {
  picture.hidden = !models.data[0].capabilities.includes("multimodal"); // a conversation has one picture
}).catch(() => {});
function dataUrl(file) {
  return new Promise((done, failed) => {
    const reader = new FileReader();
    reader.onload = () => done(reader.result); reader.onerror = () => failed(reader.error);
    reader.readAsDataURL(file);
  });
}
let running = null;
function show(kind, content) {
  const div = document.createElement("div");
  div.className = kind; div.textContent = content; log.append(div); div.scrollIntoView();
  return div;
}
async function ask() {
  if (running) { running.abort(); return; }
  if (!text.value.trim()) return;
  let content = text.value;
  const shown = show("user", content);
  if (picture.files[0]) {
    const url = await dataUrl(picture.files[0]), image = document.createElement("img");
    image.src = url; shown.prepend(image); picture.value = ""; picture.hidden = true;
    content = [{ type: "image_url", image_url: { url } }, { type: "text", text: content }];
  }
  messages.push({ role: "user", content });
  text.value = "";
  const out = show("assistant", "");
  running = new AbortController(); send.textContent = "Stop";
  try {
    const answer = await fetch("v1/chat/completions", { method: "POST", signal: running.signal,
      headers: { "Content-Type": "application/json" }, body: JSON.stringify({ messages, stream: true }) });
    if (!answer.ok) throw new Error((await answer.json()).error.message);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = "";;) {
      const { value, done } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n"); rest = lines.pop();
      for (const line of lines) {
        if (!line.startsWith("data: ") || line === "data: [DONE]") continue;
        const event = JSON.parse(line.slice(6));
        if (event.error) throw new Error(event.error.message);
        out.textContent += event.choices[0]?.delta?.content ?? "";
      }
    }
  } catch (error) { if (error.name !== "AbortError") show("error", error.message); }
  messages.push({ role: "assistant", content: out.textContent });
  running = null; send.textContent = "Send"; text.focus();
}
document.getElementById("form").onsubmit = (event) => { event.preventDefault(); ask(); };
text.onkeydown = (event) => { if (event.key === "Enter" && !event.shiftKey) { event.preventDefault(); ask(); } };
</script></body></html>
)page";
}

} // namespace luminal::cli
