import { h } from "./dom.js";
import { get } from "./api.js";
import { when } from "./time.js";
import { leaseTable, relayTable } from "./overview.js";

export async function leases({ signal, draw, again, command }) {
  const answer = await get("status", {}, signal);
  command(answer.command);
  const st = answer.data;
  draw("Leases", h("p", { class: "bar" }, h("button", { type: "button", onclick: again }, "Look again"), h("span", { class: "quiet" }, "as of ", when(st.at))),
    h("p", { class: "about" }, st.ordering === "aggregate"
      ? "A relay leases lanes: while it holds one, no other publishes the events in it. A lease that has ended is taken by another relay."
      : "A relay leases events: while it holds one, no other publishes it. A lease that has ended is taken by another relay."),
    leaseTable(st), relayTable(st));
}
