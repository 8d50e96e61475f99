/** The one form that every handler's result is brought into before a transport sends it. */
import { Reply } from '../operation.ts';
import type { CompiledOperation } from './compile.ts';

export interface Answer {
  readonly status: number;
  /** Lower-case names. Without `content-type` when the body is JSON. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** True when `body` is JSON text. */
  readonly json: boolean;
}

const noHeaders: Readonly<Record<string, string>> = Object.freeze({});

/** Text becomes `{"result": text}`; objects lose what the output does not declare; rendered JSON passes. */
export function answerOf(compiled: CompiledOperation, result: unknown): Answer {
  if (result instanceof Reply) return answerOfReply(result);
  if (typeof result === 'string') return { status: 200, headers: noHeaders, body: JSON.stringify({ result }), json: true };
  return { status: 200, headers: noHeaders, body: JSON.stringify(compiled.project(result)) ?? 'null', json: true };
}

function answerOfReply(reply: Reply): Answer {
  if (reply.json !== undefined) return { status: reply.status, headers: reply.headers, body: reply.json, json: true };
  return { status: reply.status, headers: reply.headers, body: reply.text ?? '', json: false };
}
