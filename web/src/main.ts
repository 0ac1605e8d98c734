// Starts the page: unpacks the payload, and shows a trace or a comparison.

import { unpack, type DiffPayload, type Payload } from "./data";
import { DiffPage } from "./diff";
import { Model } from "./model";
import { Page } from "./report";
import { State } from "./state";

const app = document.getElementById("app")!;

async function open(): Promise<void> {
  if (typeof DecompressionStream === "undefined") {
    app.textContent = app.dataset.tooOld!;
    return;
  }
  const data = await unpack(document.getElementById("payload")!.textContent!);
  const page = document.documentElement.dataset.mode === "diff"
    ? new DiffPage(app, data as DiffPayload)
    : new Page(app, new State(data as Payload), new Model(data as Payload));
  Object.assign(globalThis, { lanewise: page.probe });
  document.documentElement.dataset.ready = "yes";
}

void open();
