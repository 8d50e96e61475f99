/** The one form that every handler's result is brought into before a transport sends it. */

import type { CompiledOperation } from '../operations/compile.ts';
import { Reply } from '../operations/operation.ts';
import type { OperationContext } from '../operations/operation-input.ts';
import type { BodyBytes, Chunks } from '../operations/reply.ts';

export interface Answer {
  readonly status: number;
  /** Lower-case names, which win over the surface's own. Without `content-type` when the body is JSON. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
  /** True: `body` is JSON text. False: `headers` name its type, or there is no body. */
  readonly json: boolean;
  /** `body` has the members that the call requested, in their order, and nothing else. */
  readonly isRequested?: boolean;
  /** Texts of `Set-Cookie` headers. */
  readonly cookies?: readonly string[];
  /** Instead of `body`. */
  readonly stream?: AnswerStream | AnswerBytes;
}

/** A body that is read in one piece when it is about to be sent. */
export interface AnswerBytes {
  readonly read: () => Promise<BodyBytes>;
}

/** A body that is made while it is sent. */
export interface AnswerStream {
  readonly chunks: Chunks;
  /** Aborted when the deadline passes: whoever sends must stop then. */
  readonly signal: AbortSignal;
}

const noHeaders: Readonly<Record<string, string>> = Object.freeze({});

/** Text becomes `{"result": text}`; objects lose what the output does not declare; rendered JSON passes. */
export function answerOf(
  compiled: CompiledOperation,
  result: unknown,
  context: Pick<OperationContext, 'signal'>,
): Answer {
  if (result instanceof Reply) return answerOfReply(compiled, result, context);
  return { status: 200, headers: noHeaders, body: bodyOf(compiled, result), json: true };
}

const bodyOf = (compiled: CompiledOperation, value: unknown): string =>
  typeof value === 'string'
    ? JSON.stringify({ result: value })
    : (JSON.stringify(compiled.project(value)) ?? 'null');

function answerOfReply(
  compiled: CompiledOperation,
  reply: Reply,
  context: Pick<OperationContext, 'signal'>,
): Answer {
  const { status, headers, json, text, chunks, read, value } = reply;
  const cookies = reply.cookies.length > 0 ? { cookies: reply.cookies } : undefined;
  if (json !== undefined)
    return { status, headers, body: json, json: true, isRequested: reply.isRequested, ...cookies };
  if (chunks !== undefined)
    return {
      status,
      headers,
      body: '',
      json: false,
      ...cookies,
      stream: { chunks, signal: context.signal },
    };
  if (read !== undefined)
    return { status, headers, body: '', json: false, ...cookies, stream: { read } };
  if (value !== undefined)
    return { status, headers, body: bodyOf(compiled, value), json: true, ...cookies };
  return { status, headers, body: text ?? '', json: false, ...cookies };
}
