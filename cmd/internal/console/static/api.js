// Requests to the API. An error has a message for people.

// again says who repeats a request that got no answer. An action may have been done.
const again = options => (options.method ? "Look whether it did this, or try again." : "The page tries again.");

async function request(url, options, decode = JSON.parse) {
  let r;
  try {
    r = await fetch(url, options);
  } catch (cause) {
    if (cause.name === "AbortError") throw cause;
    throw new Error("The worker does not answer. " + again(options));
  }
  if (r.status === 401) location.reload();
  const body = await r.text().then(text => decode(text)).catch(cause => {
    if (cause.name === "AbortError") throw cause;
    if (r.ok) throw new Error("The answer of the worker was cut off. " + again(options));
    return {};
  });
  if (!r.ok) {
    const error = new Error(body.error ? body.error.message : "Error " + r.status);
    error.code = body.error && body.error.code;
    throw error;
  }
  return body;
}

// get may have a decoder that keeps numbers as they are written.
export function get(url, params, signal, decode) {
  const query = new URLSearchParams();
  for (const [k, v] of Object.entries(params || {})) if (v !== "" && v != null && v !== false) query.set(k, v);
  const text = query.toString();
  return request(url + (text ? "?" + text : ""), { signal }, decode);
}

export const post = (url, body) => request(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body || {}) });
