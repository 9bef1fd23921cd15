// Types of frameworks.mjs.
import type { Stevedore } from "./stevedore.mjs";

/** A failure with a code: "not_installed", "closed" (the program ended), "rejected" (the arguments
 * of read) or "failed"; or a StevedoreError of the bus. */
export class ResultsError extends Error {
  constructor(code: string, message: string, options?: ErrorOptions);
  code: string;
}

export interface ResultsOptions {
  /** Uses the workers of a bus instead of the program. */
  bus?: Stevedore;
  /** The program, default "stevedore", and more arguments of "stevedore mcp wrap", such as ["--offload-threshold", "1000"]. */
  command?: string;
  args?: string[];
  /** The conversation, a token; default a new one. With the same one, results stay readable after a restart. */
  session?: string;
  /** The directory of the stored results. */
  data?: string;
  /** The environment of the program. */
  env?: Record<string, string | undefined>;
  /** Shorter results are not sent to the program; default 2000 characters. */
  minChars?: number;
  /** Learns why a result could not be stored. The model then gets it as it is. */
  onError?: (error: Error) => void;
}

export interface ReadArgs { id?: string; lines?: string; grep?: string; jq?: string; sql?: string; offset?: number; cursor?: string }

interface WithSignal { signal?: AbortSignal }

/** Stores long results (from 10,000 characters with the program) and reads them. */
export interface Results {
  session?: string;
  /** The value if it is short, or else a reference for the model. The same result has the same reference. */
  offload<T>(tool: string, value: T, options?: WithSignal): Promise<T | string>;
  /** The value with a reference in place of each long string. */
  shorten<T>(tool: string, value: T, options?: WithSignal): Promise<T>;
  /** Reads a stored result; without an id, the list. */
  read(args?: ReadArgs, options?: WithSignal): Promise<string>;
  /** The tool for the model. run returns the text of an error instead of throwing it. */
  tool: { name: string; description: string; parameters: Record<string, unknown>; run(args: ReadArgs, options?: WithSignal): Promise<string> };
  close(): Promise<void>;
}

export function openResults(options?: ResultsOptions): Results;

/** Vercel AI SDK 6: the tools, whose long results the model sees as references, and read_result. */
export function forAI<T extends Record<string, any>>(ai: { jsonSchema: (schema: any) => any }, results: Results, tools: T): T & { read_result: any };
/** LangChain 1: a middleware for createAgent, with the tool read_result. */
export function forLangChain(langchain: { createMiddleware: (options: any) => any; tool: (...args: any[]) => any }, results: Results): any;
/** OpenAI Agents: the function tools with a guardrail for their outputs, and read_result. */
export function forAgents(agents: { tool: (options: any) => any }, results: Results, tools: any[]): any[];
/** Claude Agent SDK: hooks and an MCP server for the options of query. */
export function forClaude(results: Results, options?: { command?: string; data?: string; matcher?: string }): { hooks: any; mcpServers: any };
