/** What comes into an operation: its schemas, and what its handler gets and knows. */

import type { Static, TObject, TSchema } from 'typebox';
import type { Caller } from '../caller.ts';
import type { Problem } from '../errors.ts';
import type { Logger } from '../telemetry/logger.ts';

/** What only the handler can tell the audit log about its call. */
export interface AuditFacts {
  /** Who it turned out to be: logins begin without a caller of their own. */
  readonly actor?: Caller;
  /** What really changed, instead of what was asked for. No secrets. */
  readonly changes?: unknown;
  /** What it was about, where the path says something that nobody may read, such as the token of a link. */
  readonly target?: string;
}

export type RequestHeaders = Readonly<Record<string, string | readonly string[] | undefined>>;

/** What a handler knows about the request beside its input. */
export interface OperationContext {
  readonly caller: Caller;
  /** The caller, if the credential still holds: for answers that last longer than a request. Throws 401 and 403. */
  readonly callerNow: () => Caller | Promise<Caller>;
  readonly requestId: string;
  /** The client's address, behind trusted proxies the real one. */
  readonly address: string;
  readonly userAgent: string | undefined;
  /** Id of the registered app that the request comes from; `anonymous-client` while apps are not told apart. */
  readonly clientId: string;
  /** The bearer as presented; only for operations that consume it. Never log it. */
  readonly bearer: string | undefined;
  /** Cookies of the request (client surface only). No proof of anything but that the browser is the one that got them. */
  readonly cookies: Readonly<Record<string, string>>;
  /** Headers as they came, credentials included; names in lower case. Only for code that operators write. */
  readonly headers?: RequestHeaders;
  /** The part of the address after `?`, as it came. Only for protocols that are not ours to decode. */
  readonly rawQuery?: string;
  /** The `Origin` header: which page the request comes from, when a browser says so. */
  readonly origin: string | undefined;
  /** `Sec-Fetch-Site`: how the page behind the request stands to us, when a browser says so. */
  readonly fetchSite: string | undefined;
  /** Aborted when the client goes away or the deadline passes. */
  readonly signal: AbortSignal;
  readonly log: Logger;
  /** What of the answer is looked at, where the caller has said so; a handler may leave the rest out. */
  readonly requested?: SelectedFields | undefined;
  /** `requested` names each member once: an answer with these alone, in their order (`Reply.requested`), goes out as it is. */
  readonly requestedExactly?: boolean | undefined;
  /** For operations that are written to the audit log; a later call adds to an earlier one. */
  audited(facts: AuditFacts): void;
}

/** Whether the credential of a long answer still holds (`callerNow`); not where nobody can tell. */
export async function stillHolds(callerNow: () => unknown): Promise<boolean> {
  try {
    await callerNow();
    return true;
  } catch {
    return false;
  }
}

/** Members of an answer by name and in the order of the request, each with the names inside it; none: all of it. */
export interface SelectedFields extends ReadonlyMap<string, SelectedFields> {
  /** What the member `__typename` is, where it is among them. */
  readonly typeName?: string;
}

/** How a body is written: JSON, or the fields of an HTML form (`application/x-www-form-urlencoded`). */
export type BodyType = 'json' | 'form';

/** A body that the handler reads piece by piece instead of getting it parsed. */
export interface StreamDeclaration {
  /**
   * Media types that are taken, lower case and without parameters (`text/csv`). Others are 415. The one entry `anyType`
   * takes every body, also one without a type.
   */
  readonly contentTypes: readonly string[];
  readonly description: string;
  /** Bytes; `bodyLimit` unless set. For operations that take a parsed body too, by its content type. */
  readonly limit?: number;
  /** The handler keeps the whole body in memory: it counts among those that are on their way, as parsed bodies do. */
  readonly inMemory?: boolean;
  /** An empty body, or none, is one of no bytes instead of 400. */
  readonly mayBeEmpty?: boolean;
  /** What the API description says about the body instead of "bytes": the fields of a multipart form. */
  readonly schema?: TSchema;
}

/**
 * The body of an operation that declares `input.stream`: read once, at the pace of the reader. Reading throws
 * 413 beyond `bodyLimit`, and ends with an error when the client goes away or sends nothing for a minute.
 */
export interface BodyStream extends AsyncIterable<Buffer> {
  /** Lower case, without parameters; empty where the client named none. */
  readonly contentType: string;
  /** The header as it came, with parameters such as the boundary of a multipart form. */
  readonly contentTypeHeader: string;
  /** Bytes, when the client announced them. */
  readonly length: number | undefined;
}

type Optional<S extends TSchema | undefined> = S extends TSchema
  ? Static<S>
  : Record<string, never>;

/** What the handler gets: decoded, validated, and with undeclared keys removed. */
export interface OperationInput<
  P extends TObject | undefined,
  Q extends TObject | undefined,
  B extends TSchema | undefined,
  H extends TObject | undefined,
  S extends StreamDeclaration | undefined = undefined,
> {
  readonly params: Optional<P>;
  readonly query: Optional<Q>;
  readonly body: S extends StreamDeclaration
    ? B extends TSchema
      ? Static<B> | undefined
      : Record<string, never>
    : Optional<B>;
  readonly headers: Optional<H>;
  readonly stream: S extends StreamDeclaration
    ? B extends TSchema
      ? BodyStream | undefined
      : BodyStream
    : undefined;
}

/** Schemas of the four places that input comes from. Header names are lower case. */
export interface InputSchemas<
  P extends TObject | undefined = TObject | undefined,
  Q extends TObject | undefined = TObject | undefined,
  B extends TSchema | undefined = TSchema | undefined,
  H extends TObject | undefined = TObject | undefined,
  S extends StreamDeclaration | undefined = StreamDeclaration | undefined,
> {
  readonly params?: P;
  readonly query?: Q;
  /** Parsed and validated before the handler runs. */
  readonly body?: B;
  readonly headers?: H;
  /**
   * Instead of `body`: the caller is admitted and the rest of the input is valid before the first byte is read. Beside
   * `body`: bodies of the stream's content types are streamed, all others parsed.
   */
  readonly stream?: S;
}

/** Decoded input of an operation whose types are not known here. */
export interface DecodedInput {
  readonly params: Record<string, unknown>;
  readonly query: Record<string, unknown>;
  readonly body: unknown;
  readonly headers: Record<string, unknown>;
  /** Only of operations that declare one. */
  readonly stream?: BodyStream | undefined;
  /** What was not taken as it came: keys that the operation does not know (rule `unknown`), and pages that were cut. */
  readonly notes?: readonly Problem[] | undefined;
}

/** A stream that was declared as `inMemory`, in one piece. Rejects as reading does. */
export async function wholeBody(stream: BodyStream | undefined): Promise<Buffer> {
  const chunks: Buffer[] = [];
  if (stream) for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}
