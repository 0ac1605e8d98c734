// Bundles the page into the Python package, so that users need no Node: one script, one style sheet. Another folder may be named.
import { build } from "esbuild";

const out = process.argv[2] ?? new URL("../src/lanewise/rendering/static/", import.meta.url).pathname;
const shared = { bundle: true, minify: true, legalComments: "none", charset: "utf8", logLevel: "warning" };
await build({ ...shared, entryPoints: ["src/main.ts"], outfile: `${out}/report.js`, format: "iife", target: "es2022" });
await build({ ...shared, entryPoints: ["src/report.css"], outfile: `${out}/report.css`, target: "es2022" });
