// Bundles the page into the Python package, so that users need no Node: one script, one style sheet.
import { build } from "esbuild";

const out = new URL("../src/lanewise/rendering/static/", import.meta.url).pathname;
const shared = { bundle: true, minify: true, legalComments: "none", charset: "utf8", logLevel: "info" };
await build({ ...shared, entryPoints: ["src/main.ts"], outfile: out + "report.js", format: "iife", target: "es2022" });
await build({ ...shared, entryPoints: ["src/report.css"], outfile: out + "report.css", target: "es2022" });
