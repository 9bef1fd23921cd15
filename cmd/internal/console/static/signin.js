// A link on another site sends no strict cookie with the page, but this request has it.
const token = document.getElementById("token");
const error = document.getElementById("error");
fetch("/api/state").then(r => { if (r.ok) location.replace("/"); }, () => {});

async function signIn() {
  const value = token.value.trim().replace(/^.*[?&]token=([^&#]*).*$/s, "$1");
  if (!value) return;
  const r = await fetch("/?token=" + encodeURIComponent(value)).catch(() => null);
  if (r && r.ok) location.replace("/");
  else {
    error.textContent = r ? "This token is not valid. The worker prints the current one when it starts." : "The worker does not answer. Is it running?";
    token.select();
  }
}
document.getElementById("go").addEventListener("click", signIn);
token.addEventListener("keydown", e => { if (e.key === "Enter") signIn(); });
token.focus();
