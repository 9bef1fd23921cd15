// Feedback: what became of an action, and a question before one that cannot be undone.
import { h, button } from "./dom.js";

// toast tells the outcome of an action.
export function toast(text, kind = "done") {
  const el = h("p.toast." + kind, {}, text);
  document.getElementById("toasts").append(el);
  setTimeout(() => el.remove(), kind === "bad" ? 12000 : 5000);
}

// act calls an action and tells its outcome.
export async function act(what, action) {
  try {
    const result = await action();
    if (what) toast(what);
    return result;
  } catch (error) {
    toast(error.message, "bad");
    return null;
  }
}

// confirm asks before something that cannot be undone.
export function confirm(question, yes) {
  return new Promise(resolve => {
    const dialog = h("dialog", { "aria-label": question }, h("p", {}, question),
      h("div.actions", {}, button("No", () => dialog.close("")), button(yes, () => dialog.close("yes"), ".danger")));
    dialog.addEventListener("close", () => { dialog.remove(); resolve(dialog.returnValue === "yes"); });
    document.body.append(dialog);
    dialog.showModal();
  });
}
