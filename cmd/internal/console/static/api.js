// Requests to the API. An error has a message for people.

async function request(url, options) {
  let r;
  try {
    r = await fetch(url, options);
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw new Error("The worker does not answer. The page tries again.");
  }
  if (r.status === 401) location.reload();
  const body = await r.json().catch(cause => {
    if (cause.name === "AbortError") throw cause;
    if (r.ok) throw new Error("The answer of the worker was cut off. The page tries again.");
    return {};
  });
  if (!r.ok) {
    const error = new Error(body.error ? body.error.message : "Error " + r.status);
    error.code = body.error && body.error.code;
    throw error;
  }
  return body;
}

export function get(url, params, signal) {
  const query = new URLSearchParams();
  for (const [k, v] of Object.entries(params || {})) if (v !== "" && v != null && v !== false) query.set(k, v);
  const text = query.toString();
  return request(url + (text ? "?" + text : ""), { signal });
}

export const post = (url, body) => request(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body || {}) });
