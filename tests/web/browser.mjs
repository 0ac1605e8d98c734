// Opens reports in a headless browser and says what happened there. Jobs come as JSON on standard input, results go out as JSON.
// Each job: {file or url, lang, theme, search, width, after, shots: [{path, script}], basic}; with diff, of a comparison;
// with old, in a browser that cannot unpack them.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";

const { playwright, chromium: path, profile, jobs } = JSON.parse(readFileSync(0, "utf8"));
const { chromium } = createRequire(playwright)("playwright-core");
const flags = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
  "--disable-component-update", "--disable-sync"];
const browser = await chromium.launch({ executablePath: path, args: flags, env: { ...process.env, HOME: profile } });

async function run(job) {
  const size = { width: job.width ?? 1400, height: 950 };
  const context = await browser.newContext({ viewport: size, colorScheme: job.theme, reducedMotion: "reduce" });
  const page = await context.newPage();
  const errors = [], requests = [];
  page.on("console", (m) => { if (["error", "warning"].includes(m.type())) errors.push(m.text()); });
  page.on("pageerror", (e) => errors.push(`${e.message}\n${e.stack}`));
  page.on("dialog", (d) => { errors.push(`dialog: ${d.message()}`); d.dismiss(); });
  page.on("request", (r) => requests.push(r.url()));
  if (job.old) await page.addInitScript(() => { delete globalThis.DecompressionStream; });
  await page.goto(job.url ?? `file://${job.file}`);
  if (job.old) {
    const text = await page.evaluate(() => document.body.innerText);
    await context.close();
    return { text, errors };
  }
  await page.waitForSelector("html[data-ready]");
  if (job.lang) await page.selectOption("#language", job.lang);
  const result = await page.evaluate(look);
  result.opening = await page.evaluate(opening);
  if (!job.basic) {
    result.findings = await page.evaluate(eachFinding);
    result.keys = await keys(page);
    result.frames = await page.evaluate(moving);
    if (job.search) result.search = await search(page, job.search);
  }
  if (job.diff) Object.assign(result, await comparison(page, job));
  if (job.after) result.after = await page.evaluate(job.after);
  for (const shot of job.shots ?? []) {
    if (shot.script) await page.evaluate(shot.script);
    await page.waitForTimeout(150);
    await page.screenshot({ path: shot.path });
  }
  await context.close();
  return { ...result, errors, requests: requests.filter((url) => url !== (job.url ?? `file://${job.file}`)) };
}

/** What the page shows. */
function look() {
  const text = (selector) => document.querySelector(selector)?.textContent.replaceAll("\u00a0", " ") ?? null;
  const body = getComputedStyle(document.body);
  return {
    lang: document.documentElement.lang, title: document.title, verdict: text("h1"), ground: body.backgroundColor,
    sections: [...document.querySelectorAll("section")].map((s) => s.id), images: document.images.length,
    scripts: document.scripts.length, slices: globalThis.lanewise.slices, environment: text("#environment"),
    findings: document.querySelectorAll(".finding").length, pwned: globalThis.pwned ?? null, text: text("main"),
    unnamed: [...document.querySelectorAll("button, input, select, canvas")].filter((e) =>
      !(e.textContent.trim() || e.getAttribute("aria-label") || e.title)).length,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  };
}

/** ms from the start of navigation to the first paint with everything in it. */
function opening() {
  return new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(() => resolve(performance.now()))));
}

/** Each finding's button pressed: whether its evidence stands out and is in view. */
async function eachFinding() {
  const probe = globalThis.lanewise;
  const settled = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const out = [];
  for (const card of document.querySelectorAll(".finding")) {
    card.open = true;
    const rows = [...card.querySelectorAll(".evidence tbody tr")].length;
    card.querySelector(".show")?.click();
    await settled();
    const slices = probe.highlighted;
    const first = slices[0];
    const inView = slices.length > 0 && probe.start(first) < probe.end && probe.stop(first) >= probe.begin;
    out.push({ id: card.dataset.rule, rows, highlighted: slices.map((s) => probe.name(s)), inView, chip: document.querySelector(".chip").textContent });
  }
  return out;
}

