// Types of stevedore.mjs.
import type { ConnectionOptions, NatsConnection } from "@nats-io/transport-node";

/** A rejection with a code of docs/protocol.md, "timeout" or "permission_denied". */
export class StevedoreError extends Error {
  constructor(code: string, message: string);
  code: string;
}

/** Tools that tools() leaves out: they act in Stevedore's own conversations and channels. */
export const internalTools: string[];

export interface Options {
  /** The conversation, a token; default "default". It isolates calls and artifacts. */
  session?: string;
  queue?: string;
  prefix?: string;
  /** Default: the user and the password in the URL, or else NATS_USER and NATS_PASSWORD. */
  user?: string;
  password?: string;
  /** More options of the NATS client, such as an authenticator. */
  nats?: ConnectionOptions;
}

export interface Artifact {
  artifact_id: string;
  type: "TEXT" | "JSON" | "BINARY";
  media_type?: string;
  size: number;
  chars: number;
  tokens: number;
  lines: number;
  digest: string;
}

export interface Result {
  id: string;
  session: string;
  tool: string;
  outcome: "completed" | "async" | "failed" | "cancelled" | "timeout" | "unknown";
  /** What the model sees. */
  for_llm: string;
  for_user?: string;
  is_error: boolean;
  async: boolean;
  /** Set if the result was offloaded; for_llm is then a reference. */
  artifact?: Artifact;
  error?: { code: string; message: string };
}

export interface Call {
  id: string;
  session: string;
  tool: string;
  args?: Record<string, unknown>;
  deadline?: string;
}

export interface CallOptions {
  /** Names the call: the same id gives the same result and never a second run. Default: a new one. */
  id?: string;
  /** Milliseconds to wait for the result, default an hour. The call itself goes on. */
  timeout?: number;
  /** Cancels the call. Its result then has the outcome cancelled. */
  signal?: AbortSignal;
  /** Gets the progress of the call, if its id is a token. */
  onProgress?: (progress: { message?: string; done?: number; total?: number; activity?: unknown[] }) => void;
  /** The other fields of a call. */
  channel?: string;
  chat_id?: string;
  deadline?: string;
  offload?: boolean;
}

export interface AnthropicTool {
  name: string;
  description?: string;
  input_schema: { type: "object"; [key: string]: unknown };
}

export interface OpenAITool {
  type: "function";
  function: { name: string; description?: string; parameters: Record<string, unknown> };
}

export interface Definition {
  description: string;
  /** A JSON Schema of type object. */
  parameters: Record<string, unknown>;
  effect?: "idempotent" | "keyed" | "once";
  artifacts?: boolean;
}

export interface Stevedore {
  nc: NatsConnection;
  session: string;
  /** The tools of the workers, in the form of the tool list of an API; exclude [] leaves none out. */
  tools(format?: "anthropic", exclude?: string[]): Promise<AnthropicTool[]>;
  tools(format: "openai", exclude?: string[]): Promise<OpenAITool[]>;
  /** Submits a call and waits for its result. A tool that failed is a result with is_error. */
  call(tool: string, args?: object, options?: CallOptions): Promise<Result>;
  /** Lines of an artifact, counted from 1; a negative start counts from the end. A cursor of an earlier answer needs no lines. */
  lines(artifact: string, start?: number, end?: number, more?: { cursor?: string }): Promise<string>;
  /** The lines of an artifact that match a regular expression (RE2). */
  grep(artifact: string, pattern: string, more?: { ignore_case?: boolean; context_before?: number; context_after?: number; max_results?: number; cursor?: string }): Promise<string>;
  /** Shortens the result of a tool that your program ran. The same id gives the same result. A text that
   * exceeds the server's limit for a message needs the package @nats-io/obj. */
  offload(tool: string, text: string, options?: { id?: string; is_error?: boolean; for_user?: string }): Promise<Result>;
  /** The state of a call, and its cancellation. */
  task(id: string): Promise<Record<string, unknown>>;
  cancel(id: string): Promise<Record<string, unknown>>;
  /** The list of the artifacts of the session, without the newest offset ones. */
  artifacts(more?: { offset?: number }): Promise<string>;
  /** What a jq query makes of an artifact. */
  jq(artifact: string, query: string, more?: { cursor?: string }): Promise<string>;
  /** The rows of a query over artifacts as tables. */
  sql(query: string, more?: { artifacts?: string[]; cursor?: string }): Promise<string>;
  /** Characters of an artifact. */
  page(artifact: string, offset?: number, limit?: number): Promise<string>;
  /** The completions of the session's async calls: those stored from now on, or those after a sequence (0: all). */
  completions(after?: number): AsyncGenerator<Result & { sequence: number }, void, void>;
  /** Serves a tool on a subject; see --remote-tool. An exception is a failure that the model sees. */
  serve(subject: string, definition: Definition, run: (args: any, call: Call) => unknown): Promise<void>;
  close(): Promise<void>;
}

/** Connects to a URL, with or without a credential; default NATS_URL. It waits 10 s for the server to start. */
export function connect(url?: string, options?: Options): Promise<Stevedore>;
