#include "report/html_template.h"

namespace millrace {

const char kHtmlHead[] = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Millrace report</title>
<style>
body { font: 14px system-ui, sans-serif; margin: 0 auto; max-width: 1500px; padding: 12px 16px; color: #111; background: #fff; }
h1 { font-size: 18px; margin: 4px 0; }
p { margin: 4px 0; color: #444; }
select, button { font: inherit; margin-right: 8px; }
#view { position: relative; }
canvas { width: 100%; display: block; cursor: crosshair; }
#tip { position: absolute; display: none; pointer-events: none; background: #fffef0; border: 1px solid #888; border-radius: 4px;
       padding: 6px 9px; max-width: 460px; box-shadow: 0 2px 6px rgba(0,0,0,.25); z-index: 2; }
#tip b { display: block; overflow-wrap: anywhere; }
table { border-collapse: collapse; margin-top: 6px; }
td, th { padding: 2px 12px 2px 0; text-align: left; vertical-align: top; }
td.n { text-align: right; font-variant-numeric: tabular-nums; }
.key { display: inline-block; width: 12px; height: 12px; margin: 0 5px -1px 14px; border: 1px solid #555; }
</style>
</head>
<body>
<h1>Millrace: memory and time of one training step</h1>
<p id="summary"></p>
<p><select id="which" aria-label="run and device"></select>
<button id="reset">whole step</button>
wheel: zoom &nbsp; drag: move &nbsp; pointer: the life of a tensor &nbsp; click: the largest holders at that moment</p>
<p id="keys"></p>
<div id="view"><canvas id="canvas" height="760"></canvas><div id="tip"></div></div>
<h1 id="when">Largest holders</h1>
<table id="holders"></table>
<p id="selftest"></p>
)html";

const char kHtmlScript[] = R"script(
(() => {
'use strict';
const $ = id => document.getElementById(id);
const canvas = $('canvas'), context = canvas.getContext('2d');
// Okabe and Ito's colours, by Residence::Kind: activation, variable, constant, feed, scratch.
const kinds = ['activation', 'variable', 'constant', 'feed', 'scratch'];
const kindColors = ['#E69F00', '#0072B2', '#56B4E9', '#009E73', '#BBBBBB'];
const laneColors = {'compute': '#56B4E9', 'to-host': '#009E73', 'to-device': '#CC79A7', 'to-disk': '#0072B2', 'from-disk': '#E69F00'};
const curveStyles = {'measured': ['#0072B2', []], 'predicted': ['#000', [6, 4]], 'host memory': ['#009E73', [2, 2]]};
const left = 96, right = 12, curveTop = 24, curveHeight = 200, mapTop = 252, mapHeight = 330, laneTop = 610, laneHeight = 22;
let view, from = 0, to = 1, marked = null, width = 1000, drag = null;

const bytes = b => { const u = ['B', 'KiB', 'MiB', 'GiB', 'TiB']; let k = 0; while (b >= 1024 && k < 4) { b /= 1024; ++k; }
                     return (k ? b.toFixed(2) : b) + ' ' + u[k]; };
const time = us => us >= 1e6 ? (us / 1e6).toFixed(3) + ' s' : us >= 1e3 ? (us / 1e3).toFixed(2) + ' ms' : us.toFixed(1) + ' µs';
const x = t => left + (t - from) / (to - from) * (width - left - right);
const timeAt = px => from + (px - left) / (width - left - right) * (to - from);
const most = () => Math.max(view.budget && view.budget <= 2 * top() ? view.budget : 0, top()) * 1.05;
const top = () => Math.max(1, ...view.curves.map(c => c.most));
const name = i => view.names[i];
const escape = s => s.replace(/[&<>]/g, c => ({'&': '&amp;', '<': '&lt;', '>': '&gt;'}[c]));

for (const v of views) {
  for (const c of v.curves) c.most = c.points.reduce((m, p) => Math.max(m, p[1]), 0);
  for (const lane of v.lanes) lane.events.sort((a, b) => a[0] - b[0]);
}

function ticks(low, high, count) {
  const raw = (high - low) / count, scale = Math.pow(10, Math.floor(Math.log10(raw)));
  const step = [1, 2, 5, 10].find(m => m * scale >= raw) * scale, out = [];
  const first = Math.ceil(low / step);
  for (let k = 0; k <= count && (first + k) * step <= high; ++k) out.push((first + k) * step);
  return out;
}

function label(text, px, py, align, color) {
  context.fillStyle = color || '#333'; context.textAlign = align || 'left'; context.fillText(text, px, py);
}

function drawCurves() {
  const y = b => curveTop + curveHeight * (1 - b / most());
  for (let k = 0; k <= 4; ++k) {
    const b = most() * k / 4;
    context.strokeStyle = '#e4e4e4'; context.beginPath(); context.moveTo(left, y(b)); context.lineTo(width - right, y(b)); context.stroke();
    label(bytes(b), left - 6, y(b) + 4, 'right');
  }
  let legend = left;
  view.curves.forEach(curve => {
    const [color, dash] = curveStyles[curve.label] || ['#E69F00', []];
    context.strokeStyle = color; context.setLineDash(dash); context.lineWidth = 1.5; context.beginPath();
    let level = 0;
    for (const [t, b] of curve.points) {
      if (t > to) break;
      if (t >= from) { context.lineTo(x(t), y(level)); context.lineTo(x(t), y(b)); }
      else { context.moveTo(left, y(b)); }
      level = b;
    }
    context.stroke(); context.setLineDash([]); context.lineWidth = 1;
    label(curve.label, legend, 14, 'left', color); legend += 16 + context.measureText(curve.label).width;
  });
  if (view.budget && view.budget <= most()) {
    context.strokeStyle = '#D55E00'; context.setLineDash([9, 3, 2, 3]); context.beginPath();
    context.moveTo(left, y(view.budget)); context.lineTo(width - right, y(view.budget)); context.stroke(); context.setLineDash([]);
    label('budget ' + bytes(view.budget), width - right, y(view.budget) - 4, 'right', '#D55E00');
  }
}

function drawMap() {
  label('addresses', left - 6, mapTop + 12, 'right');
  label(bytes(view.arena), left - 6, mapTop + 28, 'right'); label('0', left - 6, mapTop + mapHeight, 'right');
  context.fillStyle = '#f7f7f7'; context.fillRect(left, mapTop, width - left - right, mapHeight);
  for (const s of view.stays) {
    if (s[1] < from || s[0] > to) continue;
    const a = Math.max(left, x(s[0])), b = Math.min(width - right, x(s[1]));
    const h = Math.max(0.5, s[3] / view.arena * mapHeight), py = mapTop + mapHeight - (s[2] + s[3]) / view.arena * mapHeight;
    context.fillStyle = kindColors[s[5]]; context.globalAlpha = marked === null || marked === s[4] ? 0.85 : 0.35;
    context.fillRect(a, py, Math.max(0.5, b - a), h);
    context.globalAlpha = 1;
    if (h > 3 && b - a > 3) { context.strokeStyle = marked === s[4] ? '#000' : 'rgba(0,0,0,.25)'; context.strokeRect(a, py, b - a, h); }
    if (h > 12 && b - a > 60) {
      context.save(); context.beginPath(); context.rect(a, py, b - a, h); context.clip();
      label(name(s[4]), a + 3, py + Math.min(h - 3, 12), 'left', '#000'); context.restore();
    }
  }
}

function drawLanes() {
  const row = (k, text) => { label(text, left - 6, laneTop + k * (laneHeight + 6) + 15, 'right');
    context.fillStyle = '#f4f4f4'; context.fillRect(left, laneTop + k * (laneHeight + 6), width - left - right, laneHeight); };
  row(0, 'partitions');
  view.partitions.forEach(([a, b, id], k) => {
    if (b < from || a > to) return;
    const pa = Math.max(left, x(a)), pb = Math.min(width - right, x(b));
    context.fillStyle = k % 2 ? '#767676' : '#bdbdbd'; context.fillRect(pa, laneTop, Math.max(0.5, pb - pa), laneHeight);
    if (pb - pa > 26) label(String(id), (pa + pb) / 2, laneTop + 15, 'center', '#000');
  });
  view.lanes.forEach((lane, k) => {
    row(k + 1, lane.kind);
    const py = laneTop + (k + 1) * (laneHeight + 6);
    let drawn = -1;
    for (const e of lane.events) {
      if (e[1] < from || e[0] > to) continue;
      const a = Math.max(left, x(e[0])), b = Math.min(width - right, x(e[1]));
      if (b - a < 0.3 && a < drawn) continue;
      context.fillStyle = laneColors[lane.kind]; context.fillRect(a, py, Math.max(0.5, b - a), laneHeight); drawn = b;
      if (b - a > 46) {
        context.save(); context.beginPath(); context.rect(a, py, b - a - 2, laneHeight); context.clip();
        label(name(e[2]), a + 3, py + 15, 'left', '#000'); context.restore();
      }
    }
  });
  const bottom = laneTop + (view.lanes.length + 1) * (laneHeight + 6);
  for (const t of ticks(from, to, 8)) label(time(t), x(t), bottom + 12, 'center');
}

function draw() {
  const ratio = window.devicePixelRatio || 1;
  width = canvas.clientWidth || 1200;
  const height = laneTop + (view.lanes.length + 1) * (laneHeight + 6) + 22;
  canvas.style.height = height + 'px'; canvas.width = width * ratio; canvas.height = height * ratio;
  context.setTransform(ratio, 0, 0, ratio, 0, 0); context.font = '12px system-ui, sans-serif';
  context.clearRect(0, 0, width, height);
  drawCurves(); drawMap(); drawLanes();
}

// The stay under a point of the map, the shortest first.
function stayAt(px, py) {
  if (py < mapTop || py > mapTop + mapHeight || px < left) return null;
  const t = timeAt(px), address = (mapTop + mapHeight - py) / mapHeight * view.arena;
  let best = null;
  for (const s of view.stays) {
    if (s[0] <= t && t <= s[1] && s[2] <= address && address < s[2] + s[3] && (!best || s[1] - s[0] < best[1] - best[0])) best = s;
  }
  return best;
}

function eventAt(px, py) {
  const k = Math.floor((py - laneTop) / (laneHeight + 6)) - 1;
  if (k < 0 || k >= view.lanes.length || px < left) return null;
  const t = timeAt(px);
  return view.lanes[k].events.find(e => e[0] <= t && t <= e[1]) || null;
}

// Producer, consumers and stays of a tensor.
function lifeOf(tensor) {
  const uses = view.uses[tensor] || [], shown = uses.slice(0, 12);
  const stays = view.stays.filter(s => s[4] === tensor).sort((a, b) => a[0] - b[0]);
  return '<b>' + escape(name(tensor)) + '</b>' + bytes(stays[0][3]) + ', ' + kinds[stays[0][5]] +
      stays.map(s => '<br>on the device ' + time(s[0]) + ' – ' + time(s[1]) + ': ' + escape(name(s[6]))).join('') +
      shown.map(u => '<br>' + (u[2] ? 'written by ' : 'read by ') + escape(name(u[0])) + ' at ' + time(u[1])).join('') +
      (uses.length > shown.length ? '<br>and ' + (uses.length - shown.length) + ' more' : '');
}

function hover(px, py) {
  const stay = stayAt(px, py), event = stay ? null : eventAt(px, py), tip = $('tip');
  const before = marked;
  marked = stay ? stay[4] : null;
  if (marked !== before) draw();
  if (!stay && !event) { tip.style.display = 'none'; return; }
  tip.innerHTML = stay ? lifeOf(stay[4])
      : '<b>' + escape(name(event[2])) + '</b>' + escape(name(event[3])) + '<br>' + time(event[0]) + ' – ' + time(event[1]) + ' (' +
        time(event[1] - event[0]) + '), partition ' + event[4];
  tip.style.display = 'block';
  tip.style.left = Math.min(px + 14, width - 480) + 'px'; tip.style.top = (py + 16) + 'px';
}

// The most bytes on the device about that time, of stays that are not drawn, too. The first curve is of the clock that the page has,
// and its points are the most of their columns. What ends then counts: at the end of the step nothing else does.
function heldAt(t) {
  let held = 0, before = 0;
  for (const [when, level] of view.curves[0].points) {
    if (when > t) break;
    if (when < t) before = level;
    held = level;
  }
  return Math.max(before, held);
}

function liveAt(t) { return view.stays.filter(s => s[0] <= t && (t < s[1] || s[1] === view.end)); }

function holdersAt(moment) {
  const t = Math.min(moment, view.end), listed = liveAt(t).sort((a, b) => b[3] - a[3]).slice(0, 20);
  $('when').textContent = 'Largest holders at ' + time(t) + ': ' + bytes(listed.reduce((sum, s) => sum + s[3], 0)) + ' of at most ' +
      bytes(heldAt(t)) + ' on the device';
  $('holders').innerHTML = '<tr><th>bytes</th><th>tensor</th><th>kind</th><th>why it is there</th></tr>' +
      listed.map(s => '<tr><td class="n">' + bytes(s[3]) + '</td><td>' + escape(name(s[4])) + '</td><td>' + kinds[s[5]] +
          '</td><td>' + escape(name(s[6])) + '</td></tr>').join('');
}

// Spans that doubles and the data's hundredths of a microsecond tell apart.
function zoom(px, factor) {
  const t = timeAt(Math.max(px, left)), least = Math.max(view.end * 1e-9, 0.01);
  if (factor < 1 && (to - from) * factor < least) return;
  from = Math.max(0, t - (t - from) * factor); to = Math.min(view.end, t + (to - t) * factor);
  draw();
}

function show(k) {
  view = views[k]; from = 0; to = view.end; marked = null;
  $('keys').innerHTML = kinds.map((kind, i) => '<span class="key" style="background:' + kindColors[i] + '"></span>' + kind).join('') +
      '; times ' + view.clock + (view.left ? '; ' + view.left + ' stays of small or short-lived tensors are not drawn' : '') +
      (view.together ? '; ' + view.together + ' short steps are drawn together' : '');
  draw();
  const peak = view.curves[0].points.reduce((best, p) => p[1] > best[1] ? p : best, [0, 0]);
  holdersAt(peak[0]);
}

$('summary').textContent = summary;
views.forEach((v, k) => $('which').add(new Option(v.title, k)));
$('which').onchange = () => show(Number($('which').value));
$('reset').onclick = () => { from = 0; to = view.end; draw(); };
canvas.onmousemove = e => {
  if (!drag) return hover(e.offsetX, e.offsetY);
  const shift = (drag.x - e.offsetX) / (width - left - right) * (drag.to - drag.from);
  const bounded = Math.max(-drag.from, Math.min(view.end - drag.to, shift));
  from = drag.from + bounded; to = drag.to + bounded; draw();
};
canvas.onmousedown = e => { drag = {x: e.offsetX, from, to}; };
canvas.onmouseup = e => { if (drag && Math.abs(drag.x - e.offsetX) < 3) holdersAt(timeAt(e.offsetX)); drag = null; };
canvas.onmouseleave = () => { drag = null; $('tip').style.display = 'none'; };
canvas.onwheel = e => { e.preventDefault(); zoom(e.offsetX, e.deltaY < 0 ? 0.8 : 1.25); };
window.onresize = draw;
show(0);

// page.html#selftest uses the page as a person would and writes what came of it into the document.
function selfTest() {
  const check = (what, good) => { if (!good) throw new Error(what); };
  for (let k = 0; k < views.length; ++k) {
    show(k);
    const largest = view.stays.reduce((a, b) => b[3] > a[3] ? b : a);
    const at = [x((largest[0] + largest[1]) / 2), mapTop + mapHeight * (1 - (largest[2] + largest[3] / 2) / view.arena)];
    const event = (type, px, py, more) => canvas.dispatchEvent(Object.assign(new MouseEvent(type, {clientX: canvas.getBoundingClientRect().left + px,
        clientY: canvas.getBoundingClientRect().top + py}), more || {}));
    event('mousemove', at[0], at[1]);
    check('a tensor under the pointer tells its life', $('tip').style.display === 'block' && $('tip').textContent.includes('on the device'));
    // The tensor that most is told of, where it is drawn: its stays with their reasons, who made it, who takes it.
    const told = t => (view.uses[t] || []).some(u => u[2]) + (view.uses[t] || []).some(u => !u[2]);
    const life = view.stays.reduce((a, b) => told(b[4]) > told(a[4]) ? b : a);
    check('a tensor is made and taken', told(life[4]) === 2);
    event('mousemove', x((life[0] + life[1]) / 2), mapTop + mapHeight * (1 - (life[2] + life[3] / 2) / view.arena));
    const shown = stayAt(x((life[0] + life[1]) / 2), mapTop + mapHeight * (1 - (life[2] + life[3] / 2) / view.arena));
    const tip = $('tip').textContent, has = text => tip.includes(text);
    check('the tip tells the reason of a stay: ' + tip, name(shown[6]).length > 0 && has(': ' + name(shown[6])));
    for (const use of (view.uses[shown[4]] || []).slice(0, 12)) {
      check('the tip tells producer and consumers: ' + tip, has((use[2] ? 'written by ' : 'read by ') + name(use[0]) + ' at '));
    }
    event('mousedown', at[0], at[1]); event('mouseup', at[0], at[1]);
    check('a click lists holders', $('holders').rows.length > 1);
    const sumAt = t => view.stays.reduce((sum, s) => sum + (s[0] <= t && t < s[1] ? s[3] : 0), 0);
    const starts = view.stays.map(s => s[0]).slice(0, 1000), most = starts.reduce((a, b) => sumAt(b) > sumAt(a) ? b : a);
    for (const t of starts) check('no more is there than the curve tells: ' + sumAt(t) + ' at ' + t, sumAt(t) <= heldAt(t));
    holdersAt(most);
    check('holders are of all that is held: ' + $('when').textContent, $('when').textContent.endsWith(' of at most ' + bytes(heldAt(most)) + ' on the device'));
    if (!view.left && view.stays.length <= 1000) check('the curve has the peak of the stays: ' + sumAt(most), sumAt(most) === view.curves[0].most);
    holdersAt(view.end);
    check('the last moment has holders', !view.stays.some(s => s[1] === view.end) || $('holders').rows.length > 1);
    const before = to - from;
    canvas.dispatchEvent(new WheelEvent('wheel', {deltaY: -1, clientX: canvas.getBoundingClientRect().left + at[0], cancelable: true}));
    check('the wheel zooms', to - from < before);
    for (let i = 0; i < 8; ++i) zoom(width - right, 1e-3);
    check('zooming ends before times are one: ' + from + ' to ' + to, to > from && ticks(from, to, 8).length <= 9);
    $('reset').click();
    check('the whole step comes back', from === 0 && to === view.end);
    const pixels = context.getImageData(0, 0, canvas.width, canvas.height).data;
    let painted = 0;
    for (let i = 3; i < pixels.length; i += 4) painted += pixels[i] > 0;
    check('the canvas is painted', painted > pixels.length / 40);
  }
  return 'selftest passed: ' + views.length + ' views';
}
if (location.hash === '#selftest') {
  try { $('selftest').textContent = selfTest(); } catch (e) { $('selftest').textContent = 'selftest FAILED: ' + e.message; }
}
})();
)script";

}  // namespace millrace
