// base/graph_page.cpp -- graphs as one HTML file: layered drawings in SVG, search, zoom.
#include "base/graph_page.h"
#include "base/html.h"
#include "base/text.h"
#include <algorithm>
#include <fmt/format.h>
#include <map>
#include <string_view>

namespace luminal {
namespace {

std::string cut(const std::string& text, size_t width) {
  if (text.size() <= width) return text;
  return text.substr(0, utf8_complete_prefix(std::string_view(text).substr(0, width - 3))) + "...";
}

/// Places of boxes: a layer below all its inputs, in it near the middle of its neighbours.
struct Layout {
  static constexpr double layer_height = 96, box_height = 38, gap = 26;
  std::vector<double> x, y, width, weight;
  double right = 0, bottom = 0;

  explicit Layout(const GraphView::Group& group) {
    const size_t n = group.boxes.size();
    x.assign(n, 0), y.assign(n, 0), width.assign(n, 0);
    std::vector<int> layer(n, 0);
    std::vector<std::vector<int>> above(n), below(n);
    // Boxes that nothing ties stand in rows of some.
    constexpr size_t side_by_side = 6;
    for (size_t b = 0; b < n && group.arrows.empty(); ++b) layer[b] = int(b / side_by_side);
    for (const auto& arrow : group.arrows) { // boxes are in topological order
      layer[size_t(arrow.to)] = std::max(layer[size_t(arrow.to)], layer[size_t(arrow.from)] + 1);
      above[size_t(arrow.to)].push_back(arrow.from);
      below[size_t(arrow.from)].push_back(arrow.to);
    }
    // What has the longest way behind it stands still, and sources make room: else long chains
    // drift to one side.
    weight.resize(n);
    for (size_t b = 0; b < n; ++b) weight[b] = (1.0 + layer[b]) * (1.0 + layer[b]);
    for (size_t b = n; b-- > 0;) // a box comes down to the layer above its first use
      if (!below[b].empty()) {
        int first = layer[size_t(below[b][0])];
        for (int user : below[b]) first = std::min(first, layer[size_t(user)]);
        layer[b] = std::max(0, first - 1);
      }
    std::vector<std::vector<int>> layers(size_t(n ? *std::max_element(layer.begin(), layer.end()) + 1 : 0));
    for (size_t b = 0; b < n; ++b) {
      layers[size_t(layer[b])].push_back(int(b));
      width[b] = 20 + std::max(7.2 * double(cut(group.boxes[b].title, 34).size()), // bold
                               6.4 * double(cut(group.boxes[b].line, 34).size()));
    }
    for (int sweep = 0; sweep < 6; ++sweep) {
      for (size_t k = 0; k < layers.size(); ++k) {
        auto& row = layers[sweep % 2 ? layers.size() - 1 - k : k];
        if (sweep > 0) {
          std::vector<double> centre(n);
          for (int b : row) {
            const auto& near = sweep % 2 ? below[size_t(b)] : above[size_t(b)];
            double sum = 0, weights = 0;
            for (int other : near) {
              sum += weight[size_t(other)] * x[size_t(other)];
              weights += weight[size_t(other)];
            }
            centre[size_t(b)] = near.empty() ? x[size_t(b)] : sum / weights;
          }
          std::stable_sort(row.begin(), row.end(),
                           [&](int a, int b) { return centre[size_t(a)] < centre[size_t(b)]; });
          place(row, centre);
        } else {
          place(row, std::vector<double>(n, 0));
        }
      }
    }
    double left = 0;
    for (size_t b = 0; b < n; ++b) left = std::min(left, x[b] - width[b] / 2);
    for (size_t b = 0; b < n; ++b) {
      x[b] += 20 - left;
      y[b] = 30 + layer_height * layer[b];
      right = std::max(right, x[b] + width[b] / 2 + 20);
      bottom = std::max(bottom, y[b] + box_height + 20);
    }
  }

private:
  /// Wishes kept as far as boxes do not overlap.
  void place(const std::vector<int>& row, const std::vector<double>& wish) {
    double end = -1e18, shift = 0, weights = 0;
    for (int b : row) {
      double at = std::max(wish[size_t(b)], end + gap + width[size_t(b)] / 2);
      x[size_t(b)] = at;
      end = at + width[size_t(b)] / 2;
      shift += weight[size_t(b)] * (at - wish[size_t(b)]);
      weights += weight[size_t(b)];
    }
    for (int b : row) x[size_t(b)] -= shift / weights;
  }
};

/// `number`: of the groups by name.
std::string svg(const GraphView::Group& group, const std::map<std::string, size_t>& number) {
  const Layout at(group);
  std::string text = fmt::format(
      "<svg viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" height=\"{1:.0f}\">\n", at.right, at.bottom);
  for (const auto& arrow : group.arrows) {
    const auto f = size_t(arrow.from), t = size_t(arrow.to);
    double x0 = at.x[f], y0 = at.y[f] + Layout::box_height, x1 = at.x[t], y1 = at.y[t],
           bend = std::max(20.0, (y1 - y0) * 0.45);
    text += fmt::format("<path d=\"M{:.0f} {:.0f}C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}\" "
                        "data-from=\"{}\" data-to=\"{}\"/>\n",
                        x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1, f, t);
    double s = std::min(0.5, 34 / std::max(1.0, y1 - y0)),
           u = 1 - s; // near the source, where curves are still apart
    double cx = u * u * u * x0 + 3 * u * u * s * x0 + 3 * u * s * s * x1 + s * s * s * x1,
           cy = u * u * u * y0 + 3 * u * u * s * (y0 + bend) + 3 * u * s * s * (y1 - bend) + s * s * s * y1;
    text += fmt::format("<text class=\"edge\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", cx, cy + 3,
                        html_escape(arrow.text));
  }
  std::vector<std::string> links(group.boxes.size());
  for (const auto& [box, name] : group.links)
    if (const auto known = number.find(name); known != number.end())
      links[size_t(box)] += fmt::format("{}{}", links[size_t(box)].empty() ? "" : " ", known->second);
  for (size_t b = 0; b < group.boxes.size(); ++b) {
    const auto& box = group.boxes[b];
    text += fmt::format(
        "<g class=\"box {}{}\" data-id=\"{}\" data-links=\"{}\" data-text=\"{}\"><rect x=\"{:.0f}\" "
        "y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"6\"/>"
        "<text x=\"{:.0f}\" y=\"{:.0f}\" class=\"title\">{}</text><text x=\"{:.0f}\" "
        "y=\"{:.0f}\">{}</text><title>{}</title></g>\n",
        box.style, box.marked ? " marked" : "", b, links[b], html_escape(box.text), at.x[b] - at.width[b] / 2,
        at.y[b], at.width[b], Layout::box_height, at.x[b], at.y[b] + 16, html_escape(cut(box.title, 34)),
        at.x[b], at.y[b] + 31, html_escape(cut(box.line, 34)), html_escape(box.text));
  }
  return text + "</svg>\n";
}

constexpr std::string_view page_head = R"(<style>
:root{color-scheme:light}
body{font:14px sans-serif;margin:0;background:#fff;color:#222}
header{position:sticky;top:0;background:#f6f6f6;border-bottom:1px solid #ccc;padding:8px 12px;display:flex;gap:10px;align-items:center;z-index:1;flex-wrap:wrap}
#detail{white-space:pre-wrap;font:12px monospace;margin:0;flex-basis:100%;min-height:1.3em}
#links button{margin-right:4px}section{padding:6px 12px 18px}h2{font-size:15px;margin:8px 0;cursor:pointer}
.view{overflow:auto;border:1px solid #ddd;border-radius:6px}
svg text{font:11px sans-serif;text-anchor:middle}svg .title{font-weight:bold}
svg .edge{font-size:9px;fill:#667;paint-order:stroke;stroke:#fff;stroke-width:3px}
svg path{fill:none;stroke:#99a;stroke-width:1.2}svg path.near{stroke:#c33;stroke-width:2.4}
.box rect{fill:#fff;stroke:#667}.box{cursor:pointer}
.input rect{fill:#d6e6f5}.weight rect{fill:#d9ead3}.state rect{fill:#fde9c9}.leaf rect{fill:#eee}.view>rect{fill:#fff}
g.view rect{fill:#f5f0ff}.fold rect{fill:#ffe0cc}.structure rect{fill:#ead1dc}.result rect{fill:#cfe2f3}
.outside rect,.subsumed rect{fill:#fff;stroke-dasharray:4 3}.marked rect{stroke:#d00;stroke-width:3}.hit rect{stroke:#06c;stroke-width:3.5}.dim{opacity:.25}
</style></head><body><header><input id="search" placeholder="search nodes" size="28"><span id="count"></span>
<button data-zoom="1.25">+</button><button data-zoom="0.8">-</button><span id="links"></span><pre id="detail"></pre></header>
)";
constexpr std::string_view page_tail = R"(<script>
const all=s=>[...document.querySelectorAll(s)];
const search=document.getElementById('search'),count=document.getElementById('count'),detail=document.getElementById('detail'),links=document.getElementById('links');
search.oninput=()=>{const word=search.value.toLowerCase();let hits=0;
 all('.box').forEach(b=>{const hit=word&&b.dataset.text.toLowerCase().includes(word);b.classList.toggle('hit',hit);b.classList.toggle('dim',word&&!hit);hits+=hit?1:0});
 count.textContent=word?hits+' found':'';const first=document.querySelector('.hit');if(first)first.scrollIntoView({block:'center',inline:'center'})};
const show=g=>{const s=document.getElementById('g'+g);s.lastElementChild.hidden=false;s.scrollIntoView({block:'center'})};
all('.box').forEach(b=>b.onclick=()=>{detail.textContent=b.dataset.text;links.replaceChildren();
 b.dataset.links.split(' ').filter(g=>g).forEach(g=>{const to=document.createElement('button');
  to.textContent=document.getElementById('g'+g).firstElementChild.textContent;to.onclick=()=>show(g);links.append(to)});
 all('path.near').forEach(p=>p.classList.remove('near'));
 b.ownerSVGElement.querySelectorAll('path').forEach(p=>{if(p.dataset.from===b.dataset.id||p.dataset.to===b.dataset.id)p.classList.add('near')})});
all('h2').forEach(h=>h.onclick=()=>{const v=h.nextElementSibling;v.hidden=!v.hidden});
// What lies at a point of the window stays there; drawings elsewhere keep the middle of what they show.
const zoom=(by,x,y)=>{const svgs=all('svg').filter(s=>s.getBoundingClientRect().width);if(!svgs.length)return;
 const far=r=>Math.max(r.top-y,y-r.bottom,0);let at=svgs[0];svgs.forEach(s=>{if(far(s.getBoundingClientRect())<far(at.getBoundingClientRect()))at=s});
 const before=svgs.map(s=>{const v=s.parentElement,r=s.getBoundingClientRect(),h=s===at?x:v.getBoundingClientRect().left+v.clientWidth/2;
  return{s,v,h,u:(h-r.left)/r.width,w:(y-r.top)/r.height}});
 svgs.forEach(s=>{for(const a of['width','height'])s.setAttribute(a,s.getAttribute(a)*by)});
 before.forEach(b=>{const r=b.s.getBoundingClientRect();b.v.scrollLeft+=r.left+b.u*r.width-b.h});
 const b=before.find(b=>b.s===at),r=at.getBoundingClientRect();window.scrollBy(0,r.top+b.w*r.height-y)};
all('button[data-zoom]').forEach(b=>b.onclick=()=>zoom(+b.dataset.zoom,innerWidth/2,innerHeight/2));
document.addEventListener('wheel',e=>{if(e.ctrlKey){e.preventDefault();zoom(e.deltaY<0?1.25:0.8,e.clientX,e.clientY)}},{passive:false});
</script></body></html>
)";

} // namespace

std::string to_html(const GraphView& view) {
  std::map<std::string, size_t> number;
  for (size_t g = 0; g < view.groups.size(); ++g)
    if (!view.groups[g].boxes.empty()) number.emplace(view.groups[g].name, g);
  std::string text = fmt::format("<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                                 "<title>{}</title>{}",
                                 html_escape(view.title), page_head);
  if (!view.note.empty()) text += fmt::format("<section><p>{}</p></section>\n", html_escape(view.note));
  for (size_t g = 0; g < view.groups.size(); ++g) {
    const GraphView::Group& group = view.groups[g];
    if (group.boxes.empty()) continue;
    text += fmt::format("<section id=\"g{}\"><h2>{}{}{}</h2><div class=\"view\">\n{}</div></section>\n", g,
                        html_escape(group.name), group.note.empty() ? "" : ": ", html_escape(group.note),
                        svg(group, number));
  }
  return text + std::string(page_tail);
}

} // namespace luminal