/** A comparison: each change shown, the keys, drawing, a search, a selected slice. */
async function comparison(page, job) {
  const labels = await page.evaluate(() => lanewise.labels);
  const out = { labels, changes: await page.evaluate(eachChange), keys: {} };
  await page.evaluate(() => { document.activeElement?.blur(); });
  await page.keyboard.press("Escape");
  for (const [name, key] of [["reset", "1"], ["in", "w"], ["right", "d"], ["next", "]"], ["previous", "["], ["all", "0"]]) {
    await page.keyboard.press(key);
    out.keys[name] = await page.evaluate(() => ({ windows: lanewise.windows, steps: lanewise.steps }));
  }
  out.frames = await page.evaluate(movingBoth);
  out.panel = await page.evaluate(() => { const [, kernel] = lanewise.kernels; lanewise.select(1, Math.max(kernel, 0)); return document.querySelector(".panel").textContent; });
  if (job.search) {
    await page.fill("#search", job.search);
    out.search = await page.evaluate(() => ({ hits: lanewise.hits }));
    await page.press("#search", "Escape");
    out.search.cleared = await page.evaluate(() => lanewise.hits);
  }
  return out;
}

async function eachChange() {
  const settled = () => new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
  const out = [];
  for (const card of document.querySelectorAll(".change")) {
    card.open = true;
    card.querySelector(".show")?.click();
    await settled();
    const { highlighted, starts, windows } = globalThis.lanewise;
    out.push({ highlighted, starts, windows, chip: document.querySelector(".chip").textContent });
  }
  return out;
}

async function movingBoth() {
  const probe = globalThis.lanewise;
  const [begin, end] = probe.windows[0];
  probe.frames.length = 0;
  for (let i = 0; i < 40; i++) {
    const by = (end - begin) * (i % 2 ? 0.01 : -0.01);
    probe.show(begin + by, end + by);
    await new Promise((resolve) => requestAnimationFrame(resolve));
  }
  return { all: [...probe.frames].sort((a, b) => a - b)[probe.frames.length >> 1] };
}

/** What keys do. */
async function keys(page) {
  const range = () => page.evaluate(() => [globalThis.lanewise.begin, globalThis.lanewise.end]);
  await page.evaluate(() => { document.activeElement?.blur(); });
  await page.keyboard.press("Escape");
  const out = {};
  for (const [name, key] of [["reset", "1"], ["in", "w"], ["right", "d"], ["left", "a"], ["out", "s"], ["all", "0"]]) {
    await page.keyboard.press(key);
    out[name] = await range();
  }
  await page.keyboard.press("?");
  out.help = await page.evaluate(() => document.querySelector("dialog").open);
  await page.keyboard.press("Escape");
  out.closed = await page.evaluate(() => !document.querySelector("dialog").open);
  await page.keyboard.press("/");
  out.focused = await page.evaluate(() => document.activeElement.id);
  return out;
}

/** ms that drawing a frame takes while moving; the median of many. */
async function moving() {
  const probe = globalThis.lanewise, out = {};
  for (const [name, begin, end] of [["view", probe.begin, probe.end], ["all", 0, 1e18]]) {
    probe.show(begin, end);
    probe.frames.length = 0;
    for (let i = 0; i < 40; i++) {
      const by = (probe.end - probe.begin) * (i % 2 ? 0.01 : -0.01);
      probe.show(probe.begin + by, probe.end + by);
      await new Promise((resolve) => requestAnimationFrame(resolve));
    }
    out[name] = [...probe.frames].sort((a, b) => a - b)[probe.frames.length >> 1];
  }
  return out;
}

async function search(page, text) {
  await page.fill("#search", text);
  await page.press("#search", "Enter");
  const first = await page.evaluate(() => ({ hits: lanewise.hits, name: lanewise.name(lanewise.selected), selected: lanewise.selected }));
  await page.press("#search", "Enter");
  first.next = await page.evaluate(() => lanewise.selected);
  first.panel = await page.evaluate(() => document.querySelector(".panel").textContent);
  await page.press("#search", "Escape");
  first.cleared = await page.evaluate(() => lanewise.hits);
  return first;
}

const results = [];
for (const job of jobs) results.push(await run(job).catch((e) => ({ failed: String(e.stack ?? e) })));
await browser.close();
process.stdout.write(JSON.stringify(results));
